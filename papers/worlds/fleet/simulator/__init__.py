"""Simulator of a cluster: a scenario in, events on arrays, and what every workload got."""
