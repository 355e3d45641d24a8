"""Drawn load curves of hours, for comparisons of what to reserve."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import numpy as np

from kwiken.base.arrays import Floats

HOURS_PER_DAY: Final = 24


def _shop(rng: np.random.Generator, hours: Floats) -> Floats:
    """A shop on the web: day and week, growth of up to 40% over the time, bursts of advertising."""
    day = 1 + 0.45 * np.sin(2 * np.pi * (hours - 9) / HOURS_PER_DAY)
    week = np.where((hours // HOURS_PER_DAY) % 7 >= 5, 1.25, 1.0)  # noqa: PLR2004 - the weekend
    growth = 1 + rng.uniform(0.0, 0.4) * hours / hours[-1]
    bursts = 1 + 0.5 * (rng.random(len(hours)) < 0.02)  # noqa: PLR2004 - of the hours
    load: Floats = 200 * day * week * growth * bursts * np.exp(0.06 * rng.standard_normal(len(hours)))
    return load


def _batch(rng: np.random.Generator, hours: Floats) -> Floats:
    """A batch platform: nights of heavy work on working days, a base that drifts by hours."""
    night = ((hours % HOURS_PER_DAY) < 6) & ((hours // HOURS_PER_DAY) % 7 < 5)  # noqa: PLR2004 - hours, days
    base = np.zeros(len(hours))
    steps = rng.standard_normal(len(hours)) * 4.0
    for at in range(1, len(hours)):
        base[at] = 0.9 * base[at - 1] + steps[at]
    heavy = night * rng.gamma(9.0, 20.0, len(hours))
    return np.maximum(0.0, 60 + base) + heavy


SHAPES: Final[Mapping[str, Callable[[np.random.Generator, Floats], Floats]]] = MappingProxyType(
    {"shop": _shop, "batch": _batch}
)


def drawn_load(shape: str, days: int, seed: int) -> Floats:
    """(n,) Number of cores asked for, hour by hour.

    Args:
        shape: name of the shape, of `SHAPES`.
    """
    hours = np.arange(days * HOURS_PER_DAY, dtype=np.float64)
    return SHAPES[shape](np.random.default_rng((seed, sorted(SHAPES).index(shape))), hours)
