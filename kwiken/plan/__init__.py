"""Plan documents: policies and budgets of a service's stages, with the expected latency and spend."""

from __future__ import annotations

from kwiken.plan.accounts import (
    BY_FLOOR,
    PEAK_BUCKETS,
    PEAK_WINDOW_S,
    REQUEST,
    WITHIN,
    Account,
    Floor,
    grant,
)
from kwiken.plan.ledger_terms import LedgerTerms
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
    "BY_FLOOR",
    "MAX_THREADS",
    "PEAK_BUCKETS",
    "PEAK_WINDOW_S",
    "REQUEST",
    "VERSION",
    "WITHIN",
    "Account",
    "Budgets",
    "CatchUpPolicy",
    "Costs",
    "Expected",
    "Floor",
    "Intervals",
    "Ladder",
    "LedgerTerms",
    "PartialPolicy",
    "Plan",
    "SpanMatch",
    "StagePlan",
    "grant",
    "later",
    "tidied",
]
