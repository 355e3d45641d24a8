"""Waits for a unit: what the releases of the last hours say of the next one."""

from __future__ import annotations

from collections import deque
from math import inf, sqrt
from typing import Final

WINDOW_S: Final = 7200.0  # of the releases that count
SURE: Final = 0.99  # probability with which a unit is free by the estimated wait
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

    def _moments(self) -> tuple[float, float, float]:
        """Sums of the first three powers of the gaps."""
        gaps = [gap for _, gap in self._gaps]
        return sum(gaps), sum(gap**2 for gap in gaps), sum(gap**3 for gap in gaps)

    def mean_wait(self, units: int = 1) -> float:
        """Mean time until so many units are free, of a job that comes at a random moment.

        Args:
            units: number of units, 1 or more.
        """
        if len(self._gaps) < MIN_RELEASES:
            return inf
        total, square, _ = self._moments()
        return square / (2 * total) + (units - 1) * total / len(self._gaps)

    def longest_wait(self) -> float:
        """Bound of a wait: mean and twice the standard deviation of the time until a unit is free."""
        if len(self._gaps) < MIN_RELEASES:
            return 0.0
        total, square, cube = self._moments()
        mean = square / (2 * total)
        return mean + 2 * sqrt(max(cube / (3 * total) - mean**2, 0.0))

    def sure_wait(self) -> float:
        """Time by which a unit is free with probability 0.99."""
        if len(self._gaps) < MIN_RELEASES:
            return inf
        gaps = sorted(gap for _, gap in self._gaps)
        total, low, high = sum(gaps), 0.0, gaps[-1]
        for _ in range(40):  # bisection of the distribution of the rest of a gap
            middle = (low + high) / 2
            low, high = (
                (middle, high) if sum(min(gap, middle) for gap in gaps) < SURE * total else (low, middle)
            )
        return high

    def worth_waiting(self) -> bool:
        """Whether a job is held back: a unit is surely free before the bound."""
        return self.sure_wait() < self.longest_wait()
