"""Readers of traffic: calls between the instances in traces, and flow logs, as flows between endpoints."""
