"""Evaluation: plans judged on requests that they have not seen, with the ledger replayed in order of time."""

from __future__ import annotations

from kwiken.evaluation.blocks import judge_blocks
from kwiken.evaluation.compared_plans import EVEN, HINDSIGHT, PLAN
from kwiken.evaluation.judgement import Arm, Judgement
from kwiken.evaluation.later_requests import judge, judge_recordings

__all__ = [
    "EVEN",
    "HINDSIGHT",
    "PLAN",
    "Arm",
    "Judgement",
    "judge",
    "judge_blocks",
    "judge_recordings",
]
