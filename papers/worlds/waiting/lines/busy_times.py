"""Busy times of each pool: how long its jobs held their slots, and where slots are free afterwards."""

from __future__ import annotations

from collections import deque
from typing import Final

from papers.worlds.waiting.lines.distributions import MIN_SAMPLES, BusyTime, fitted

HISTORY: Final = 500  # busy times of one pool that are kept
REFIT: Final = 25  # ends after which a pool's distribution is fitted again
GAPS: Final = 100  # gaps between the releases into one pool that are kept
SHORT_GAPS: Final = 0.10  # share of the gaps that are shorter than the one a head reserves for


class BusyTimes:
    """Statistics of one set of pools, updated at every end.

    A slot of a shared node need not be free in the pool from which it was given: what the node offers then
    depends on who is left. So ends are also counted by the pool in which the slot became free.

    Args:
        pools: how many pools there are, one for each class of quality.
    """

    def __init__(self, pools: int) -> None:
        self._times: list[deque[float]] = [deque(maxlen=HISTORY) for _ in range(pools)]
        self._since_fit = [0] * pools
        self._fits: list[BusyTime | None] = [None] * pools
        self._landed = [[float(here == there) for there in range(pools)] for here in range(pools)]
        self._released_s: list[float | None] = [None] * pools
        self._gaps: list[deque[float]] = [deque(maxlen=GAPS) for _ in range(pools)]

    def ended(self, pool: int, busy_s: float, now_s: float, landed: int | None) -> None:
        """Record the end of a job.

        Args:
            pool: pool that its node was in when the job started.
            busy_s: time from its start to its end, in seconds.
            now_s: moment of the end, in seconds.
            landed: pool in which its slot is free now; None for none.
        """
        self._times[pool].append(max(busy_s, 0.0))
        self._since_fit[pool] += 1
        if self._since_fit[pool] >= REFIT or len(self._times[pool]) < MIN_SAMPLES:
            self._fits[pool] = None
        if landed is None:
            return
        self._landed[pool][landed] += 1
        before = self._released_s[landed]
        if before is not None:
            self._gaps[landed].append(now_s - before)
        self._released_s[landed] = now_s

    def fit(self, pool: int) -> BusyTime | None:
        """Distribution of a pool's busy times; None before its first end."""
        if self._fits[pool] is None and self._times[pool]:
            self._fits[pool] = fitted(self._times[pool])
            self._since_fit[pool] = 0
        return self._fits[pool]

    def landing(self, pool: int, there: int) -> float:
        """Share of a pool's slots that become free in some pool; at first, all in their own.

        Args:
            pool: pool that the slot was given from.
            there: pool in which it becomes free.
        """
        row = self._landed[pool]
        return row[there] / sum(row)

    def short_gap_s(self, pool: int) -> float:
        """Gap between two releases into a pool that a tenth of the gaps fall below, in seconds; 0 unknown."""
        gaps = sorted(self._gaps[pool])
        return gaps[int(SHORT_GAPS * len(gaps))] if gaps else 0.0
