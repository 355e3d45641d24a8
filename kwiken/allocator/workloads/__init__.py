"""Workloads: targets, measurements, and predictions of performance and contention with their uncertainty."""
