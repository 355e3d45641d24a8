"""Readers of job logs: Spark's event logs, Hadoop's job histories, recordings of Dask, tables of SWIM."""

from __future__ import annotations

from kwiken.batch.jobs.logs.reading import (
    MAX_LINE as MAX_LINE,
    LogFindings as LogFindings,
    read_log as read_log,
)
from kwiken.batch.jobs.logs.swim import swim_job as swim_job
