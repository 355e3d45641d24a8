"""Evaluation: plans judged on requests that they have not seen, with the ledger replayed in order of time."""

from __future__ import annotations

from kwiken.evaluation.blocks import judge_blocks
from kwiken.evaluation.judgement import Arm, Cut, Judgement, Outcome, Stretch
from kwiken.evaluation.judging import Segment, judge, judge_segments
from kwiken.evaluation.rivals import EVEN, HINDSIGHT, PLAN, rivals

__all__ = [
    "EVEN",
    "HINDSIGHT",
    "PLAN",
    "Arm",
    "Cut",
    "Judgement",
    "Outcome",
    "Segment",
    "Stretch",
    "judge",
    "judge_blocks",
    "judge_segments",
    "rivals",
]
