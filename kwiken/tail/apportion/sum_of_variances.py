"""Apportionment of one budget over the stages: SumVar (Kwiken section 5.2.3), and the rules beside it."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from kwiken.base.arrays import Floats
from kwiken.base.errors import InputError
from kwiken.tail.curves.curve import Curve
from kwiken.tail.simulation.common_random_numbers import Choice

CHUNKS_PER_STAGE = 3.0  # the source's gamma; with the hull its value hardly matters (2 to 4 in the source)


class HulledCurve(Protocol):
    """Risk of a stage by the share of a resource given to the stage, as a convex hull."""

    @property
    def fraction(self) -> Floats:
        """(k,): shares of the resource, ascending from 0 to at most 1."""

    @property
    def hull(self) -> Floats:
        """(k,): convex, non-increasing risk at these shares; variance in ms², or any other unit."""


@dataclass(frozen=True)
class Allocation:
    """Division of a budget over stages.

    Attributes:
        fractions: share of the resource given to each stage, 0 to 1.
        spent: cost of these shares, in the unit of the budget.
        gains: fall of each stage's hull, ms² (times its weight, where weights were given); in the study of a
            plan the fall of its variance under the policy chosen.
        marginal: next gain of each stage per unit of budget, ms²; 0 where more budget gains nothing. In the
            study of a plan over the next 1% of all work.
        path: (stage, its fraction, budget spent so far) after each step; empty for the baselines.
        coins: share of the late calls that get a copy, where it differs from that of the stage's curve.
    """

    fractions: Mapping[str, float]
    spent: float
    gains: Mapping[str, float]
    marginal: Mapping[str, float]
    path: tuple[tuple[str, float, float], ...] = field(default=(), repr=False)
    coins: Mapping[str, float] = field(default_factory=dict)


def sumvar(
    curves: Mapping[str, HulledCurve],
    costs: Mapping[str, float],
    budget: float,
    *,
    gamma: float = CHUNKS_PER_STAGE,
    weights: Mapping[str, float] | None = None,
) -> Allocation:
    """Greedy apportionment: each chunk goes to the stage whose hull falls most (Kwiken section 5.2.3).

    Args:
        curves: hull of each stage, by its name.
        costs: by stage: cost of all of its resource, in the unit of the budget, above 0.
        budget: the most that may be spent: sum of costs times fractions, 0 or more.
        gamma: number of chunks per stage, above 0.
        weights: by stage: factor of its variance, above 0; 1 by default.

    Returns:
        An allocation that never spends more than the budget. On hulls the sum is separable and convex, so the
        allocation is optimal up to one chunk per stage. O(N log N) for any DAG.

    Raises:
        InputError: for a budget below 0, or a cost or weight that is not above 0.
    """
    stages = _stages(curves, costs, budget, weights)
    if not stages or budget <= 0:
        return _allocation(stages, {})
    if not gamma > 0:
        raise InputError(f"gamma must be above 0, not {gamma}")
    chunk = budget / (gamma * len(stages))
    fractions = dict.fromkeys(stages, 0.0)
    heap = [(-stage.gain(0.0, chunk), index, name) for index, (name, stage) in enumerate(stages.items())]
    heapq.heapify(heap)
    left, path = budget, []
    while heap and left > budget * 1e-12:
        gain, index, name = heapq.heappop(heap)
        if gain >= 0:
            break
        stage = stages[name]
        step = min(chunk / stage.cost, 1.0 - fractions[name], left / stage.cost)
        fractions[name] = min(1.0, fractions[name] + step)
        left -= step * stage.cost
        path.append((name, fractions[name], budget - left))
        if fractions[name] < 1.0:
            heapq.heappush(heap, (-stage.gain(fractions[name], chunk), index, name))
    return _allocation(stages, fractions, tuple(path))


def equal_budget(curves: Mapping[str, HulledCurve], costs: Mapping[str, float], budget: float) -> Allocation:
    """Baseline: the same amount of budget to every stage; what a stage cannot use goes to the others.

    Args:
        curves: hull of each stage, by its name.
        costs: by stage: cost of all of its resource, in the unit of the budget, above 0.
        budget: the most that may be spent: sum of costs times fractions, 0 or more.

    Raises:
        InputError: as `sumvar`.
    """
    stages = _stages(curves, costs, budget, None)
    fractions: dict[str, float] = {}
    left = budget
    for count, name in zip(
        range(len(stages), 0, -1), sorted(stages, key=lambda name: stages[name].cost), strict=True
    ):
        fractions[name] = min(1.0, left / count / stages[name].cost)
        left -= fractions[name] * stages[name].cost
    return _allocation(stages, fractions)


def uniform_fraction(
    curves: Mapping[str, HulledCurve], costs: Mapping[str, float], budget: float
) -> Allocation:
    """Baseline: the same fraction at every stage, such that the budget is spent.

    Args:
        curves: hull of each stage, by its name.
        costs: by stage: cost of all of its resource, in the unit of the budget, above 0.
        budget: the most that may be spent: sum of costs times fractions, 0 or more.

    Raises:
        InputError: as `sumvar`.
    """
    stages = _stages(curves, costs, budget, None)
    total = math.fsum(stage.cost for stage in stages.values())
    return _allocation(stages, dict.fromkeys(stages, min(1.0, budget / total) if total else 0.0))


def allocation_of(
    curves: Mapping[str, HulledCurve], costs: Mapping[str, float], fractions: Mapping[str, float]
) -> Allocation:
    """Allocation of given fractions, with their cost and gains on these curves.

    Args:
        curves: hull of each stage, by its name.
        costs: by stage: cost of all of its resource, in the unit of the budget, above 0.
        fractions: by stage: share of its resource, 0 to 1; 0 where the stage is left out.

    Raises:
        InputError: for a cost that is not above 0.
    """
    return _allocation(_stages(curves, costs, 0.0, None), fractions)


class _Stage:
    """Weighted hull as lists of floats: the greedy search reads single points, which arrays do slowly."""

    def __init__(self, curve: HulledCurve, cost: float, weight: float) -> None:
        self.cost = cost
        self._x: list[float] = curve.fraction.tolist()
        self._y: list[float] = [weight * y for y in curve.hull.tolist()]

    def at(self, fraction: float) -> float:
        """Value of the weighted hull, interpolated; constant beyond its last point."""
        x, y = self._x, self._y
        if fraction >= x[-1]:
            return y[-1]
        low, high = 0, len(x) - 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if x[middle] <= fraction else (low, middle)
        return y[low] + (y[high] - y[low]) * (fraction - x[low]) / (x[high] - x[low])

    def gain(self, fraction: float, chunk: float) -> float:
        """Gain of the next chunk of budget; scaled up where the cap leaves room for less than a chunk."""
        room = self.cost * (1.0 - fraction)
        if room <= 0:
            return 0.0
        raw = self.at(fraction) - self.at(min(1.0, fraction + chunk / self.cost))
        return raw * chunk / room if room < chunk else raw

    def slope(self, fraction: float) -> float:
        """Fall of the hull per unit of budget, just to the right of a fraction."""
        for left, right, high, low in zip(self._x, self._x[1:], self._y, self._y[1:], strict=False):
            if right > fraction:
                return (high - low) / (right - left) / self.cost
        return 0.0


def _stages(
    curves: Mapping[str, HulledCurve],
    costs: Mapping[str, float],
    budget: float,
    weights: Mapping[str, float] | None,
) -> dict[str, _Stage]:
    if not (math.isfinite(budget) and budget >= 0):
        raise InputError(f"a budget must be a finite number >= 0, not {budget}")
    return dict(_checked_stages(curves, costs, weights or {}))


def _checked_stages(
    curves: Mapping[str, HulledCurve], costs: Mapping[str, float], weights: Mapping[str, float]
) -> Iterator[tuple[str, _Stage]]:
    for name, curve in curves.items():
        cost, weight = costs.get(name), weights.get(name, 1.0)
        if cost is None or not (math.isfinite(cost) and cost > 0):
            raise InputError(f"stage {name!r}: its cost must be a finite number above 0, not {cost}")
        if not (math.isfinite(weight) and weight > 0):
            raise InputError(f"stage {name!r}: its weight must be a finite number above 0, not {weight}")
        yield name, _Stage(curve, cost, weight)


def _allocation(
    stages: Mapping[str, _Stage],
    fractions: Mapping[str, float],
    path: tuple[tuple[str, float, float], ...] = (),
) -> Allocation:
    given = {name: fractions.get(name, 0.0) for name in stages}
    return Allocation(
        fractions=given,
        spent=math.fsum(stages[name].cost * fraction for name, fraction in given.items()),
        gains={name: stages[name].at(0.0) - stages[name].at(fraction) for name, fraction in given.items()},
        marginal={name: stages[name].slope(fraction) for name, fraction in given.items()},
        path=path,
    )


OBJECTIVES: Final = ("tail", "variance")


def with_coins(allocation: Allocation, curves: Mapping[str, Curve]) -> Allocation:
    """The same allocation with the coin of each stage's best policy.

    Args:
        allocation: budget of each stage.
        curves: curve of each stage that may be reissued, by its name.
    """
    coins = {name: curves[name].coin_at(share) for name, share in allocation.fractions.items() if share > 0}
    return replace(allocation, coins=coins)


def choices_of(curves: Mapping[str, Curve], allocation: Allocation) -> dict[str, Choice]:
    """Share of calls and coin of each stage that gets any budget.

    Args:
        curves: curve of each stage that may be reissued, by its name.
        allocation: budget of each stage; a stage without a coin takes that of its curve.
    """
    return {
        name: (fraction, allocation.coins.get(name) or curves[name].coin_at(fraction))
        for name, fraction in allocation.fractions.items()
        if fraction > 0
    }
