"""Evaluation: plans judged on requests that they have not seen, with the ledger replayed in order of time."""

from __future__ import annotations

from kwiken.evaluation.blocks import judge_blocks
from kwiken.evaluation.compared_plans import EVEN, HINDSIGHT, PLAN
from kwiken.evaluation.judgement import Arm, Judgement
from kwiken.evaluation.later_requests import judge, judge_recordings
from kwiken.evaluation.tried_plan import (
    MIN_TRIED,
    corrected,
    corrected_expectation,
    correction_of,
)

__all__ = [
    "EVEN",
    "HINDSIGHT",
    "MIN_TRIED",
    "PLAN",
    "Arm",
    "Judgement",
    "corrected",
    "corrected_expectation",
    "correction_of",
    "judge",
    "judge_blocks",
    "judge_recordings",
]
