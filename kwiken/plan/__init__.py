"""Plan documents: policies and budgets of a service's stages, with the expected latency and spend."""

from __future__ import annotations

from kwiken.plan.accounts import (
    BY_FLOOR,
    CALL,
    OWN_COST,
    REQUEST,
    VERDICTS,
    WITHIN,
    Account,
    Bounds,
    Floor,
    grant,
)
from kwiken.plan.ledger_terms import (
    RESERVE_SHARE,
    STAGE_SLACK,
    UNSTATED_SHARE,
    LedgerTerms,
    only_prompt_earn,
)
from kwiken.plan.plan import (
    MAX_THREADS,
    VERSION,
    Budgets,
    CatchUpPolicy,
    Correction,
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
from kwiken.plan.windows import PEAK_BUCKETS, PEAK_WINDOW_S

__all__ = [
    "BY_FLOOR",
    "CALL",
    "MAX_THREADS",
    "OWN_COST",
    "PEAK_BUCKETS",
    "PEAK_WINDOW_S",
    "REQUEST",
    "RESERVE_SHARE",
    "STAGE_SLACK",
    "UNSTATED_SHARE",
    "VERDICTS",
    "VERSION",
    "WITHIN",
    "Account",
    "Bounds",
    "Budgets",
    "CatchUpPolicy",
    "Correction",
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
    "only_prompt_earn",
    "tidied",
]
