"""Trial of one synthetic DAG: requests to learn from, and requests to judge by."""
