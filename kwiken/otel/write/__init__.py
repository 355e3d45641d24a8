"""Span writer: request records converted to spans and written to files and collectors."""
