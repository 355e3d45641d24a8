"""Batch jobs: DAGs of stages with tasks, their documents, and how long they take with other resources."""

from __future__ import annotations

from kwiken.batch.jobs.facts import facts_of as facts_of, task_columns as task_columns
from kwiken.batch.jobs.job import (
    MAX_MS as MAX_MS,
    MAX_STAGES as MAX_STAGES,
    MAX_TASKS as MAX_TASKS,
    BatchJob as BatchJob,
    BatchJobs as BatchJobs,
    BatchStage as BatchStage,
    Engine as Engine,
    ExecutorSpan as ExecutorSpan,
    StageBytes as StageBytes,
    TaskTimes as TaskTimes,
)
from kwiken.batch.jobs.recurring import (
    MAX_SCHEDULE_BYTES as MAX_SCHEDULE_BYTES,
    RecurringSchedule as RecurringSchedule,
    scheduled_runs as scheduled_runs,
)
from kwiken.batch.jobs.sizes import forecast_size as forecast_size, predict_size as predict_size
