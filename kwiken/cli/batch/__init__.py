"""Verb of batch jobs: a log in, how long the job takes with other resources, and on which racks it runs."""
