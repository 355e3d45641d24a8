"""Batch jobs: DAGs of stages with tasks, their documents, and how long they take with other resources."""

from __future__ import annotations

from kwiken.batch.jobs.facts import facts_of as facts_of
from kwiken.batch.jobs.job import (
    BatchJob as BatchJob,
    BatchJobs as BatchJobs,
    BatchStage as BatchStage,
    ExecutorSpan as ExecutorSpan,
    StageBytes as StageBytes,
    TaskTimes as TaskTimes,
    check_job as check_job,
)
