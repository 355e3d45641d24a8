"""Queueing simulator: stations, replicas, races of calls with their copies."""
