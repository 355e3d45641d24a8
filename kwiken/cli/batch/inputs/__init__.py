"""Inputs of batch verbs: files of logs, event logs of a history server, documents of jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwiken.base.lazy import lazy_names

if TYPE_CHECKING:
    from kwiken.cli.batch.inputs.job_inputs import (
        jobs_in as jobs_in,
        jobs_of_logs as jobs_of_logs,
        opened_logs as opened_logs,
        some_of as some_of,
        timed_jobs_in as timed_jobs_in,
        unknown_job as unknown_job,
    )

__getattr__ = lazy_names(__name__, __file__)
