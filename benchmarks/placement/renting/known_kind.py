"""Cost that the first half of a load leaves open: what to reserve for one that knows the kind of the load.

Thousands of other loads of the same kind are drawn and seen to their end. Of the load to decide on only the
first half is known. The others whose first halves are nearest stand for what may come, and the count that
costs least on their second halves is reserved. By which figures halves are compared, how many neighbours
count, and whether loads are taken by their ratio to the last days, is chosen on the others.

A rule that does not know the kind knows less. What this one pays above hindsight is what the first half does
not tell; a better comparison could only lower that.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from benchmarks.placement.renting.drawn_demands import Curve

NEIGHBOURS: Final = (15, 40, 120)
TRIED: Final = 200  # others that the way of comparing is chosen on
LAST_DAYS: Final = 3
RISE_DAYS: Final = 5


def _two(days: Curve) -> Curve:
    """(m, 2) mean of all days, and the last day."""
    return np.column_stack([days.mean(axis=1), days[:, -1]])


def _five(days: Curve) -> Curve:
    """(m, 5) mean, last days, last day, and the rise over all days and over the last."""
    rises = [np.polyfit(np.arange(count), days[:, -count:].T, 1)[0] for count in (days.shape[1], RISE_DAYS)]
    return np.column_stack([_two(days), days[:, -LAST_DAYS:].mean(axis=1), *rises])


def _all(days: Curve) -> Curve:
    """(m, d) all days."""
    return days


@dataclass(frozen=True, eq=False)
class KnownKind:
    """Loads of one kind that were seen to their end, and how a load that is half known is compared with them.

    Attributes:
        days: (m, d) daily means of the first halves.
        later: (m, h) second halves.
        share: quantile of what may come that is reserved.
        figures_of: figures of daily means.
        count: number of neighbours.
        relative: whether loads are taken by their ratio to the last days.
    """

    days: Curve
    later: Curve
    share: float
    figures_of: Callable[[Curve], Curve] = _two
    count: int = NEIGHBOURS[0]
    relative: bool = False

    def reserved(self, days: Curve) -> Curve:
        """(k,) Cores to reserve after first halves, of which (k, d) daily means are known."""
        sizes, own = (_last(one) if self.relative else np.ones(len(one)) for one in (days, self.days))
        known, shown = (
            self.figures_of(one / size[:, None]) for one, size in ((self.days, own), (days, sizes))
        )
        spread = np.maximum(known.std(axis=0), 1e-9)
        later = self.later / own[:, None]
        found = np.empty(len(days))
        for place, one in enumerate(shown):
            far = (((known - one) / spread) ** 2).sum(axis=1)
            near = np.argpartition(far, self.count)[: self.count]
            found[place] = np.quantile(later[near], self.share) * sizes[place]
        return found


def _last(days: Curve) -> Curve:
    means: Curve = np.maximum(days[:, -LAST_DAYS:].mean(axis=1), 1e-9)
    return means


def daily(histories: Curve) -> Curve:
    """(m, d) daily means of hourly loads."""
    means: Curve = histories.reshape(len(histories), -1, 24).mean(axis=2)
    return means


def known_kind(others: Curve, share: float, cost: Callable[[float, Curve], float]) -> KnownKind:
    """What one knows that has seen other loads of the kind.

    Args:
        others: (m, n) loads that are known to their end, hour by hour.
        share: quantile of a load that is reserved if the load is known.
        cost: hourly cost of a number of reserved cores on a load.
    """
    half = others.shape[1] // 2
    days, later = daily(others[:, :half]), others[:, half:]
    ways = itertools.product((_two, _five, _all), NEIGHBOURS, (False, True))

    def paid(one: KnownKind) -> float:
        counts = one.reserved(days[:TRIED])
        return sum(
            cost(count, load) / cost(float(np.quantile(load, share)), load)
            for count, load in zip(counts.tolist(), later[:TRIED], strict=True)
        )

    figures, count, relative = min(
        ways, key=lambda way: paid(KnownKind(days[TRIED:], later[TRIED:], share, *way))
    )
    return KnownKind(days, later, share, figures, count, relative)
