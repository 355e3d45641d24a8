"""Apportionment of two budgets: least sum of variances over curves and surfaces, by one price per budget.

With prices `a` and `b` for a unit of either budget every stage chooses by itself the point of its curve or
surface with the least `variance + a x reissues + b x loss`. Prices rise until both budgets are kept (Kwiken
equation 5.4, which the source leaves open beyond one lever).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kwiken.base.arrays import Floats
from kwiken.tail.apportion import HulledCurve
from kwiken.tail.planning.surface import Surface

BISECTIONS = 40  # steps of the search for a price
MIN_COST = 1e-12  # stands for a cost of 0 as a divisor
MAX_PRICE = 1e6  # upper bound of a price: so many times the whole variance for a whole budget

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Shares:
    """Shares of two budgets by stage.

    Attributes:
        reissue: share of calls that get a copy, by stage.
        loss: mean utility that may be lost, by stage with a surface, a share.
        prices: prices of a unit of the reissue budget and of the utility budget, ms².
    """

    reissue: Mapping[str, float]
    loss: Mapping[str, float]
    prices: tuple[float, float]


class _Options:
    """Points of all stages in one padded table: variance, and the use of either budget."""

    def __init__(
        self,
        curves: Mapping[str, HulledCurve],
        surfaces: Mapping[str, Surface],
        costs: Mapping[str, float],
        weights: Mapping[str, float],
    ) -> None:
        points = {
            name: (curve.hull, curve.fraction, np.zeros(len(curve.fraction)))
            for name, curve in curves.items()
            if name not in surfaces
        }
        points |= {name: _flat(found) for name, found in surfaces.items()}
        self.names = list(points)
        widest = max(len(variance) for variance, _, _ in points.values())
        self.variance, self.reissue, self.loss = (
            np.stack([_padded(each[i], widest, fill) for each in points.values()])
            for i, fill in ((0, np.inf), (1, 0.0), (2, 0.0))
        )
        self.costs = np.array([costs[name] for name in self.names])[:, None]
        self.weights = np.array([weights.get(name, 0.0) for name in self.names])[:, None]
        self._all = np.arange(len(self.names))

    def best(self, reissue_price: float, loss_price: float) -> Ints:
        """(n,): each stage's best point at these prices; of equal ones the first, which is cheapest."""
        priced = reissue_price * self.costs * self.reissue + loss_price * self.weights * self.loss
        return np.asarray(np.argmin(self.variance + priced, axis=1))

    def spent(self, chosen: Ints) -> tuple[float, float]:
        """Reissue and utility budgets that a choice of points uses."""
        return (
            float((self.costs[:, 0] * self.reissue[self._all, chosen]).sum()),
            float((self.weights[:, 0] * self.loss[self._all, chosen]).sum()),
        )

    def taken(self, chosen: Ints) -> tuple[Floats, Floats]:
        """(n,) share of calls and (n,) loss of each stage."""
        return self.reissue[self._all, chosen], self.loss[self._all, chosen]


def _flat(found: Surface) -> tuple[Floats, Floats, Floats]:
    reissue, loss = np.meshgrid(found.reissue, found.loss, indexing="ij")
    return found.variance.ravel(), reissue.ravel(), loss.ravel()


def _padded(values: Floats, width: int, fill: float) -> Floats:
    return np.concatenate((values, np.full(width - len(values), fill)))


def two_budgets(
    curves: Mapping[str, HulledCurve],
    surfaces: Mapping[str, Surface],
    *,
    costs: Mapping[str, float],
    weights: Mapping[str, float],
    reissue: float,
    loss: float,
) -> Shares:
    """Apportion a reissue budget and a utility budget together (Kwiken equation 5.4).

    Args:
        curves: variance-response curves of stages that may be reissued.
        surfaces: surfaces of fan-outs with both levers; each replaces the stage's curve.
        costs: cost of reissuing all calls of a stage, by stage.
        weights: cost of a unit of a stage's loss to the whole answer, by stage with a surface.
        reissue: upper bound of the spend on copies, in the unit of `costs`.
        loss: upper bound of the utility lost, a share.

    Returns:
        Shares that keep both budgets. Surfaces are not convex, so prices alone may leave budget over; the
        rest of the reissue budget goes where it still lowers a surface.
    """
    if not curves and not surfaces:
        return Shares({}, {}, (0.0, 0.0))
    options = _Options(curves, surfaces, costs, weights)
    whole = float(options.variance[:, 0].sum())
    most = MAX_PRICE * max(whole, 1e-9)

    def first_price(loss_price: float) -> float:
        def keeps(price: float) -> bool:
            return options.spent(options.best(price, loss_price))[0] <= reissue

        return _least_price(keeps, most / max(reissue, 1e-9))

    def both_keep(price: float) -> bool:
        return options.spent(options.best(first_price(price), price))[1] <= loss

    second = _least_price(both_keep, most / max(loss, 1e-9))
    first = first_price(second)
    chosen = options.best(first, second)
    shares, losses = (dict(zip(options.names, each.tolist(), strict=True)) for each in options.taken(chosen))
    _fill(surfaces, costs, shares, losses, reissue - options.spent(chosen)[0])
    return Shares(shares, {name: losses[name] for name in surfaces}, (first, second))


def _fill(
    surfaces: Mapping[str, Surface],
    costs: Mapping[str, float],
    shares: dict[str, float],
    losses: Mapping[str, float],
    left: float,
) -> None:
    """Spend the rest of the reissue budget on surfaces at the chosen losses, most gain first."""
    for _ in surfaces:
        room = {name: left / max(costs[name], MIN_COST) for name in surfaces}
        gains = {
            name: found.fall(losses[name], shares[name], shares[name] + room[name])
            for name, found in surfaces.items()
        }
        best = max(gains, key=gains.__getitem__)
        if left <= 0 or gains[best] <= 0:
            return
        before = shares[best]
        shares[best] = min(before + room[best], float(surfaces[best].reissue[-1]))
        left -= costs[best] * (shares[best] - before)


def _least_price(keeps: Callable[[float], bool], most: float) -> float:
    """Least price that keeps a budget, by bisection of its logarithm; spend falls as the price rises."""
    if keeps(0.0):
        return 0.0
    low, high = most * 1e-18, most
    for _ in range(BISECTIONS):
        middle = float(np.sqrt(low * high))
        low, high = (low, middle) if keeps(middle) else (middle, high)
    return high
