"""Simulated cloud: jobs on reserved and rented nodes, outside load, spin-up and what it costs (HCloud)."""
