"""Batch jobs of a running cluster: they wait in lines by quality, run once on its nodes, and end."""

from __future__ import annotations

from kwiken.runtime.upkeep.jobs.job_runner import JobRunner as JobRunner
