"""Judging: a plan, an even spread and hindsight, judged on later requests by percentiles and spend."""

from __future__ import annotations

from kwiken.tail.judging.blocks import judge_blocks as judge_blocks
from kwiken.tail.judging.judge_plan import judge as judge, judge_recordings as judge_recordings
from kwiken.tail.judging.judged_plans import EVEN as EVEN, HINDSIGHT as HINDSIGHT, PLAN as PLAN
from kwiken.tail.judging.judgement_document import Arm as Arm, Judgement as Judgement
from kwiken.tail.judging.tried_plan import (
    MIN_TRIED as MIN_TRIED,
    corrected as corrected,
    corrected_expectation as corrected_expectation,
    correction_of as correction_of,
)
