"""Simulated racks: batch jobs with slots and flows in one event loop, and schedulers behind one protocol."""
