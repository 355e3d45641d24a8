"""Desired error intervals: how far a score may be off before a twentieth of applications loses its QoS."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from kwiken.base.arrays import Bools, Floats, Ints
from papers.lsh.data_centre import run_applications
from papers.lsh.population import SHARED, Applications

STEP: Final = 0.1  # of the errors that are tried, as shares of the score
MAX_ERROR: Final = 0.5
LOST: Final = 5.0  # points of the applications with QoS kept, from which an error is too large
ARRIVALS: Final = 150
FLOOR: Final = 0.02  # of a score: below, every prediction would be off by a large share
SHOWN_ERROR: Final = 0.2  # of the source's Figure 1


@dataclass(frozen=True, eq=False)
class DesiredIntervals:
    """Intervals of one data centre.

    Attributes:
        under: (r, 2) share of a need or cause by which it may be predicted too low.
        over: (r, 2) share by which it may be predicted too high.
        lost: (r,) points of applications that lose their QoS where a score of the resource is off by 20%;
            the worst of both scores and both directions.
    """

    under: Floats
    over: Floats
    lost: Floats

    def by_width(self) -> Ints:
        """(r,) resources, the narrowest interval first; that of the narrower of both scores."""
        return np.argsort((self.under + self.over).min(axis=1), kind="stable").astype(np.int64)

    def holds(self, predicted: Floats, truth: Floats) -> Bools:
        """Whether predictions are within the intervals.

        Args:
            predicted: (..., r, 2) predicted scores from 0 to 1.
            truth: (..., r, 2) true scores.
        """
        error = predicted - truth
        low, high = np.maximum(self.under * truth, FLOOR), np.maximum(self.over * truth, FLOOR)
        return np.asarray((error >= -low - 1e-12) & (error <= high + 1e-12))


def desired_intervals(truth: Applications, seed: int) -> DesiredIntervals:
    """Find the intervals by running the same applications with one score of all of them off.

    Args:
        seed: seed of the applications that arrive, and of their durations.
    """
    chosen = np.random.default_rng([seed, 3]).integers(len(truth.scores), size=ARRIVALS)
    count = len(SHARED)
    exact = _kept(truth, truth.scores, chosen, seed)
    under, over, lost = np.zeros((count, 2)), np.zeros((count, 2)), np.zeros(count)
    for resource in range(count):
        for score in range(2):
            for sign, into in ((-1, under), (1, over)):
                for step in range(1, round(MAX_ERROR / STEP) + 1):
                    off = truth.scores.copy()
                    off[:, :, resource, score] *= 1.0 + sign * step * STEP
                    points = exact - _kept(truth, np.clip(off, 0.0, 1.0), chosen, seed)
                    if abs(step * STEP - SHOWN_ERROR) < STEP / 2:
                        lost[resource] = max(lost[resource], points)
                    if points >= LOST and step * STEP > SHOWN_ERROR - STEP / 2:
                        break
                    if points < LOST and into[resource, score] >= (step - 1.5) * STEP:
                        into[resource, score] = step * STEP
    return DesiredIntervals(under, over, lost)


def _kept(truth: Applications, believed: Floats, chosen: Ints, seed: int) -> float:
    return run_applications(
        truth, believed, chosen, "tightest fit", kind="default", load="high", seed=seed
    ).kept()
