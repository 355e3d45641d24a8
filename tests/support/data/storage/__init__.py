"""Traces of block I/O for tests: a log beside a hot zone, Zipf blocks, the text of the known formats."""
