"""Verbs of storage: learn a workload, generate and judge it, pack data sets on nodes."""
