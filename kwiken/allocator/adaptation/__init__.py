"""Adaptation: keeps targets while load and nodes change: scales replicas up, then out, then moves them."""
