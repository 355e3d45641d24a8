"""Verbs of jobs planned on racks: the document of racks, the run, the demo, and the picture of a plan."""
