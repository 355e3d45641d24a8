"""Planned batch jobs on Dask: submitted to the workers of their racks, with every decision one line."""

from __future__ import annotations

from kwiken.apps.batch_run.dask_jobs import (
    RACK_RESOURCE as RACK_RESOURCE,
    DaskJobs as DaskJobs,
    connect as connect,
    load_jobs as load_jobs,
    workers_by_rack as workers_by_rack,
    workers_of as workers_of,
)
from kwiken.apps.batch_run.profiling import profile_job as profile_job
from kwiken.apps.batch_run.recorder import record as record
from kwiken.apps.batch_run.run import BatchRun as BatchRun, BatchRunOutcome as BatchRunOutcome
