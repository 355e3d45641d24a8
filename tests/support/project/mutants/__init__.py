"""Mutants of the allocator and of its simulated clusters: drawn at random, each given to the tests of its room."""
