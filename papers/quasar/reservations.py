"""Reservations beyond the need: Figure 4.1 of Quasar, by its model of users (section 3.13)."""

from __future__ import annotations

from typing import Final

import numpy as np

from papers.figures.rows import Findings, Part, RowKind, over_seeds, percent, row
from papers.worlds.fleet.targets import random_reservations

USERS: Final = 100_000
NOTE: Final = "the specification's model of users, which is given all three"


def reserved(seed: int) -> tuple[float, float, float]:
    """Mean factor of reservations, and the shares of users above and below their need."""
    factors = random_reservations(np.random.default_rng([seed, 4]), USERS)
    return float(factors.mean()), float((factors > 1).mean()), float((factors < 1).mean())


def conclude(results: list[list[tuple[float, float, float]]]) -> Findings:
    """Rows of the model.

    Args:
        results: by seed, as the only case.
    """
    mean, above, below = np.mean(results[0], axis=0).tolist()
    rows = (
        ("reservations over the need, mean", mean, "2.94"),
        ("users who reserve more than they need, %", percent(above), "70"),
        ("users who reserve less than they need, %", percent(below), "20"),
    )
    return Findings(
        tuple(
            row("Figure 4.1", metric, ours, source=source, note=NOTE, kind=RowKind.INPUT)
            for metric, ours, source in rows
        )
    )


def reservations(seeds: int) -> tuple[Part, ...]:
    """Part on what users reserve.

    Args:
        seeds: number of draws of the users.
    """
    return (over_seeds("reservations", reserved, seeds, conclude, figures=("Figure 4.1",)),)
