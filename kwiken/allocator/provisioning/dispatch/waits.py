"""Estimated wait for nodes to be released, from the waits before (HCloud section 3.2)."""

from __future__ import annotations

import math
from collections import deque
from typing import Final

HISTORY: Final = 200  # waits and releases that are kept
KEPT_S: Final = 1800.0
LEVEL: Final = 0.99  # share of the waits that are no longer than the estimate
MIN_WAITS: Final = 20  # below it the rate of releases says what to expect
MAX_WAIT_S: Final = 86_400.0


class WaitEstimator:
    """Waits for nodes of one kind, and the moments at which some were released."""

    def __init__(self) -> None:
        self._waits: deque[tuple[float, float]] = deque(maxlen=HISTORY)
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
        self._waits.append((now_s, wait_s))

    def estimate_s(self, now_s: float, ahead: int = 0) -> float:
        """Time within which 99% of the waits end, seconds.

        With few waits it follows from the rate of releases: the time within which there are as many as jobs
        ahead, and one more, with this probability. Without a release it is a day.

        Args:
            now_s: moment, seconds.
            ahead: number of jobs that wait already.
        """
        recent = sorted(wait for at, wait in self._waits if at >= now_s - KEPT_S)
        if len(recent) >= MIN_WAITS:
            return recent[math.ceil(LEVEL * len(recent)) - 1]
        first = next((at for at in self._releases if at >= now_s - KEPT_S), None)
        if first is None or now_s <= first:
            return MAX_WAIT_S
        rate = sum(at >= first for at in self._releases) / (now_s - first)
        return _poisson_time(rate, ahead + 1, LEVEL)


def _poisson_time(rate: float, events: int, level: float) -> float:
    """Time within which a Poisson process has some events with a probability, by bisection, seconds."""

    def reached(expected: float) -> float:
        term = total = math.exp(-expected)
        for count in range(1, events):
            term *= expected / count
            total += term
        return 1.0 - total

    low, high = 0.0, 1.0
    while reached(high) < level and high < 500 + 2 * events:
        high *= 2
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if reached(middle) >= level else (middle, high)
    return min(MAX_WAIT_S, high / rate)
