"""Crosstalk between sources of contention: what one kernel costs another, and which cannot be told apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from kwiken.base.arrays import Floats

MAX_CROSSTALK: Final = 0.15  # loss of another source's kernel, above which the two are not separate


@dataclass(frozen=True, eq=False)
class Crosstalk:
    """Losses that kernels cause one another.

    Attributes:
        level: level of both kernels, 0 to 1.
        losses: (n, n) relative loss of speed of the column's kernel while the row's presses; may be slightly
            negative by noise.
    """

    sources: tuple[str, ...]
    level: float
    losses: Floats

    @property
    def mean_off_diagonal(self) -> float:
        """Mean loss between different sources."""
        count = len(self.sources)
        if count < 2:  # noqa: PLR2004 - a pair
            return 0.0
        return float((self.losses.sum() - np.trace(self.losses)) / (count * (count - 1)))

    def inseparable(self) -> list[tuple[str, str, float]]:
        """Pairs of different sources with crosstalk above 15%: presser, pressed and loss; largest first."""
        found = [
            (presser, pressed, float(self.losses[row, column]))
            for row, presser in enumerate(self.sources)
            for column, pressed in enumerate(self.sources)
            if row != column and self.losses[row, column] > MAX_CROSSTALK
        ]
        return sorted(found, key=lambda pair: -pair[2])


def loss(alone: Sequence[float], pressed: Sequence[float]) -> float:
    """Relative loss of speed, from windows that were measured in turns; the median of their ratios.

    Args:
        alone: speed of a kernel in windows alone.
        pressed: its speed in the windows that followed each.
    """
    ratios = [under / free for free, under in zip(alone, pressed, strict=True) if free > 0]
    return 1.0 - float(np.median(ratios)) if ratios else 0.0
