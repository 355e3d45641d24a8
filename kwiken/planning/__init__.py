"""Planner: makes a plan with its expectation from a profile and budgets."""

from __future__ import annotations

from kwiken.planning.later_requests import HeldOut, held_out, replayed
from kwiken.planning.planner import PlanStudy, make_plan, study_plan
from kwiken.planning.useless_budget import NO_GAIN, no_gain_notes

__all__ = [
    "NO_GAIN",
    "HeldOut",
    "PlanStudy",
    "held_out",
    "make_plan",
    "no_gain_notes",
    "replayed",
    "study_plan",
]
