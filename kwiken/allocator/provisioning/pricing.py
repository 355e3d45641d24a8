"""Bills: cost of nodes by the hour and committed, break-evens in weeks, other pricing models (HCloud)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kwiken.allocator.provisioning.offers import NodeOffer

HOURS_PER_WEEK: Final = 168.0
WEEKS_PER_YEAR: Final = 8760.0 / HOURS_PER_WEEK
MAX_WEEKS: Final = 260
# Increments of price for each quarter of a month that a type is used, as shares of the base price.
SUSTAINED_TIERS: Final = (1.0, 0.8, 0.6, 0.4)


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


def break_even_weeks(ratio: float, cores: float, cores_on_demand: float) -> float:
    """Weeks of use after which reserving cores for a year pays (HCloud section 5).

    Args:
        ratio: price on demand over the reserved one, as a factor.
        cores: number of cores that one strategy reserves and the other does not.
        cores_on_demand: mean number of cores on demand that this saves.
    """
    return WEEKS_PER_YEAR / ratio * cores / cores_on_demand


def sustained_use_factor(share: float) -> float:
    """Net price of a node used for a share of the month, as a factor of the base price.

    The usage of all nodes of a type is pooled: two for half a month cost as much as one for a whole one.

    Args:
        share: used share of the month, 0 to 1.
    """
    if share <= 0:
        return SUSTAINED_TIERS[0]
    left, paid = share, 0.0
    for price in SUSTAINED_TIERS:
        part = min(left, 1 / len(SUSTAINED_TIERS))
        paid += price * part
        left -= part
    return paid / share
