"""Verbs of the allocator: how much of which nodes a workload needs."""
