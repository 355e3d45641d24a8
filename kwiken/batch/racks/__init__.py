"""Racks for batch jobs: how many each gets, which, and in which order."""
