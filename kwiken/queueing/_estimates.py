"""What a caller that watches its replicas believes of them: the runtime's picker, as far as latency goes.

Expected latency times queue length, of the two that were drawn (runtime/_picker.py, after C3, NSDI 2015, and
Prequal, NSDI 2024). The ejection of replicas that fail is left out: here none fails.
"""

from __future__ import annotations

from math import exp2
from typing import Final

GAIN: Final = 0.1  # weight of a new latency
CLIP: Final = 3.0  # one sample counts at most as so many estimates
HALF_LIFE_MS: Final = 5000.0  # an estimate without news drifts so fast towards the stage's
FRESH_MS: Final = 1000.0  # for so long it needs no news


class Estimates:
    """Latency estimates of one stage's replicas. Milliseconds throughout.

    Args:
        replicas: how many.
    """

    __slots__ = ("_latency", "_news_at", "_typical")

    def __init__(self, replicas: int) -> None:
        self._latency = [0.0] * replicas
        self._news_at = [-FRESH_MS] * replicas
        self._typical = 0.0

    def answered(self, replica: int, took: float, now: float) -> None:
        """A call was answered."""
        self._news_at[replica] = now
        known = self._latency[replica]
        if known:
            top = CLIP * known
            self._latency[replica] = known + GAIN * ((min(took, top)) - known)
        else:
            self._latency[replica] = took
        known = self._typical
        if known:
            top = CLIP * known
            self._typical = known + GAIN * ((min(took, top)) - known)
        else:
            self._typical = took

    def dropped(self, replica: int, took: float, now: float) -> None:
        """Nobody waits for a call any more: it would have taken at least so long."""
        if took > self._latency[replica]:
            self.answered(replica, took, now)

    def score(self, replica: int, calls: int, oldest: float, now: float) -> float:
        """Expected wait, as far as it can be compared; lower is better.

        Args:
            replica: whose.
            calls: that it has not answered.
            oldest: when the oldest of them was sent; anything where there are none.
            now: the moment.
        """
        latency = self._latency[replica]
        old = now - self._news_at[replica]
        if latency and old >= FRESH_MS:
            latency = self._typical + (latency - self._typical) * exp2(-old / HALF_LIFE_MS)
        latency = latency or self._typical or 1.0
        if calls and now - oldest > latency:
            latency = now - oldest
        return latency * (calls + 1)
