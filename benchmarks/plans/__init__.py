"""Benchmarks of planning: curves, plans, replays, queues."""
