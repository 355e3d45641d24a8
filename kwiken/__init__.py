"""The brain: service and profile models, curves, apportionment, simulation. No sockets, files or clock."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from kwiken._errors import DefinitionError, InputError, KwikenError
from kwiken._service import Service
from kwiken._stage import Partial, Reissue, Stage

if TYPE_CHECKING:
    from kwiken._codec import (
        service_from_dict,
        service_from_graph,
        service_from_json,
        service_from_yaml,
        service_to_dict,
        service_to_graph,
        service_to_json,
        service_to_yaml,
    )
    from kwiken._compare import compare_policies
    from kwiken._contradiction import told_contradiction
    from kwiken._correlation import Correlation, copy_correlation
    from kwiken._costs import cost_of_one_call, costs, default_model
    from kwiken._curve import GRID, Curve, reissue_curve
    from kwiken._curve_bounds import CurveBounds, curve_bounds
    from kwiken._dag import critical_path, end_to_end, finish_times, parents_first
    from kwiken._draw import Box, boxes_of, to_dot, to_mermaid
    from kwiken._explain import Explanation, PathStory, StageStory, explain
    from kwiken._fan_out_rules import FanOutRules, fan_out_rules
    from kwiken._handler import Signature
    from kwiken._heat import Heat, heat_maps
    from kwiken._held_out import HeldOut, HeldOutArm, held_out
    from kwiken._hull import lower_hull
    from kwiken._objective import OBJECTIVES, Verdict, part_of
    from kwiken._once import kept_single
    from kwiken._plan import (
        Budgets,
        CatchUpPolicy,
        Costs,
        Expected,
        Intervals,
        Ladder,
        PartialPolicy,
        Plan,
        SpanMatch,
        StagePlan,
    )
    from kwiken._planner import PlanStudy, make_plan, study_plan
    from kwiken._pool import Pool, kaplan_meier, pool
    from kwiken._printable import printable, printable_json
    from kwiken._profile import OWN_TIME, Profile, StageProfile
    from kwiken._profile_codec import profile_from_json, profile_to_json
    from kwiken._simulate import Simulation, ladder, simulate
    from kwiken._spent import spent_by_model
    from kwiken._stage_curves import stage_curves
    from kwiken._sumvar import Allocation, equal_budget, sumvar, uniform_fraction
    from kwiken._text import parse_json
    from kwiken.learning import ClassOutcome, Drift, by_class, decayed, drift, guess_by_kind, guess_copies

# Whatever needs NumPy loads on first use: a stage's replica needs none of it and starts sooner.
_LAZY = {
    "Allocation": "kwiken._sumvar",
    "Box": "kwiken._draw",
    "Budgets": "kwiken._plan",
    "CatchUpPolicy": "kwiken._plan",
    "ClassOutcome": "kwiken.learning",
    "Correlation": "kwiken._correlation",
    "Costs": "kwiken._plan",
    "Curve": "kwiken._curve",
    "CurveBounds": "kwiken._curve_bounds",
    "Drift": "kwiken.learning",
    "Expected": "kwiken._plan",
    "Explanation": "kwiken._explain",
    "FanOutRules": "kwiken._fan_out_rules",
    "GRID": "kwiken._curve",
    "Heat": "kwiken._heat",
    "HeldOut": "kwiken._held_out",
    "HeldOutArm": "kwiken._held_out",
    "Intervals": "kwiken._plan",
    "Ladder": "kwiken._plan",
    "OBJECTIVES": "kwiken._objective",
    "OWN_TIME": "kwiken._profile",
    "PartialPolicy": "kwiken._plan",
    "PathStory": "kwiken._explain",
    "Plan": "kwiken._plan",
    "PlanStudy": "kwiken._planner",
    "Pool": "kwiken._pool",
    "Profile": "kwiken._profile",
    "Signature": "kwiken._handler",
    "Simulation": "kwiken._simulate",
    "SpanMatch": "kwiken._plan",
    "StagePlan": "kwiken._plan",
    "StageProfile": "kwiken._profile",
    "StageStory": "kwiken._explain",
    "Verdict": "kwiken._objective",
    "boxes_of": "kwiken._draw",
    "by_class": "kwiken.learning",
    "compare_policies": "kwiken._compare",
    "copy_correlation": "kwiken._correlation",
    "cost_of_one_call": "kwiken._costs",
    "costs": "kwiken._costs",
    "critical_path": "kwiken._dag",
    "curve_bounds": "kwiken._curve_bounds",
    "decayed": "kwiken.learning",
    "default_model": "kwiken._costs",
    "drift": "kwiken.learning",
    "end_to_end": "kwiken._dag",
    "equal_budget": "kwiken._sumvar",
    "explain": "kwiken._explain",
    "fan_out_rules": "kwiken._fan_out_rules",
    "guess_by_kind": "kwiken.learning",
    "guess_copies": "kwiken.learning",
    "finish_times": "kwiken._dag",
    "heat_maps": "kwiken._heat",
    "held_out": "kwiken._held_out",
    "kaplan_meier": "kwiken._pool",
    "kept_single": "kwiken._once",
    "ladder": "kwiken._simulate",
    "lower_hull": "kwiken._hull",
    "make_plan": "kwiken._planner",
    "parents_first": "kwiken._dag",
    "part_of": "kwiken._objective",
    "parse_json": "kwiken._text",
    "pool": "kwiken._pool",
    "printable": "kwiken._printable",
    "printable_json": "kwiken._printable",
    "profile_from_json": "kwiken._profile_codec",
    "profile_to_json": "kwiken._profile_codec",
    "reissue_curve": "kwiken._curve",
    "service_from_dict": "kwiken._codec",
    "service_from_graph": "kwiken._codec",
    "service_from_json": "kwiken._codec",
    "service_from_yaml": "kwiken._codec",
    "service_to_dict": "kwiken._codec",
    "service_to_graph": "kwiken._codec",
    "service_to_json": "kwiken._codec",
    "service_to_yaml": "kwiken._codec",
    "simulate": "kwiken._simulate",
    "spent_by_model": "kwiken._spent",
    "stage_curves": "kwiken._stage_curves",
    "study_plan": "kwiken._planner",
    "sumvar": "kwiken._sumvar",
    "to_dot": "kwiken._draw",
    "to_mermaid": "kwiken._draw",
    "told_contradiction": "kwiken._contradiction",
    "uniform_fraction": "kwiken._sumvar",
}

__all__ = [
    "GRID",
    "OBJECTIVES",
    "OWN_TIME",
    "Allocation",
    "Box",
    "Budgets",
    "CatchUpPolicy",
    "ClassOutcome",
    "Correlation",
    "Costs",
    "Curve",
    "CurveBounds",
    "DefinitionError",
    "Drift",
    "Expected",
    "Explanation",
    "FanOutRules",
    "Heat",
    "HeldOut",
    "HeldOutArm",
    "InputError",
    "Intervals",
    "KwikenError",
    "Ladder",
    "Partial",
    "PartialPolicy",
    "PathStory",
    "Plan",
    "PlanStudy",
    "Pool",
    "Profile",
    "Reissue",
    "Service",
    "Signature",
    "Simulation",
    "SpanMatch",
    "Stage",
    "StagePlan",
    "StageProfile",
    "StageStory",
    "Verdict",
    "boxes_of",
    "by_class",
    "compare_policies",
    "copy_correlation",
    "cost_of_one_call",
    "costs",
    "critical_path",
    "curve_bounds",
    "decayed",
    "default_model",
    "drift",
    "end_to_end",
    "equal_budget",
    "explain",
    "fan_out_rules",
    "finish_times",
    "guess_by_kind",
    "guess_copies",
    "heat_maps",
    "held_out",
    "kaplan_meier",
    "kept_single",
    "ladder",
    "lower_hull",
    "make_plan",
    "parents_first",
    "parse_json",
    "part_of",
    "pool",
    "printable",
    "printable_json",
    "profile_from_json",
    "profile_to_json",
    "reissue_curve",
    "service_from_dict",
    "service_from_graph",
    "service_from_json",
    "service_from_yaml",
    "service_to_dict",
    "service_to_graph",
    "service_to_json",
    "service_to_yaml",
    "simulate",
    "spent_by_model",
    "stage_curves",
    "study_plan",
    "sumvar",
    "to_dot",
    "to_mermaid",
    "told_contradiction",
    "uniform_fraction",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_LAZY[name]), name)
    globals()[name] = value
    return value
