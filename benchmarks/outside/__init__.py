"""Benchmarks of plans on later requests that do not stand still."""
