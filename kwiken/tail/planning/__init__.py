"""Planner: makes a plan with its expectation from a profile and budgets."""

from __future__ import annotations

from kwiken.tail.planning.cuts_of_p99 import P99Cut as P99Cut, p99_cuts as p99_cuts
from kwiken.tail.planning.planner import make_plan as make_plan, study_plan as study_plan
from kwiken.tail.planning.study import (
    LoadStudy as LoadStudy,
    PlanSettings as PlanSettings,
    PlanStudy as PlanStudy,
)
