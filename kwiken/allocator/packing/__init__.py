"""Packing: tasks by what they use, with a dial between nodes and risk."""
