"""Evaluation: plans judged on requests that they have not seen, with the ledger replayed in order of time."""

from __future__ import annotations

from kwiken.tail.evaluation.blocks import judge_blocks as judge_blocks
from kwiken.tail.evaluation.compared_plans import EVEN as EVEN, HINDSIGHT as HINDSIGHT, PLAN as PLAN
from kwiken.tail.evaluation.later_requests import judge as judge, judge_recordings as judge_recordings
from kwiken.tail.evaluation.plan_judgement import Arm as Arm, Judgement as Judgement
from kwiken.tail.evaluation.tried_plan import (
    MIN_TRIED as MIN_TRIED,
    corrected as corrected,
    corrected_expectation as corrected_expectation,
    correction_of as correction_of,
)
