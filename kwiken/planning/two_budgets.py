"""Two budgets at once: the least sum of variances over curves and surfaces, by one price for each budget.

With prices `a` and `b` for a unit of either budget every stage chooses for itself: the point of its curve or
surface where `variance + a x reissues + b x loss` is least. Prices rise until both budgets are kept (Kwiken
equation 5.4, which the source leaves open beyond one lever).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kwiken.apportion import HulledCurve
from kwiken.arrays import Floats
from kwiken.planning.surface import Surface

BISECTIONS = 40
LEAST_COST = 1e-12
HIGHEST = 1e6  # a price: this many times the whole variance for a whole budget

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Shares:
    """What each stage gets of either budget.

    Attributes:
        reissue: by stage: share of its calls that get a copy.
        loss: by stage with a surface: mean utility that it may lose.
        prices: of a unit of the reissue budget and of the utility budget, ms².
    """

    reissue: Mapping[str, float]
    loss: Mapping[str, float]
    prices: tuple[float, float]


class _Options:
    """Every stage's points in one table, padded: variance, and what a point takes of either budget."""

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
        """(n,): each stage's choice at these prices; of equals, the first, which takes least."""
        priced = reissue_price * self.costs * self.reissue + loss_price * self.weights * self.loss
        return np.asarray(np.argmin(self.variance + priced, axis=1))

    def spent(self, chosen: Ints) -> tuple[float, float]:
        """What choices take of the reissue and of the utility budget."""
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
        curves: by stage that may be reissued.
        surfaces: by fan-out that has both levers; counts in place of its curve.
        costs: by stage: what reissuing all of its calls costs.
        weights: by stage with a surface: what a unit of its loss costs the whole answer.
        reissue: the most that may be spent on copies, in the unit of `costs`.
        loss: the most utility that may be lost.

    Returns:
        Shares that keep both budgets. Surfaces are not convex, so prices alone may leave budget over; what is
        left of the reissue budget goes where it still lowers a surface.
    """
    if not curves and not surfaces:
        return Shares({}, {}, (0.0, 0.0))
    options = _Options(curves, surfaces, costs, weights)
    whole = float(options.variance[:, 0].sum())
    most = HIGHEST * max(whole, 1e-9)

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
    """Spend what is left of the reissue budget on surfaces, at the losses chosen: most gain first."""
    for _ in surfaces:
        room = {name: left / max(costs[name], LEAST_COST) for name in surfaces}
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
    """The least price that keeps a budget; spend falls as the price rises. Bisects its logarithm."""
    if keeps(0.0):
        return 0.0
    low, high = most * 1e-18, most
    for _ in range(BISECTIONS):
        middle = float(np.sqrt(low * high))
        low, high = (low, middle) if keeps(middle) else (middle, high)
    return high
