"""Simulated decision-support queries, and the event logs of their runs."""
