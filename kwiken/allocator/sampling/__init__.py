"""Sampling: sizes of samples with a guarantee, agents that place by them on one shared state."""
