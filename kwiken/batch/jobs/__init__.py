"""Batch jobs: DAGs of stages with tasks, their documents, and how long they take with other resources."""
