"""Benchmarks of the command: its start, and the demo."""
