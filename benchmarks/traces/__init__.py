"""Benchmarks of spans and metrics: what they cost to write, and to read."""
