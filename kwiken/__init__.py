"""Tail latency bought for services of many stages: one budget of reissues, partial answers and catch-up.

Importing this package loads nothing heavy; each name loads its module on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwiken.lazy import lazy_names

if TYPE_CHECKING:
    from kwiken.diagnosis import by_class, explain, heat_maps
    from kwiken.errors import DefinitionError, InputError, KwikenError
    from kwiken.evaluation import judge, judge_blocks
    from kwiken.partial import fan_out_rules
    from kwiken.plan import Budgets, Plan, SpanMatch, StagePlan
    from kwiken.planning import PlanSettings, make_plan, study_plan
    from kwiken.profile import Profile, StageProfile, decayed, profile_from_json, profile_to_json
    from kwiken.queueing.load import QueueSettings
    from kwiken.service import (
        GrpcCall,
        HttpCall,
        Partial,
        Reissue,
        Service,
        Stage,
        service_from_dict,
        service_from_graph,
        service_from_json,
        service_from_yaml,
        service_to_dict,
        service_to_graph,
        service_to_json,
        service_to_yaml,
        to_dot,
        to_mermaid,
    )
    from kwiken.simulation import simulate

__all__ = [
    "Budgets",
    "DefinitionError",
    "GrpcCall",
    "HttpCall",
    "InputError",
    "KwikenError",
    "Partial",
    "Plan",
    "PlanSettings",
    "Profile",
    "QueueSettings",
    "Reissue",
    "Service",
    "SpanMatch",
    "Stage",
    "StagePlan",
    "StageProfile",
    "by_class",
    "decayed",
    "explain",
    "fan_out_rules",
    "heat_maps",
    "judge",
    "judge_blocks",
    "make_plan",
    "profile_from_json",
    "profile_to_json",
    "service_from_dict",
    "service_from_graph",
    "service_from_json",
    "service_from_yaml",
    "service_to_dict",
    "service_to_graph",
    "service_to_json",
    "service_to_yaml",
    "simulate",
    "study_plan",
    "to_dot",
    "to_mermaid",
]

__getattr__ = lazy_names(
    __name__,
    {
        "kwiken.diagnosis": (
            "by_class",
            "explain",
            "heat_maps",
        ),
        "kwiken.errors": (
            "DefinitionError",
            "InputError",
            "KwikenError",
        ),
        "kwiken.evaluation": (
            "judge",
            "judge_blocks",
        ),
        "kwiken.partial": ("fan_out_rules",),
        "kwiken.plan": (
            "Budgets",
            "Plan",
            "SpanMatch",
            "StagePlan",
        ),
        "kwiken.planning": (
            "PlanSettings",
            "make_plan",
            "study_plan",
        ),
        "kwiken.profile": (
            "Profile",
            "StageProfile",
            "decayed",
            "profile_from_json",
            "profile_to_json",
        ),
        "kwiken.queueing.load": ("QueueSettings",),
        "kwiken.service": (
            "GrpcCall",
            "HttpCall",
            "Partial",
            "Reissue",
            "Service",
            "Stage",
            "service_from_dict",
            "service_from_graph",
            "service_from_json",
            "service_from_yaml",
            "service_to_dict",
            "service_to_graph",
            "service_to_json",
            "service_to_yaml",
            "to_dot",
            "to_mermaid",
        ),
        "kwiken.simulation": ("simulate",),
    },
)
