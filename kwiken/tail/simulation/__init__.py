"""Trace-driven simulation of requests under a plan, and comparison of plans by common random numbers."""
