"""Figures and tables of a source as data: rows with verdicts, bounds, and how results become both."""
