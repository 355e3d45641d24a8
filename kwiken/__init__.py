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
    from kwiken._draw import Box, boxes_of, to_dot, to_mermaid
    from kwiken._handler import Signature
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
    from kwiken._profile import Profile, StageProfile

# Whatever needs NumPy loads on first use: a stage's replica needs none of it and starts sooner.
_LAZY = {
    "Box": "kwiken._draw",
    "Budgets": "kwiken._plan",
    "CatchUpPolicy": "kwiken._plan",
    "Costs": "kwiken._plan",
    "Expected": "kwiken._plan",
    "Intervals": "kwiken._plan",
    "Ladder": "kwiken._plan",
    "PartialPolicy": "kwiken._plan",
    "Plan": "kwiken._plan",
    "Profile": "kwiken._profile",
    "Signature": "kwiken._handler",
    "SpanMatch": "kwiken._plan",
    "StagePlan": "kwiken._plan",
    "StageProfile": "kwiken._profile",
    "boxes_of": "kwiken._draw",
    "service_from_dict": "kwiken._codec",
    "service_from_graph": "kwiken._codec",
    "service_from_json": "kwiken._codec",
    "service_from_yaml": "kwiken._codec",
    "service_to_dict": "kwiken._codec",
    "service_to_graph": "kwiken._codec",
    "service_to_json": "kwiken._codec",
    "service_to_yaml": "kwiken._codec",
    "to_dot": "kwiken._draw",
    "to_mermaid": "kwiken._draw",
}

__all__ = [
    "Box",
    "Budgets",
    "CatchUpPolicy",
    "Costs",
    "DefinitionError",
    "Expected",
    "InputError",
    "Intervals",
    "KwikenError",
    "Ladder",
    "Partial",
    "PartialPolicy",
    "Plan",
    "Profile",
    "Reissue",
    "Service",
    "Signature",
    "SpanMatch",
    "Stage",
    "StagePlan",
    "StageProfile",
    "boxes_of",
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
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_LAZY[name]), name)
    globals()[name] = value
    return value
