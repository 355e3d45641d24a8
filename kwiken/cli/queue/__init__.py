"""Verbs of batch jobs of a running cluster: `submit` and `queue`."""
