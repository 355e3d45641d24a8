"""Variance-response curves: variance of a stage's latency by the share of its calls that are reissued."""
