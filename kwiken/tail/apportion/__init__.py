"""Apportionment: division of one budget over stages for an objective, with insurance for later requests."""

from __future__ import annotations

from kwiken.tail.apportion.apportioner import (
    INSURANCE as INSURANCE,
    SPREADS as SPREADS,
    Apportioner as Apportioner,
    caution_notes as caution_notes,
)
from kwiken.tail.apportion.margin import (
    SPLITS as SPLITS,
    Rows as Rows,
    likely_mean as likely_mean,
    tightened as tightened,
)
from kwiken.tail.apportion.mean_variance import MeanVarianceApportioner as MeanVarianceApportioner
from kwiken.tail.apportion.policies import chosen as chosen
from kwiken.tail.apportion.sum_of_variances import (
    OBJECTIVES as OBJECTIVES,
    Allocation as Allocation,
    HulledCurve as HulledCurve,
    choices_of as choices_of,
    equal_budget as equal_budget,
    sumvar as sumvar,
    uniform_fraction as uniform_fraction,
)
