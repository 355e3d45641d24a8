"""Sections of a report, and the data that they are made from."""
