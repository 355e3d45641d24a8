"""Benchmarks of the autopilot: a day in simulation, and half an hour with real processes."""
