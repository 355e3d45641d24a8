"""Batch jobs of a running cluster: lines by quality, one run of each job on the nodes, and its result."""
