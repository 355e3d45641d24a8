"""Contention: calibration of kernels, ramps beside a workload, and crosstalk. Pure; measurements come in."""
