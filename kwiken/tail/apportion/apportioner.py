"""Entry of apportionment: how much of a reissue budget each stage gets, a small equal share as insurance.

Gains count by their confidence (`Shrinkage`): the fewer the requests, the less an uncertain gain counts.

Insurance (`insured`): curves are learned from the past, and faults move between stages: what has not stalled
may stall tomorrow. So a small part of the budget gives stages with no or few copies a least share, the same
for all, for their slowest calls. The size of the part was chosen by blocks of time on recordings with faults
(`python -m benchmarks --only tried`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cached_property

from kwiken.model.profile.profile import Profile
from kwiken.tail.apportion.mean_variance import MeanVarianceApportioner
from kwiken.tail.apportion.notes import ApportionNote, GainsMayBeChance, GainsUncertain
from kwiken.tail.apportion.sum_of_variances import (
    Allocation,
    HulledCurve,
    allocation_of,
    equal_budget,
    sumvar,
    uniform_fraction,
    with_coins,
)
from kwiken.tail.curves.confidence import UNCERTAIN_GAIN_SHARE, CurveBounds, curve_bounds
from kwiken.tail.curves.curve import Curve

LOW_CERTAINTY = 0.5  # below this a stage is named in a note


class Shrinkage:
    """Shrunk curves to apportion by; computes confidence only for stages that would get any budget.

    Args:
        curves: curve of each stage that may be reissued, by its name.
        seed: seed of the draws that replace cancelled calls.

    Attributes:
        bounds: confidence of the curve of each stage examined so far, by its name.
    """

    def __init__(self, profile: Profile, curves: Mapping[str, Curve], *, seed: int = 0) -> None:
        self._profile, self._curves, self._seed = profile, curves, seed
        self._hulls: dict[str, HulledCurve] = dict(curves)
        self.bounds: dict[str, CurveBounds] = {}

    def hulls(self, prices: Mapping[str, float], budget: float) -> Mapping[str, HulledCurve]:
        """By stage: hull to apportion a budget by.

        Unexamined stages keep their own curves, which gain at least as much as shrunk ones. So once SumVar
        gives budget to examined stages only, the others would get none with shrunk curves either.

        Args:
            prices: by stage: cost of reissuing all of its calls, in the unit of the budget.
            budget: the most that may be spent, 0 or more.
        """
        while True:
            found = sumvar(self._hulls, prices, budget).fractions
            fresh = [name for name, share in found.items() if share > 0 and name not in self.bounds]
            if not fresh:
                return self._hulls
            self._examine(fresh)

    def _examine(self, names: Iterable[str]) -> None:
        some = {name: self._curves[name] for name in names}
        found = curve_bounds(self._profile, some, seed=self._seed)
        self.bounds.update(found)
        self._hulls.update({name: found[name].shrunk(curve.hull) for name, curve in some.items()})


def caution_notes(bounds: Mapping[str, CurveBounds]) -> tuple[ApportionNote, ...]:
    """Notes on stages whose gains are uncertain.

    Args:
        bounds: confidence of the curves of the stages examined, by stage.
    """
    notes: list[ApportionNote] = []
    unsure = tuple(name for name, each in bounds.items() if not each.certainty > 0)
    if unsure:
        notes.append(GainsMayBeChance(unsure, UNCERTAIN_GAIN_SHARE))
    doubtful = {
        name: float(each.certainty) for name, each in bounds.items() if 0 < each.certainty < LOW_CERTAINTY
    }
    if doubtful:
        notes.append(GainsUncertain(doubtful))
    return tuple(notes)


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
        searches: whether allocations follow an objective, rather than a rule for comparison.
        insurance: share of the budget that insures stages that have not stalled yet, 0 without an objective.
        by_variance: whether that objective is the sum of variances alone, as in the source.
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
        self._spread = spread
        self.insurance = 0.0 if objective == "variance" else insurance
        self.searches = spread == "sumvar"
        self.by_variance = objective == "variance"
        self.shrinkage = Shrinkage(profile, curves, seed=seed)

    def __call__(self, budget: float) -> Allocation:
        """Apportion a budget over the stages.

        There are three cases:
        1. A spread other than `sumvar`, for comparison: by the rule of that spread.
        2. `variance`: by the sum of variances alone, as in the source.
        3. `tail`: by mean and variance, without the part that insures stages that have not stalled yet.

        Args:
            budget: the most that may be spent, as a share of the cost model's total.
        """
        if not self.searches:
            return with_coins(SPREADS[self._spread](self._curves, self._prices, budget), self._curves)
        if self.by_variance:
            hulls = self.shrinkage.hulls(self._prices, budget)
            shares = sumvar(hulls, self._prices, budget).fractions
            return with_coins(allocation_of(self._curves, self._prices, shares), self._curves)
        rest = (1 - self.insurance) * budget
        hulls = self.shrinkage.hulls(self._prices, rest)
        return with_coins(self._mean_variance(self._prices, rest, hulls=hulls), self._curves)

    @cached_property
    def _mean_variance(self) -> MeanVarianceApportioner:
        return MeanVarianceApportioner(self._profile, self._curves)


INSURANCE = 0.1  # share of a reissue budget


def insured(
    allocation: Allocation, curves: Mapping[str, Curve], prices: Mapping[str, float], premium: float
) -> Allocation:
    """Add the insurance to an allocation.

    Args:
        allocation: apportionment of what the insurance leaves of the budget.
        curves: curve of each stage that may be reissued, by its name.
        prices: by stage: cost of reissuing all of its calls, in the unit of the budget.
        premium: budget to spread, 0 or more.

    Returns:
        The allocation with a least share of calls at every stage: what the premium pays for at all of them.
        Stages with a budget of their own keep their coins. All others copy their slowest calls without a
        coin: a stall that has not come yet is not in the curve that would choose one, and a coin would leave
        most of it without a copy.
    """
    least = uniform_fraction(curves, prices, premium).fractions
    fractions = {name: max(least[name], share) for name, share in allocation.fractions.items()}
    coins = {name: allocation.coins.get(name, 1.0) for name, share in fractions.items() if share > 0}
    return replace(allocation_of(curves, prices, fractions), path=allocation.path, coins=coins)
