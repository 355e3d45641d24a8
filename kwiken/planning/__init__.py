"""The planner: from a profile and budgets to a plan with its expectation."""

from __future__ import annotations

from kwiken.planning.later_requests import HeldOut, held_out, replayed
from kwiken.planning.planner import PlanStudy, make_plan, study_plan
from kwiken.planning.useless_budget import IN_VAIN, in_vain

__all__ = ["IN_VAIN", "HeldOut", "PlanStudy", "held_out", "in_vain", "make_plan", "replayed", "study_plan"]
