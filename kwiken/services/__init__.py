"""Real services written on the runtime."""
