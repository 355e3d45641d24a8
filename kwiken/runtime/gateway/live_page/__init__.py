"""Live page of a gateway: the DAG, budgets over time, slow requests and plans, in a browser."""
