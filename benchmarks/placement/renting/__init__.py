"""Benchmarks of nodes that come and go, and of the rules that see a load rise."""
