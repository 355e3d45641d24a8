"""Reservations beyond the need: Figure 4.1 of Quasar, by its model of users (section 3.13)."""

from __future__ import annotations

import statistics
from typing import Final

import numpy as np

from papers.figures.rows import Part, RowKind
from papers.figures.tables import level, study
from papers.worlds.fleet.targets import random_reservations

USERS: Final = 100_000
NOTE: Final = "the specification's model of users, which is given all three"


def reserved(seed: int) -> tuple[float, float, float]:
    """Mean factor of reservations, and the shares of users above and below their need."""
    factors = random_reservations(np.random.default_rng([seed, 4]), USERS)
    return float(factors.mean()), float((factors > 1).mean()), float((factors < 1).mean())


RESERVED: Final = tuple(
    level(
        *("Figure 4.1", metric, (at,), source, NOTE),
        kind=RowKind.INPUT,
        scale=scale,
        over=statistics.fmean,
        spread=False,
    )
    for at, (metric, source, scale) in enumerate(
        (
            ("reservations over the need, mean", "2.94", 1),
            ("users who reserve more than they need, %", "70", 100),
            ("users who reserve less than they need, %", "20", 100),
        )
    )
)


def reservations(seeds: int) -> tuple[Part, ...]:
    """Part on what users reserve.

    Args:
        seeds: number of draws of the users.
    """
    return (study("reservations", reserved, seeds, RESERVED),)
