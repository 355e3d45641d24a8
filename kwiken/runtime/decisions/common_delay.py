"""Delay that calls of all stages share, while which no copy is sent. Pure.

A copy helps a call that is slow because of its replica. Where every call is slow, because the gateway or a
machine that replicas share has too much to do, the copy is as slow, and adds to the delay. A time-out is an
age at usual latencies, so while calls take twice as long as usual, it counts twice.
"""

from __future__ import annotations

from collections import deque
from typing import Final

ANSWERS: Final = 7  # number of the latest answers that are looked at
MAX_FACTOR: Final = 4.0  # of a time-out: a call that is slow for a reason of its own must not wait for ever


class CommonDelay:
    """The latest answers of calls of all stages."""

    __slots__ = ("_answers",)

    def __init__(self) -> None:
        self._answers: deque[tuple[float, float]] = deque(maxlen=ANSWERS)

    def answered(self, now: float, took: float, usual: float) -> None:
        """Record an answer.

        Args:
            now: moment of the answer, seconds.
            took: latency of the call, seconds.
            usual: usual latency of the calls of its stage, seconds; 0 where unknown.
        """
        if usual:
            self._answers.append((now, took / usual))

    def factor(self, since: float) -> float:
        """How many times longer than usual calls take; from 1 to `MAX_FACTOR`.

        The median of the latest answers, so that neither a straggler nor one slow stage decides. Without an
        answer nothing is known, and the factor is 1.

        Args:
            since: moment, seconds, from which answers count.
        """
        ratios = sorted(ratio for at, ratio in self._answers if at >= since)
        if not ratios:
            return 1.0
        return min(max(1.0, ratios[(len(ratios) - 1) // 2]), MAX_FACTOR)
