"""Stages with data: what their disks do, learned from traces, and which data sets share a disk."""
