"""Profiles of services learned from traces: latencies of stages, their distributions, costs, consistency."""
