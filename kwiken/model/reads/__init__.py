"""Reads and writes: told apart by the name, the method or the query of a call."""
