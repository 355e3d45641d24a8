"""Traces of block I/O: records as arrays, readers of formats, sequences, reuse of blocks."""
