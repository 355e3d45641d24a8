"""Fault injection of the demo: a separate process that pauses replicas."""
