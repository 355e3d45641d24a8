"""Comparison of a plan on a running service: with no plan, and with one percentile for all stages."""
