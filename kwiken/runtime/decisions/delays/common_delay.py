"""Delay that calls of all stages share: while there is one, copies are put off. Pure.

A copy helps a call that is slow because of its replica. Where calls of all stages are slow, because the
gateway or a machine that replicas share has too much to do, a copy is as slow, and adds to the delay.

The first answer of each visit of a stage is looked at, and how long it took relative to what is usual for the
first answer of that stage. Stragglers among the shards of a fan-out do not move a first answer. A processor
that all wait for does.
"""

from __future__ import annotations

from collections import deque
from math import exp
from typing import Final

ANSWERS: Final = 7  # number of the latest first answers that are looked at
MIN_ANSWERS: Final = 2  # of fewer, one slow call would decide
MIN_FACTOR: Final = 1.5  # below which answers are as slow as chance makes them
MAX_FACTOR: Final = 4.0  # of a time-out: a call that is slow for a reason of its own must not wait for ever
USUAL_S: Final = 10.0  # time over which a usual latency is averaged: far longer than a moment of much work
MIN_COUNT: Final = 10  # answers that a usual latency rests on at least
CLIP: Final = 3.0  # one answer counts at most as this multiple of what is usual


class UsualLatency:
    """Usual latency of a stage's first answers: the mean of the last 10 s, and of 10 answers at least.

    Attributes:
        seconds: the mean, seconds; 0 before the first answer.
    """

    __slots__ = ("_count", "_learned_at", "seconds")

    def __init__(self) -> None:
        self.seconds = 0.0
        self._count = 0.0  # of answers, each worth less the longer ago it came
        self._learned_at = 0.0

    def learn(self, took: float, now: float) -> float:
        """Record an answer; returns how many times longer than usual it took, 0 while that is not known.

        Args:
            took: latency of the call, seconds.
            now: present moment, seconds.
        """
        usual, count = self.seconds, self._count
        ratio, counted = 0.0, took
        if count >= MIN_COUNT:
            count = max(MIN_COUNT, count * exp((self._learned_at - now) / USUAL_S))
            if usual > 0:
                ratio, counted = took / usual, min(took, CLIP * usual)
        self._count = count + 1
        self._learned_at = now
        self.seconds = usual + (counted - usual) / self._count
        return ratio


class CommonDelay:
    """The latest first answers of visits of all stages."""

    __slots__ = ("_answers",)

    def __init__(self) -> None:
        self._answers: deque[tuple[float, float, float]] = deque(maxlen=ANSWERS)

    def answered(self, now: float, took: float, ratio: float) -> None:
        """Record the first answer of a visit.

        Args:
            now: moment of the answer, seconds.
            took: latency of the call, seconds.
            ratio: latency over what is usual for the stage; 0 where that is not known.
        """
        if ratio:
            self._answers.append((now, took, ratio))

    def until(self, start: float, due: float, now: float) -> float:
        """Moment at which to ask again for a copy that is put off, seconds; `now` if the copy may be sent.

        The age at which the copy was due counts as many times as answers that came since the call was sent
        took longer than usual, by the lower median. The answer is asked for again after as long as those
        answers took, because the delay may be over by then.

        Args:
            start: moment at which the call was sent, seconds.
            due: moment at which its policy wants the copy, seconds.
            now: present moment, seconds.
        """
        seen = [(ratio, took) for at, took, ratio in self._answers if at >= start]
        if len(seen) < MIN_ANSWERS:
            return now
        factor, took = sorted(seen)[(len(seen) - 1) // 2]
        if factor < MIN_FACTOR:
            return now
        return max(now, min(start + min(factor, MAX_FACTOR) * (due - start), now + took))
