"""Batch jobs of a running cluster: lines by quality, one run of each job on the nodes, and its result."""

from __future__ import annotations

from kwiken.runtime.upkeep.jobs.job_runner import JobRunner as JobRunner
