"""Planned batch jobs on Dask: submitted to the workers of their racks, with every decision one line."""
