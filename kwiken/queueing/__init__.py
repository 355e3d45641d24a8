"""Queues: what load does to latencies, and what copies do to load.

The model is of replicas that have processors of their own.
"""
