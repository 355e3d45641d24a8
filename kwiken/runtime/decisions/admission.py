"""Which requests are let in. Pure: arrivals and departures with their times in, yes or no out.

Three signals of overload (DAGOR, SoCC 2018, and Breakwater, OSDI 2020, watch delay too; throughput alone
cannot tell idle from stuck): how many requests are inside, against how many there is room for; how long the
recent ones took against how long they had; and how long they stand in line for the event loop, which is late
then. Under rising load reissues stop first, then requests are turned away, lowest priority first.

How many the replicas have room for is learned. A replica that holds all that it may refuses whatever comes,
urgent or not, and at once, so that neither delay nor the number inside tells of it. Therefore a request that
found every replica full ends the room for its priority at those who are inside then, and each request that is
served makes a little more, as TCP finds a path's capacity. What the lower priorities may not use of that room
is kept free for the higher: trunk reservation, as telephone networks have it.
"""

from __future__ import annotations

from math import exp

from kwiken.runtime.decisions.program import Limits

# Requests for which one that is served makes room: so few that only some in a hundred find the replicas full
# again. The longer none does the more: room that came back, with a replica say, is found within a dozen times
# what a request takes.
GROWTH = 0.02
ROUNDING = 1e-9  # so that a share of the room, rounded down, is not below the threshold that it was made from


class Admission:
    """Counts requests and judges the load.

    Args:
        limits: how many may be inside, and at which load what is given up.

    Attributes:
        inside: requests that were let in and are not done.
        room: the most requests at once that there is room for.
        shed: requests turned away so far.
    """

    __slots__ = (
        "_crowd",
        "_limits",
        "_line_s",
        "_news_at",
        "_served",
        "_took",
        "_use",
        "inside",
        "room",
        "shed",
    )

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.inside = 0
        self.room = float(limits.requests)
        self._served = 0  # requests since one found the replicas full
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
        self._served += 1
        self.room = min(self._limits.requests, self.room + GROWTH * (1.0 + self._served / self.room))

    def leave_full(self, priority: int) -> None:
        """A request that was let in is done: it found every replica full.

        Its time says nothing: it is refused at once, and most so where load is highest.

        Args:
            priority: of the request.
        """
        self.inside -= 1
        self._served = 0
        # So many that its own priority is turned away from now on as soon as there are as many inside.
        held = self.inside / (self._limits.shed_threshold(priority) + ROUNDING)
        self.room = min(self.room, max(1.0, held))

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
        return max(use, self.inside / self.room, self._line(allowed))

    def _line(self, allowed: float | None) -> float:
        """The time in line, against how long it may be."""
        limits = self._limits
        share = limits.wait_share * (limits.deadline_ms / 1000 if allowed is None else allowed)
        return min(1.0, self.line_s / max(share, limits.least_wait_s))

    def _judged(self, now: float, allowed: float | None = None) -> float:
        """The load as far as it counts: a few requests that are slow are none.

        Unless they stand in line, or there is no room for more than a few.
        """
        if self.inside >= self._limits.always:
            return self.load(now, allowed)
        crowd = self.inside / self.room if self.room < self._limits.requests else 0.0
        return max(crowd, self._line(allowed))

    def calm(self, now: float) -> bool:
        """Whether there is room for extra requests."""
        return self._judged(now) < self._limits.calm_below
