"""Delays of copies: while calls of all stages are slow, and by the present latency of a stage."""
