"""Batch jobs: a log in, how long the job takes with other resources out, and on which racks it runs."""
