"""Example services written on the runtime."""
