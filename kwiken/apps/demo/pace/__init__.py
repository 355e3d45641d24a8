"""Pace of the demo: the rate that fits the machine, and whether the machine let the trial measure."""
