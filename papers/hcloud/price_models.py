"""Break-evens in weeks and sustained-use discounts, as the source states them (HCloud section 5)."""

from __future__ import annotations

from typing import Final

WEEKS_PER_YEAR: Final = 8760.0 / 168.0
# Increments of price for each quarter of a month that a type is used, as shares of the base price.
SUSTAINED_TIERS: Final = (1.0, 0.8, 0.6, 0.4)


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
