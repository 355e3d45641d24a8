"""Apportionment: division of one budget over stages for an objective, with insurance for later requests."""

from __future__ import annotations

from kwiken.tail.apportion.apportioner import SPREADS as SPREADS, Apportioner as Apportioner
from kwiken.tail.apportion.insurance import INSURANCE as INSURANCE
from kwiken.tail.apportion.margin import (
    SPLITS as SPLITS,
    Rows as Rows,
    likely_mean as likely_mean,
    tightened as tightened,
)
from kwiken.tail.apportion.mean_variance import MeanVarianceApportioner as MeanVarianceApportioner
from kwiken.tail.apportion.objectives import (
    OBJECTIVES as OBJECTIVES,
    choices_of as choices_of,
)
from kwiken.tail.apportion.policies import chosen as chosen
from kwiken.tail.apportion.shrinkage import caution_notes as caution_notes
from kwiken.tail.apportion.sum_of_variances import (
    Allocation as Allocation,
    HulledCurve as HulledCurve,
    equal_budget as equal_budget,
    sumvar as sumvar,
    uniform_fraction as uniform_fraction,
)
