"""Planner: makes a plan with its expectation from a profile and budgets."""

from __future__ import annotations

from kwiken.planning.planner import make_plan, study_plan
from kwiken.planning.settings import PlanSettings
from kwiken.planning.study import LoadStudy, PlanStudy

__all__ = [
    "LoadStudy",
    "PlanSettings",
    "PlanStudy",
    "make_plan",
    "study_plan",
]
