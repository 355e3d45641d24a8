"""Benchmarks of calls within one process: race, DAG, threads."""
