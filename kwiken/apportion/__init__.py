"""Apportionment: one budget divided over stages for an objective, kept on later requests."""

from __future__ import annotations

from kwiken.apportion.aim import SPREADS, Aim
from kwiken.apportion.descent import choices_of
from kwiken.apportion.margin import SPLITS, Rows, likely_mean, tightened, within_budget
from kwiken.apportion.objectives import (
    LEAST_REQUESTS,
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
    "LEAST_REQUESTS",
    "OBJECTIVES",
    "SPLITS",
    "SPREADS",
    "Aim",
    "Allocation",
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
    "within_budget",
]
