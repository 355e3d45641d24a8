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
USUAL_S: Final = 10.0  # time over which a usual latency is averaged: far longer than a moment of much work
MAX_WEIGHT: Final = 0.1  # of one answer in a usual latency, however long ago the last one came
CLIP: Final = 3.0  # one answer counts at most as this multiple of what is usual


class UsualLatency:
    """Usual latency of the calls of one stage: an average over time, which a slow moment moves little.

    Attributes:
        seconds: the average, seconds; 0 where unknown.
    """

    __slots__ = ("_learned_at", "seconds")

    def __init__(self) -> None:
        self.seconds = 0.0
        self._learned_at = 0.0

    def learn(self, took: float, now: float) -> float:
        """Record an answer; returns how many times longer than usual the call took, 1 for the first.

        Args:
            took: latency of the call, seconds.
            now: present moment, seconds.
        """
        usual = self.seconds
        since, self._learned_at = now - self._learned_at, now
        if not usual:
            self.seconds = took
            return 1.0
        weight = min(since / USUAL_S, MAX_WEIGHT)
        self.seconds = usual + weight * (min(took, CLIP * usual) - usual)
        return took / usual


class CommonDelay:
    """The latest answers of calls of all stages."""

    __slots__ = ("_answers",)

    def __init__(self) -> None:
        self._answers: deque[tuple[float, float]] = deque(maxlen=ANSWERS)

    def answered(self, now: float, ratio: float) -> None:
        """Record an answer.

        Args:
            now: moment of the answer, seconds.
            ratio: latency of the call over the usual latency of its stage.
        """
        self._answers.append((now, ratio))

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
