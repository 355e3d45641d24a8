"""Headroom: by how much a prediction must exceed a target so that the target is met as surely as asked."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from kwiken.allocator.workloads.completion.tails import NORMAL_TAILS, ErrorTails

LOSS_AT_TOLERANCE: Final = (
    0.05  # share of performance lost at the tolerated pressure, by definition of the score
)
ROUNDING: Final = 1e-9  # log units by which a prediction without deviation may fall short


@dataclass(frozen=True)
class Caution:
    """How surely targets are met, and against what.

    The source takes predictions as they are (`SOURCE_CAUTION`), and misses about half of its targets before
    adaptation helps (Quasar section 7, pitfall P-1).

    Attributes:
        confidence: probability that the performance of a workload reaches its target, 0.5 to 0.9999.
        shortfall: share of the target that may be missing and still count as met, from 0 to 0.5. The source
            counts 0.05 as met.
        later_loss: share of performance that is bought against neighbours, from 0 to 0.5. Neighbours are
            accepted up to the pressure that costs it, and at least up to the tolerated one, which costs 0.05.
        tails: distribution of prediction errors, in deviations.
    """

    confidence: float = 0.95
    shortfall: float = 0.0
    later_loss: float = LOSS_AT_TOLERANCE
    tails: ErrorTails = NORMAL_TAILS

    def __post_init__(self) -> None:
        """Check the ranges; NaN fails too."""
        for name, low, high in (
            ("confidence", 0.5, 0.9999),
            ("shortfall", 0.0, 0.5),
            ("later_loss", 0.0, 0.5),
        ):
            value = getattr(self, name)
            if not low <= value <= high:
                raise ValueError(f"{name} must be from {low:g} to {high:g}, not {value}")

    @property
    def most_loss(self) -> float:
        """Share of performance that neighbours may cost before they are refused."""
        return max(self.later_loss, LOSS_AT_TOLERANCE)

    @cached_property
    def quantile(self) -> float:
        """Number of deviations that `confidence` stands for, with the tails that errors have."""
        return self.tails.deviations_at(self.confidence)

    def headroom(self, deviation: float) -> float:
        """Share by which a predicted performance must exceed its target.

        The error of the prediction is log-normal: its logarithm has mean 0 and a standard deviation.

        Args:
            deviation: standard deviation of the natural logarithm of the prediction, 0 or more, in log units.
        """
        return math.expm1(max(0.0, self.quantile * deviation + math.log1p(-self.shortfall)))

    def probability(self, ratio: float, deviation: float) -> float:
        """Probability that a target is met, up to the shortfall.

        Args:
            ratio: predicted performance over the target, 0 or more, a ratio.
            deviation: standard deviation of the natural logarithm of the prediction, in log units.
        """
        if ratio <= 0:
            return 0.0
        margin = math.log(ratio) - math.log1p(-self.shortfall)
        if deviation <= 0:
            return 1.0 if margin >= -ROUNDING else 0.0
        return self.tails.probability_below(margin / deviation)


SOURCE_CAUTION = Caution(confidence=0.5, shortfall=0.0, later_loss=0.0)
