"""Apportioner of reissue budgets for one objective, and the baselines to compare it with."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kwiken.model.profile import Profile
from kwiken.tail.apportion.insurance import insured
from kwiken.tail.apportion.mean_variance import MeanVarianceApportioner
from kwiken.tail.apportion.objectives import with_coins
from kwiken.tail.apportion.shrinkage import Shrinkage
from kwiken.tail.apportion.sum_of_variances import (
    Allocation,
    HulledCurve,
    allocation_of,
    equal_budget,
    sumvar,
    uniform_fraction,
)
from kwiken.tail.curves import Curve

Spread = Callable[[Mapping[str, HulledCurve], Mapping[str, float], float], Allocation]
SPREADS: Mapping[str, Spread] = {
    "sumvar": sumvar,
    "equal": equal_budget,
    "uniform": uniform_fraction,
}


class Apportioner:
    """Apportions a budget for one objective.

    Args:
        curves: curve of each stage that may be reissued, by its name.
        prices: by stage: cost of reissuing all of its calls, as a share of the cost model's total.
        spread: one of `SPREADS`; all but `sumvar` ignore the objective.
        insurance: share of the budget that insures stages that have not stalled yet, 0 to 1.
        seed: seed of the draws that replace cancelled calls.

    Attributes:
        shrinkage: shrunk curves that the budget is apportioned by, and their confidence.
    """

    def __init__(
        self,
        profile: Profile,
        curves: Mapping[str, Curve],
        prices: Mapping[str, float],
        objective: str,
        spread: str,
        insurance: float,
        seed: int,
    ) -> None:
        self._profile, self._curves, self._prices = profile, curves, prices
        self._objective, self._spread = objective, spread
        self._insurance = insurance
        self.shrinkage = Shrinkage(profile, curves, seed=seed)

    def __call__(self, budget: float) -> Allocation:
        """Apportion a budget over the stages.

        There are three cases:
        1. A spread other than `sumvar`, for comparison: by the rule of that spread.
        2. `variance`: by the sum of variances alone, as in the source.
        3. `tail`: a part of the budget insures stages that have not stalled yet, and the rest is
           apportioned by mean and variance.

        Args:
            budget: the most that may be spent, as a share of the cost model's total.
        """
        if self._spread != "sumvar":
            return with_coins(SPREADS[self._spread](self._curves, self._prices, budget), self._curves)
        if self._objective == "variance":
            hulls = self.shrinkage.hulls(self._prices, budget)
            shares = sumvar(hulls, self._prices, budget).fractions
            return with_coins(allocation_of(self._curves, self._prices, shares), self._curves)
        premium = self._insurance * budget
        return insured(self._by_tail(budget - premium), self._curves, self._prices, premium)

    def _by_tail(self, budget: float) -> Allocation:
        """Allocation by mean and variance on shrunk hulls."""
        by_tail = MeanVarianceApportioner(self._profile, self._curves)
        hulls = self.shrinkage.hulls(self._prices, budget)
        return with_coins(by_tail(self._prices, budget, hulls=hulls), self._curves)
