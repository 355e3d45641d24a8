"""Benchmark of the gateway beside Ray Serve, by each of the ways to it: the same chain of stages."""
