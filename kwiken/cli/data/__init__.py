"""Verbs of data: storage workloads and traffic."""
