"""Verbs of storage: learn a workload, generate, replay and judge it, pack data sets on nodes."""
