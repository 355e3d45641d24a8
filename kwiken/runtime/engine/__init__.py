"""Execution of requests: the DAG run, hedged calls, and what is recorded of them."""
