"""Plan documents: policies and budgets of a service's stages, with the expected latency and spend."""

from __future__ import annotations

from kwiken.model.plan.accounts import (
    BY_FLOOR as BY_FLOOR,
    CALL as CALL,
    NODE as NODE,
    OWN_COST as OWN_COST,
    REQUEST as REQUEST,
    VERDICTS as VERDICTS,
    WITHIN as WITHIN,
    Account as Account,
    Floor as Floor,
    LedgerBounds as LedgerBounds,
    grant as grant,
)
from kwiken.model.plan.arm_accounts import ArmAccounts as ArmAccounts, grant_in_arm as grant_in_arm
from kwiken.model.plan.ledger_terms import (
    RESERVE_SHARE as RESERVE_SHARE,
    STAGE_SLACK as STAGE_SLACK,
    UNSTATED_SHARE as UNSTATED_SHARE,
    LedgerTerms as LedgerTerms,
    only_prompt_earn as only_prompt_earn,
)
from kwiken.model.plan.plan import (
    MAX_THREADS as MAX_THREADS,
    SAFE_METHODS as SAFE_METHODS,
    VERSION as VERSION,
    Budgets as Budgets,
    CatchUpPolicy as CatchUpPolicy,
    Correction as Correction,
    Costs as Costs,
    Expected as Expected,
    Intervals as Intervals,
    Ladder as Ladder,
    PartialPolicy as PartialPolicy,
    Plan as Plan,
    SpanMatch as SpanMatch,
    StagePlan as StagePlan,
)
from kwiken.model.plan.rounding import rounded as rounded, rounded_up_ms as rounded_up_ms
from kwiken.model.plan.windows import PEAK_BUCKETS as PEAK_BUCKETS, PEAK_WINDOW_S as PEAK_WINDOW_S
