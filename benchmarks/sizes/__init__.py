"""Benchmarks of sizing: replicas and reissues together beside each alone."""
