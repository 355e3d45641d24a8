"""Batch jobs of a running cluster: a queue by priority and length, one run of each job, and its result."""
