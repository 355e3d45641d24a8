"""Bills: cost of nodes by the hour and committed, and the cheapest strategy by weeks of commitment."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kwiken.allocator.provisioning.offers import NodeOffer

HOURS_PER_WEEK: Final = 168.0
MAX_WEEKS: Final = 260


def billed_s(offer: NodeOffer, up_s: float) -> float:
    """Seconds that are billed for a node that was up, from its order on: whole ones, and a least time."""
    return max(offer.min_billed_s, float(math.ceil(up_s)))


def bill(offer: NodeOffer, up_s: float) -> float:
    """Cost of one node for the time that it was up, from its order on.

    Args:
        up_s: time from the order to the return, seconds.
    """
    return offer.price_per_hour * billed_s(offer, up_s) / 3600.0


@dataclass(frozen=True)
class Commitment:
    """Cost of a strategy: a part that is committed for whole terms, and a part that is paid by use.

    Attributes:
        reserved_per_hour: cost of the reserved nodes in an hour.
        rented_per_hour: mean cost of the rented nodes in an hour.
        term_days: length of the reservations, days.
    """

    reserved_per_hour: float
    rented_per_hour: float
    term_days: int

    @property
    def hourly(self) -> float:
        """Cost in an hour, with the reservations spread over their term."""
        return self.reserved_per_hour + self.rented_per_hour

    def committed(self, weeks: float) -> float:
        """Cost of running for some weeks, where reservations are paid for whole terms.

        Args:
            weeks: number of weeks, above 0.
        """
        term_h = 24.0 * self.term_days
        terms = math.ceil(round(weeks * HOURS_PER_WEEK / term_h, 9)) if self.reserved_per_hour else 0
        return terms * term_h * self.reserved_per_hour + weeks * HOURS_PER_WEEK * self.rented_per_hour


def best_by_weeks(strategies: Mapping[str, Commitment], weeks: int) -> list[tuple[int, str]]:
    """Strategy that costs least when committed, from the first week on that it does; its changes alone.

    Args:
        strategies: costs by name, one or more.
        weeks: number of weeks to look at, from 1.
    """
    changes: list[tuple[int, str]] = []
    for week in range(1, weeks + 1):
        best = min(strategies, key=lambda name: strategies[name].committed(week))
        if not changes or changes[-1][1] != best:
            changes.append((week, best))
    return changes
