"""Verbs of jobs planned on racks: the document of racks, the run, and the demo."""
