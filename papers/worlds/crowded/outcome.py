"""Outcome of a run in a crowded world: performance of every job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from kwiken.base.arrays import Floats, Ints

KEPT: Final = 0.95  # of the performance alone on the best machine type, from which quality counts as kept
SEVERE: Final = 0.80


@dataclass(frozen=True, eq=False)
class CrowdedOutcome:
    """Results of one run.

    Attributes:
        arrival_s: (j,) times of arrival, in seconds.
        ran_s: (j,) times from which a job ran first; NaN for never, in seconds.
        finished_s: (j,) times of the end; NaN for jobs that were given up, in seconds.
        alone_s: (j,) duration alone on the best machine type, in seconds.
        kills: (j,) how often a job was killed for want of memory.
        moves: (j,) how often a job was moved.
        looks: number of looks at programs during the run.
        used: share of all cores that were busy while jobs arrived.
    """

    arrival_s: Floats
    ran_s: Floats
    finished_s: Floats
    alone_s: Floats
    kills: Ints
    moves: Ints
    looks: int
    used: float

    def summary(self) -> dict[str, float]:
        """Figures by name, defined in docs/allocate/crowded.md; a job that was given up counts 0."""
        done = np.isfinite(self.finished_s)
        with np.errstate(invalid="ignore"):
            got = np.where(done, self.alone_s / (self.finished_s - self.ran_s), 0.0)
            whole = np.where(done, self.alone_s / (self.finished_s - self.arrival_s), 0.0)
        return {
            "mean performance, %": 100 * float(got.mean()),
            "QoS kept, %": 100 * float((got >= KEPT).mean()),
            "loss above 20%, %": 100 * float((got < SEVERE).mean()),
            "mean performance from arrival, %": 100 * float(whole.mean()),
            "cores used, %": 100 * self.used,
            "mean wait, s": float(np.nanmean(self.ran_s - self.arrival_s)),
            "kills": float(self.kills.sum()),
            "moves": float(self.moves.sum()),
            "looks": float(self.looks),
            "given up": float((~done).sum()),
        }
