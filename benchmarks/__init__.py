"""Benchmarks against alternatives, side by side in one run: `python -m benchmarks`."""
