"""Which requests are let in. Pure: arrivals and departures with their times in, yes or no out.

Three signals of overload (DAGOR, SoCC 2018, and Breakwater, OSDI 2020, watch delay too; throughput alone
cannot tell idle from stuck): how many requests are inside; how long the recent ones took against how long
they had; and how long they stand in line for the event loop, which is late then. Under rising load reissues
stop first, then requests are turned away, lowest priority first.
"""

from __future__ import annotations

from math import exp

from runtime._policy import Limits


class Admission:
    """Counts requests and judges the load.

    Args:
        limits: how many may be inside, and at which load what is given up.

    Attributes:
        inside: requests that were let in and are not done.
        shed: requests turned away so far.
    """

    __slots__ = ("_crowd", "_limits", "_line_s", "_news_at", "_took", "_use", "inside", "shed")

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.inside = 0
        self._line_s = 0.0
        self._crowd = 0
        self.shed = 0
        self._took = 0.0
        self._use = 0.0
        self._news_at = 0.0

    def enter(self, now: float, priority: int, allowed: float | None = None) -> float | None:
        """A request arrives: None lets it in, a number is after how many seconds to come again.

        Args:
            now: seconds.
            priority: of the request; 0 is normal, higher is more important.
            allowed: how long it may take, seconds; None for the limits' own.
        """
        again = self.refusal(now, priority, allowed)
        if again is None:
            self.inside += 1
        return again

    def refusal(self, now: float, priority: int, allowed: float | None = None) -> float | None:
        """As `enter`, for a request that has not come in yet: what is turned away need not be read."""
        limits = self._limits
        if self._judged(now, allowed) < limits.shed_threshold(priority):
            return None
        self.shed += 1
        return min(max(2 * self._took, limits.least_retry_after_s), limits.most_retry_after_s)

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

    def note_line(self, line_s: float) -> None:
        """It was measured how long a request stands in line for the event loop now, seconds."""
        self._line_s = line_s
        self._crowd = self.inside

    @property
    def line_s(self) -> float:
        """How long a request that comes now will have stood in line, seconds; more with each that came since.

        Each step of the loop serves all who are inside; a few may come and go without its being slower.
        """
        always = max(1, self._limits.always)
        return self._line_s * max(1.0, (self.inside + always) / (self._crowd + always))

    def load(self, now: float, allowed: float | None = None) -> float:
        """From 0 (idle) to 1 (full), for requests that may take so many seconds; None for the limits' own."""
        use = self._use
        silent = now - self._news_at
        if silent > 1.0 and use:  # without news the last word counts less and less, so that nothing locks
            use *= exp(-(silent - 1.0))
        return max(use, self.inside / self._limits.requests, self._line(allowed))

    def _line(self, allowed: float | None) -> float:
        """The time in line, against how long it may be."""
        limits = self._limits
        share = limits.wait_share * (limits.deadline_ms / 1000 if allowed is None else allowed)
        return min(1.0, self.line_s / max(share, limits.least_wait_s))

    def _judged(self, now: float, allowed: float | None = None) -> float:
        """The load as far as it counts: a few requests that are slow are none, if they stand in no line."""
        return self.load(now, allowed) if self.inside >= self._limits.always else self._line(allowed)

    def calm(self, now: float) -> bool:
        """Whether there is room for extra requests."""
        return self._judged(now) < self._limits.calm_below
