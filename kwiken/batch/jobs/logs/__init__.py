"""Readers of job logs: Spark's event logs, Hadoop's job histories, recordings of Dask, tables of SWIM."""
