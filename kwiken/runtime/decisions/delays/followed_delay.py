"""Delay of copies that follows a quantile of a stage's present latency, within bounds. Pure.

The delay rises by a step with each call that took longer, and falls by a much smaller one with each other
call. The two balance where the wanted share of the calls ends before the delay (stochastic approximation,
Robbins and Monro 1951, on the logarithm).

It is fed with the latencies of whole calls, those that a copy answered too. Latencies of first attempts alone
would mislead: the slow ones are cancelled when their copy wins, so nobody knows how long they would have
taken. Whether a whole call took longer than the delay is known, and says the same of its first attempt: the
copy was sent no earlier, so a call ends before the delay only by its first attempt.

In any run of calls, as long as the ceiling is not reached, at most `(1 - quantile) * calls +
ln(ceiling / floor) / GAIN` of them take longer than the delay: each of those raises it by `quantile * GAIN`
(in the logarithm), and each other call lowers it by `(1 - quantile) * GAIN` at most.
"""

from __future__ import annotations

from math import exp
from typing import Final

from kwiken.model.service.stage import Following

# A larger gain follows sooner, and errs more: at 0.05 the delay triples with 24 calls that take longer, and
# stays within about 10% of the quantile of exponential latencies.
GAIN: Final = 0.05


class FollowedDelay:
    """Present delay of a stage's copies.

    Args:
        rule: quantile that the delay follows, and the bounds between which it stays.
        start_s: delay before anything is known, seconds.

    Attributes:
        seconds: the delay, seconds; within the bounds.
    """

    __slots__ = ("_down", "_least_s", "_most_s", "_up", "seconds")

    def __init__(self, rule: Following, start_s: float) -> None:
        self._least_s = rule.least_ms / 1000
        self._most_s = rule.most_ms / 1000
        self._up = exp(GAIN * rule.quantile)
        self._down = exp(-GAIN * (1.0 - rule.quantile))
        self.seconds = min(max(start_s, self._least_s), self._most_s)

    def learn(self, took: float) -> None:
        """Record how long an answered call took, seconds."""
        seconds = self.seconds
        if took > seconds:
            self.seconds = min(seconds * self._up, self._most_s)
        else:
            self.seconds = max(seconds * self._down, self._least_s)
