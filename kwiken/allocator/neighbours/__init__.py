"""Neighbours of a workload: a hashed index, prediction from neighbours as published, and error intervals."""
