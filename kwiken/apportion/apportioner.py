"""Apportioner of reissue budgets for one objective, and the baselines to compare it with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property

from kwiken.apportion.descent import descend
from kwiken.apportion.mean_variance import MeanVarianceApportioner
from kwiken.apportion.objectives import scaled, with_coins
from kwiken.apportion.shrinkage import Shrinkage
from kwiken.apportion.sum_of_variances import (
    Allocation,
    HulledCurve,
    allocation_of,
    equal_budget,
    sumvar,
    uniform_fraction,
)
from kwiken.curves import Curve
from kwiken.profile import Profile
from kwiken.simulation import RISKS

Spread = Callable[[Mapping[str, HulledCurve], Mapping[str, float], float], Allocation]
SPREADS: Mapping[str, Spread] = {
    "sumvar": sumvar,
    "equal": equal_budget,
    "uniform": uniform_fraction,
}


class Apportioner:
    """Apportions budgets for one objective.

    A descent on a percentile runs once, for the first budget. Other budgets scale its result.

    Args:
        profile: profile of the service.
        curves: curve of each stage that may be reissued, by its name.
        prices: by stage: cost of reissuing all of its calls, as a share of the cost model's total.
        objective: one of `OBJECTIVES` other than `auto`.
        spread: one of `SPREADS`; all but `sumvar` ignore the objective.
        seed: seed of the copies, the coins and the draws that replace cancelled calls.

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
        seed: int,
    ) -> None:
        self._profile, self._curves, self._prices = profile, curves, prices
        self._objective, self._spread, self._seed = objective, spread, seed
        self._shape: tuple[float, Allocation] | None = None
        self.shrinkage = Shrinkage(profile, curves, seed=seed)

    def __call__(self, budget: float) -> Allocation:
        """Apportion a budget over the stages.

        Args:
            budget: the most that may be spent, as a share of the cost model's total.
        """
        if self._spread != "sumvar":
            return with_coins(SPREADS[self._spread](self._curves, self._prices, budget), self._curves)
        if self._objective in {"variance", "tail"}:
            return self._start(budget)
        if self._shape is None:
            found = descend(
                self._profile,
                self._curves,
                self._prices,
                self._start(budget),
                risk=RISKS[self._objective],
                seed=self._seed,
            )
            self._shape = (budget, found)
        whole, found = self._shape
        return found if budget == whole else scaled(found, budget / whole)

    @cached_property
    def _by_tail(self) -> MeanVarianceApportioner:
        return MeanVarianceApportioner(self._profile, self._curves)

    def _start(self, budget: float) -> Allocation:
        """Allocation by SumVar on shrunk hulls: of variance alone, or of mean and variance together."""
        hulls = self.shrinkage.hulls(self._prices, budget)
        if self._objective == "variance":
            shares = sumvar(hulls, self._prices, budget).fractions
            found = allocation_of(self._curves, self._prices, shares)
        else:
            found = self._by_tail(self._prices, budget, hulls=hulls)
        return with_coins(found, self._curves)
