"""Mean wait for a unit, from the gaps between the releases of the last hours."""

from __future__ import annotations

from collections import deque
from math import inf
from typing import Final

WINDOW_S: Final = 7200.0  # of the releases that count
MIN_RELEASES: Final = 10  # fewer say nothing


class ReleaseHistory:
    """Moments at which units of one bucket became free. Times in seconds.

    A job that comes at a random moment waits for the rest of the gap that it falls into. So the mean wait is
    half the mean square of the gaps over their mean, which exceeds half a mean gap.
    """

    def __init__(self) -> None:
        self._gaps: deque[tuple[float, float]] = deque()  # (moment of the release, gap before it)
        self._last = inf

    def released(self, now: float) -> None:
        """Record that a unit is free from now on."""
        if self._last < now:
            self._gaps.append((now, now - self._last))
        self._last = now
        while self._gaps and self._gaps[0][0] < now - WINDOW_S:
            self._gaps.popleft()

    def mean_wait(self, units: int = 1) -> float:
        """Mean time until so many units are free, of a job that comes at a random moment.

        Args:
            units: number of units, 1 or more.
        """
        if len(self._gaps) < MIN_RELEASES:
            return inf
        gaps = [gap for _, gap in self._gaps]
        total, square = sum(gaps), sum(gap**2 for gap in gaps)
        return square / (2 * total) + (units - 1) * total / len(self._gaps)
