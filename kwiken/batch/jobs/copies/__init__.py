"""Copies of tasks: a budget apportioned over the stages of jobs, beside speculation and doubling."""

from __future__ import annotations

from kwiken.batch.jobs.copies.comparison import (
    CopyComparison as CopyComparison,
    compare_copies as compare_copies,
)
