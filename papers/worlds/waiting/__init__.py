"""Lined fleet: jobs that wait for nodes of the quality that they need, on a fleet that punishes haste."""
