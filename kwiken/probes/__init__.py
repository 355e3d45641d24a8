"""Probes: contention kernels and their measurements on this machine, and sandboxed profiling of stages.

Names load on first use: programs of this package run as processes of their own, and need no NumPy.
"""
