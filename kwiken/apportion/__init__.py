"""Apportionment: division of one budget over stages for an objective, with insurance for later requests."""

from __future__ import annotations

from kwiken.apportion.apportioner import SPREADS, Apportioner
from kwiken.apportion.descent import choices_of
from kwiken.apportion.insurance import INSURANCE
from kwiken.apportion.margin import SPLITS, Rows, likely_mean, tightened
from kwiken.apportion.objectives import (
    MIN_REQUESTS_TO_COMPARE,
    OBJECTIVES,
    Verdict,
    apportion,
    cross_validated,
    with_coins,
)
from kwiken.apportion.policies import chosen
from kwiken.apportion.shrinkage import caution_notes
from kwiken.apportion.sum_of_variances import (
    Allocation,
    HulledCurve,
    allocation_of,
    equal_budget,
    sumvar,
    uniform_fraction,
)

__all__ = [
    "INSURANCE",
    "MIN_REQUESTS_TO_COMPARE",
    "OBJECTIVES",
    "SPLITS",
    "SPREADS",
    "Allocation",
    "Apportioner",
    "HulledCurve",
    "Rows",
    "Verdict",
    "allocation_of",
    "apportion",
    "caution_notes",
    "choices_of",
    "chosen",
    "cross_validated",
    "equal_budget",
    "likely_mean",
    "sumvar",
    "tightened",
    "uniform_fraction",
    "with_coins",
]
