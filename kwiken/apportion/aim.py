"""Reissue budgets apportioned for one objective, and the straw men to compare with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property

from kwiken.apportion.descent import descend
from kwiken.apportion.mean_variance import MeanAndSpread
from kwiken.apportion.objectives import scaled, with_coins
from kwiken.apportion.shrinkage import Caution
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


class Aim:
    """Apportions budgets for one objective; a descent runs once, and smaller budgets take its shape."""

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
        self.caution = Caution(profile, curves, seed=seed)

    def __call__(self, budget: float) -> Allocation:
        """Apportion a budget, a share of the cost model's total, over the stages."""
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
    def _by_tail(self) -> MeanAndSpread:
        return MeanAndSpread(self._profile, self._curves)

    def _start(self, budget: float) -> Allocation:
        """SumVar's answer, by what is sure to be gained; of variance alone, or of mean and spread."""
        hulls = self.caution.hulls(self._prices, budget)
        if self._objective == "variance":
            shares = sumvar(hulls, self._prices, budget).fractions
            found = allocation_of(self._curves, self._prices, shares)
        else:
            found = self._by_tail(self._prices, budget, hulls=hulls)
        return with_coins(found, self._curves)
