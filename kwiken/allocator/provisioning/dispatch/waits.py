"""Estimated wait for nodes to be released, from the waits before (HCloud section 3.2)."""

from __future__ import annotations

import bisect
import math
from collections import deque
from typing import Final

from scipy.special import gammaincinv

HISTORY: Final = 200  # waits and releases that are kept
KEPT_S: Final = 1800.0
LEVEL: Final = 0.99  # share of the waits that are no longer than the estimate
MIN_WAITS: Final = 20  # below it the rate of releases says what to expect
MAX_WAIT_S: Final = 86_400.0


class WaitEstimator:
    """Waits for nodes of one kind, and the moments at which some were released."""

    def __init__(self) -> None:
        self._waits: deque[tuple[float, float]] = deque()
        self._sorted: list[float] = []
        self._releases: deque[float] = deque(maxlen=HISTORY)

    def released(self, now_s: float) -> None:
        """Note that a node, or its room, was released.

        Args:
            now_s: moment, seconds.
        """
        self._releases.append(now_s)

    def waited(self, now_s: float, wait_s: float) -> None:
        """Note a wait that has ended.

        Args:
            now_s: moment, seconds.
            wait_s: how long it was, seconds.
        """
        if len(self._waits) == HISTORY:
            self._forget()
        self._waits.append((now_s, wait_s))
        bisect.insort(self._sorted, wait_s)

    def estimate_s(self, now_s: float, ahead: int = 0) -> float:
        """Time within which 99% of the waits end, seconds.

        With few waits it follows from the rate of releases: the time within which there are as many as jobs
        ahead, and one more, with this probability. Without a release it is a day.

        Args:
            now_s: moment, seconds.
            ahead: number of jobs that wait already.
        """
        while self._waits and self._waits[0][0] < now_s - KEPT_S:
            self._forget()
        if len(self._sorted) >= MIN_WAITS:
            return self._sorted[math.ceil(LEVEL * len(self._sorted)) - 1]
        while self._releases and self._releases[0] < now_s - KEPT_S:
            self._releases.popleft()
        if not self._releases or now_s <= self._releases[0]:
            return MAX_WAIT_S
        rate = len(self._releases) / (now_s - self._releases[0])
        # Of a Poisson process, the time of the k-th event has the gamma law of shape k.
        return min(MAX_WAIT_S, float(gammaincinv(ahead + 1, LEVEL)) / rate)

    def _forget(self) -> None:
        _, wait_s = self._waits.popleft()
        del self._sorted[bisect.bisect_left(self._sorted, wait_s)]
