"""Records of a run of the lined fleet: times and kills of each job, and chances beside waiting times."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from kwiken.base.arrays import Bools, Floats, Ints
from papers.worlds.waiting.outcome import WaitSample

POINTS: Final = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)  # of a budget, at which chances are noted


@dataclass(eq=False)
class RunRecord:
    """Arrays over jobs, filled while the run goes on."""

    started_s: Floats
    finished_s: Floats
    charged_s: Floats
    measuring_s: Floats
    late: Bools
    down: Bools
    up: Bools
    kills: Ints
    series: list[tuple[float, float, float, float]] = field(default_factory=list)
    busy_s: list[float] = field(default_factory=list)

    @classmethod
    def of(cls, count: int) -> RunRecord:
        """Record of a number of jobs of which none has started."""
        none = np.full(count, np.nan)
        flags = np.zeros(count, dtype=np.bool_)
        return cls(
            none.copy(),
            none.copy(),
            np.zeros(count),
            np.zeros(count),
            flags.copy(),
            flags.copy(),
            flags.copy(),
            np.zeros(count, dtype=np.int64),
        )


@dataclass(eq=False)
class _OpenSample:
    pool: int
    at_s: float
    within_s: tuple[float, ...]
    predicted: tuple[float, ...]


class ChanceSamples:
    """Chances of a slot for waiting jobs, each kept until the waiting time of the job is known."""

    def __init__(self) -> None:
        self.closed: list[WaitSample] = []
        self._open: dict[str, _OpenSample] = {}

    def note(
        self, job: str, pool: int, budget_s: float, now_s: float, chance: Callable[[float], float]
    ) -> None:
        """Note the chances of a job that has begun to wait.

        Args:
            pool: number of the pool that the job waits for.
            budget_s: budget of waiting, in seconds; chances are noted at shares of it.
            now_s: moment, in seconds.
            chance: function from a time in seconds to the probability of a slot within this time.
        """
        within_s = tuple(share * budget_s for share in POINTS)
        self._open[job] = _OpenSample(pool, now_s, within_s, tuple(chance(each) for each in within_s))

    def close_free(self, free: Callable[[int], int], now_s: float) -> None:
        """Close the samples of pools that have a free slot now.

        Args:
            free: function from the number of a pool to its number of free slots.
            now_s: moment, in seconds.
        """
        for job, sample in list(self._open.items()):
            if free(sample.pool):
                self.close(job, now_s - sample.at_s, now_s)

    def close(self, job: str, waited_s: float, now_s: float) -> None:
        """Close the sample of a job, if there is one.

        Args:
            waited_s: time until a slot was free, in seconds; infinite where the job left before.
            now_s: moment, in seconds.
        """
        sample = self._open.pop(job, None)
        if sample is None:
            return
        seen_s = now_s - sample.at_s
        known = [at for at, each in enumerate(sample.within_s) if math.isfinite(waited_s) or each <= seen_s]
        if known:
            self.closed.append(
                WaitSample(
                    sample.pool,
                    tuple(sample.within_s[at] for at in known),
                    tuple(sample.predicted[at] for at in known),
                    waited_s,
                )
            )
