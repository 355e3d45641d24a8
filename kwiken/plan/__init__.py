"""Plan documents: policies and budgets of a service's stages, with the expected latency and spend."""

from __future__ import annotations

from kwiken.plan.plan import (
    MAX_THREADS,
    VERSION,
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
from kwiken.plan.rounding import later, tidied

__all__ = [
    "MAX_THREADS",
    "VERSION",
    "Budgets",
    "CatchUpPolicy",
    "Costs",
    "Expected",
    "Intervals",
    "Ladder",
    "PartialPolicy",
    "Plan",
    "SpanMatch",
    "StagePlan",
    "later",
    "tidied",
]
