"""Applications on all wings: the report, the demo, the demo of placement."""
