"""Contention: calibration, ramps, crosstalk, and errors of scores that a target bears. Pure."""
