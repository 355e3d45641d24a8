"""Apportionment: division of one budget over stages for an objective, with insurance for later requests."""

from __future__ import annotations

from kwiken.tail.apportion.apportioner import SPREADS as SPREADS, Apportioner as Apportioner
from kwiken.tail.apportion.descent import choices_of as choices_of
from kwiken.tail.apportion.insurance import INSURANCE as INSURANCE
from kwiken.tail.apportion.margin import (
    SPLITS as SPLITS,
    Rows as Rows,
    likely_mean as likely_mean,
    tightened as tightened,
)
from kwiken.tail.apportion.objectives import (
    MIN_REQUESTS_TO_COMPARE as MIN_REQUESTS_TO_COMPARE,
    OBJECTIVES as OBJECTIVES,
    Verdict as Verdict,
    apportion as apportion,
    cross_validated as cross_validated,
    with_coins as with_coins,
)
from kwiken.tail.apportion.policies import chosen as chosen
from kwiken.tail.apportion.shrinkage import caution_notes as caution_notes
from kwiken.tail.apportion.sum_of_variances import (
    Allocation as Allocation,
    HulledCurve as HulledCurve,
    allocation_of as allocation_of,
    equal_budget as equal_budget,
    sumvar as sumvar,
    uniform_fraction as uniform_fraction,
)
