"""Watch over one workload: tells when it needs more, when less will do, and which replica is a straggler.

The watch reacts slowly on purpose. One slow window proves nothing. A change takes time to have an effect. If
a workload gives resources back and soon needs more again, the watch waits longer before the next reduction,
without a bound that matters: so changes under a steady load become ever rarer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from statistics import median
from typing import Final

WINDOW_S: Final = 5.0  # interval of observations (Quasar section 3.8)
MIN_REQUESTS_FOR_P99: Final = 100
WINDOWS_TO_GROW: Final = 2  # with a p99 above the target, one after another
WINDOWS_TO_SHRINK: Final = 12  # with a p99 well below it: a minute
MAX_WINDOWS_TO_SHRINK: Final = 17_280  # a day
COOL_DOWN_S: Final = 20.0  # for a change to show: a replica starts, and old latencies leave the window
REGRET_S: Final = 600.0  # a need for more within this time of a reduction shows that it was a mistake
WELL_BELOW: Final = 0.7  # of the target
STRAGGLER: Final = 1.5  # of the median latency of the other replicas (Quasar section 3.9)
WINDOWS_TO_MOVE: Final = 3
MAX_GAP_S: Final = 15.0  # between two windows of which one is said to follow the other
MAX_TURNED_AWAY: Final = 0.01  # of all requests: beyond it the p99 of all of them is no answer


class Need(Enum):
    """What an observation calls for."""

    NOTHING = "nothing"
    MORE = "more"
    LESS = "less"


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What was measured of a workload over the last seconds.

    Attributes:
        requests: number of requests answered, 0 or more.
        rate_per_s: rate of requests, those that were turned away too, 0 or more.
        p99_ms: p99 latency, milliseconds; None without requests.
        latency_ms: recent latency of each replica, milliseconds, by the replica's key; those not known are
            left out.
        turned_away: share of the requests that were refused because the service is full, 0 to 1.
        work_ms: processor time of a request, all of its calls and copies together, milliseconds; None if not
            known.
        arrived: number of requests that came since the last window, those turned away too, 0 or more.
        lasted_s: time since that window, seconds; 0 if there was none, so that `arrived` tells nothing.
    """

    requests: int
    rate_per_s: float
    p99_ms: float | None
    latency_ms: Mapping[str, float] = field(default_factory=dict)
    turned_away: float = 0.0
    work_ms: float | None = None
    arrived: int = 0
    lasted_s: float = 0.0


@dataclass(slots=True)
class WorkloadWatch:
    """State of the watch over one workload.

    Attributes:
        target_ms: largest p99 latency, milliseconds; None for a workload whose latency is not promised.
    """

    target_ms: float | None
    _slow: int = 0  # windows in a row
    _quiet: int = 0
    _patience: int = WINDOWS_TO_SHRINK
    _busy_until_s: float = float("-inf")
    _gave_back_s: float = float("-inf")
    _seen_s: float = float("-inf")
    _straggling: dict[str, int] = field(default_factory=dict)

    def observe(self, now_s: float, seen: Observation) -> Need:
        """Take account of a window.

        There are six cases:

        1. A change has not had its effect yet: the window is ignored.
        2. With too few requests for a p99 the counts of windows stay.
        3. Nothing was seen for a while, so that this window follows no other one: both counts begin anew.
        4. The p99 is above the target, or too many requests were turned away to have a p99.
        5. The p99 is well below the target.
        6. The p99 lies between, or there is no target: both counts begin anew.

        Args:
            now_s: moment on a monotonic clock, seconds.
        """
        if now_s - self._seen_s > MAX_GAP_S:
            self._slow = self._quiet = 0
        self._seen_s = now_s
        full = seen.turned_away > MAX_TURNED_AWAY
        if self.waits(now_s) or seen.requests < MIN_REQUESTS_FOR_P99:
            return Need.NOTHING
        if seen.p99_ms is None and not full:
            return Need.NOTHING
        p99_ms = math.inf if full or seen.p99_ms is None else seen.p99_ms
        target_ms = self.target_ms if self.target_ms is not None else math.inf
        self._slow = self._slow + 1 if full or p99_ms > target_ms else 0
        self._quiet = self._quiet + 1 if p99_ms < WELL_BELOW * target_ms < math.inf else 0
        if self._slow >= WINDOWS_TO_GROW:
            return Need.MORE
        return Need.LESS if self._quiet >= self._patience else Need.NOTHING

    def waits(self, now_s: float) -> bool:
        """Whether a change has not had its effect yet.

        Args:
            now_s: moment on a monotonic clock, seconds.
        """
        return now_s < self._busy_until_s

    @property
    def slow(self) -> bool:
        """Whether the last window that counted was above the target."""
        return self._slow > 0

    def missed(self, seen: Observation) -> str:
        """Say how a window misses the target, as a phrase.

        Args:
            seen: what was measured; it misses the target.
        """
        if seen.turned_away > MAX_TURNED_AWAY or self.target_ms is None or seen.p99_ms is None:
            return f"{seen.turned_away:.1%} of the requests were turned away"
        return f"p99 {seen.p99_ms:.3g} ms is over {self.target_ms:.3g} ms"

    def grew(self, now_s: float) -> None:
        """Record that the workload was given more, or that there was nothing to give."""
        if now_s - self._gave_back_s < REGRET_S:
            self._patience = min(MAX_WINDOWS_TO_SHRINK, 2 * self._patience)
            self._gave_back_s = float("-inf")
        self.changed(now_s)

    def shrank(self, now_s: float) -> None:
        """Record that the workload gave something back."""
        # What was given back before was not missed; after a reduction that was, there is no such moment.
        if math.isfinite(self._gave_back_s) and now_s - self._gave_back_s > REGRET_S:
            self._patience = max(WINDOWS_TO_SHRINK, self._patience // 2)
        self._gave_back_s = now_s
        self.changed(now_s)

    def changed(self, now_s: float) -> None:
        """Record a change, which needs time to show."""
        self._slow = self._quiet = 0
        self._straggling.clear()
        self._busy_until_s = now_s + COOL_DOWN_S

    def stays(self) -> None:
        """Record that a straggler stays where it is, for want of a better place."""
        self._straggling.clear()

    def straggler(
        self, now_s: float, seen: Observation, expected: Mapping[str, tuple[float, float]]
    ) -> str | None:
        """Replica that has been much slower than the others for several windows; None for none.

        A slow node is no straggler, and neither is a small replica. Whether more cores make one call quicker
        is not known: a replica has to be slow whether they do or not.

        Args:
            now_s: moment on a monotonic clock, seconds.
            expected: by key of a replica, its predicted rate, work per second, and the performance of its
                class of node, as a factor.
        """
        if self.waits(now_s):
            return None
        work = {
            key: [seen.latency_ms[key] * one for one in both]
            for key, both in expected.items()
            if key in seen.latency_ms
        }
        for key in list(self._straggling):
            if key not in work:
                del self._straggling[key]
        found = None
        for key, values in work.items():
            others = [other for name, other in work.items() if name != key]
            slow = len(others) > 0 and all(
                value >= STRAGGLER * median(of_others)
                for value, of_others in zip(values, zip(*others, strict=True), strict=True)
            )
            self._straggling[key] = self._straggling.get(key, 0) + 1 if slow else 0
            if self._straggling[key] >= WINDOWS_TO_MOVE and found is None:
                found = key
        return found
