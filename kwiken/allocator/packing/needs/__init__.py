"""Needs of tasks: clusters by use, and the least of a resource that keeps a task's latency."""
