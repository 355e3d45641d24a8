"""Sizing and placing: how many replicas of a workload, of which size, on which of several unequal nodes."""
