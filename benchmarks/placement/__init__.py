"""Benchmarks of the allocator: classification, placement, simulated fleets."""
