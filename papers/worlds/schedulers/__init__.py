"""Schedulers of publications and baselines, which the worlds compare."""
