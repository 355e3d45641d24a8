"""Lines of a cache that random accesses cover: drawn with replacement, and by a permutation."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from kwiken.base.arrays import Floats

GOLDEN: Final = 0.618  # step of the permutation, as a share of the lines


def draws_needed(lines: int, level: float) -> float:
    """Draws with replacement that cover a share of the lines in the mean.

    Args:
        level: share to cover, from 0 to below 1.
    """
    return -lines * math.log1p(-level)


def covered_by_draws(lines: int, draws: int, rng: np.random.Generator) -> int:
    """Distinct lines after draws with replacement."""
    return len(np.unique(rng.integers(0, lines, draws)))


def covered_by_permutation(lines: int, accesses: int) -> int:
    """Distinct lines after accesses that step through a permutation of all lines."""
    step = int(lines * GOLDEN) + 1
    while math.gcd(step, lines) != 1:
        step += 1
    return len(np.unique(np.arange(accesses, dtype=np.int64) * step % lines))


def worst_residual(levels: Floats, covered: Floats) -> float:
    """Largest distance of coverage from the fitted line, as a share of all lines.

    Args:
        levels: (n,) levels.
        covered: (n,) share that is covered at each.
    """
    slope, offset = np.polyfit(levels, covered, 1)
    return float(np.abs(covered - offset - slope * levels).max())
