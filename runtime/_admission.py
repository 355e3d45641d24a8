"""Which requests are let in. Pure: arrivals and departures with their times in, yes or no out.

Two signals of overload: how many requests are inside, and how long the recent ones took against how long
they had (DAGOR, SoCC 2018, and Breakwater, OSDI 2020, watch delay too; throughput alone cannot tell idle
from stuck). Under rising load reissues stop first, then requests are turned away, lowest priority first.
"""

from __future__ import annotations

from math import exp

from runtime._policy import Limits


class Admission:
    """Counts requests and judges the load.

    Args:
        limits: how many may be inside, and at which load what is given up.
    """

    __slots__ = ("_limits", "_news_at", "_took", "_use", "inside", "shed")

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.inside = 0
        self.shed = 0
        self._took = 0.0
        self._use = 0.0
        self._news_at = 0.0

    def enter(self, now: float, priority: int) -> float | None:
        """A request arrives: None lets it in, a number is after how many seconds to come again.

        Args:
            now: seconds.
            priority: of the request; 0 is normal, higher is more important.
        """
        inside = self.inside
        limits = self._limits
        if inside >= limits.always and self.load(now) >= limits.shed_threshold(priority):
            self.shed += 1
            return min(max(2 * self._took, limits.least_retry_after_s), limits.most_retry_after_s)
        self.inside = inside + 1
        return None

    def leave(self, now: float, *, took: float, allowed: float) -> None:
        """A request that was let in is done.

        Args:
            now: seconds.
            took: how long it took, seconds.
            allowed: how long it might have taken, seconds.
        """
        self.inside -= 1
        use = took / allowed if allowed > 0 else 1.0
        gain = self._limits.gain
        self._use += gain * (min(1.0, use) - self._use)
        self._took += gain * (took - self._took)
        self._news_at = now

    def load(self, now: float) -> float:
        """From 0 (idle) to 1 (full)."""
        crowd = self.inside / self._limits.requests
        use = self._use
        silent = now - self._news_at
        if silent > 1.0 and use:  # without news the last word counts less and less, so that nothing locks
            use *= exp(-(silent - 1.0))
        return max(use, crowd)

    def calm(self, now: float) -> bool:
        """Whether there is room for extra requests."""
        return self.inside < self._limits.always or self.load(now) < self._limits.calm_below
