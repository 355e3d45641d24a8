"""The senses: spans out, traces in."""
