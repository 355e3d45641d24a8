"""Queueing model of a service: the effect of load on latencies, and of copies on load.

Assumes that every replica has processors of its own; contention for a shared machine is not modelled.
"""
