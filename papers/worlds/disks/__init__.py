"""Simulated disks and drawn workloads of ten applications, for the reproductions of storage systems."""
