"""Replica choice in the simulator: scores by expected latency times queue length.

As in kwiken/runtime/decisions/choice/rules.py. Ejected and paused replicas are not modelled.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container
from heapq import heappop
from math import exp2
from typing import Final

SMOOTHING: Final = 0.1  # weight of a new latency in the moving average
MAX_SAMPLE_RATIO: Final = 3.0  # a sample counts as at most so many times the estimate
HALF_LIFE_MS: Final = 1000.0  # half-life of a stale estimate's distance from the stage's, as a logarithm
MAX_RATIO: Final = 16.0  # largest ratio of a stale estimate to the stage's, and the inverse of the least
FRESH_MS: Final = 1000.0  # age of the newest sample up to which an estimate stays as it is


class Estimates:
    """Latency estimates of one stage's replicas, as the caller keeps them. Times are milliseconds.

    Args:
        replicas: number of replicas, 1 or more.
    """

    __slots__ = ("_latency", "_sampled_at")

    def __init__(self, replicas: int) -> None:
        self._latency = [0.0] * (replicas + 1)  # the last one is the stage's
        self._sampled_at = [-FRESH_MS] * replicas

    def answered(self, replica: int, latency: float, now: float) -> None:
        """Update the estimates with the latency of an answered call."""
        self._sampled_at[replica] = now
        estimates = self._latency
        for index in (replica, -1):
            known = estimates[index]
            moved = known + SMOOTHING * (min(latency, MAX_SAMPLE_RATIO * known) - known)
            estimates[index] = moved if known else latency

    def cancelled(self, replica: int, age: float, now: float) -> None:
        """Update the estimates with a cancelled call: its latency would have been at least its age.

        Args:
            age: age of the call when it was cancelled.
            now: current time.
        """
        if age > self._latency[replica]:
            self.answered(replica, age, now)

    def scorer(  # noqa: C901 - in one piece: see below
        self,
        outstanding: list[list[tuple[float, int]]],
        queues: list[deque[int]],
        awaited: bytearray,
        arrival: list[float],
        background: Container[int],
    ) -> Callable[[int, float], float]:
        """Make the function that scores a replica at a moment; lower is better: an expected wait.

        The score is the expected latency, or the age of the oldest attempt where that is more, times one plus
        the number of attempts without an answer. Answers until that moment are learned first as in
        `answered`, inlined here: simulations ask for a score twice a call and spend most of their time in it.

        Args:
            outstanding: by replica: heap of (answer time, attempt) without an answer; answered ones are
                removed.
            queues: by replica: its attempts by arrival, answered ones included; these are removed from the
                front.
            awaited: by attempt: whether its caller waits for it; cleared at its answer.
            arrival: by attempt: arrival time.
            background: background calls, whose answers the caller does not see.
        """
        estimates, sampled_at, stage = self._latency, self._sampled_at, len(self._sampled_at)

        def score(replica: int, now: float) -> float:
            waiting = outstanding[replica]
            while waiting and waiting[0][0] <= now:
                moment, attempt = heappop(waiting)
                awaited[attempt] = False
                if attempt in background:
                    continue
                sample = moment - arrival[attempt]
                sampled_at[replica] = moment
                for index in (replica, stage):
                    known = estimates[index]
                    if known:
                        top = MAX_SAMPLE_RATIO * known
                        bounded = sample if sample < top else top  # noqa: FURB136 - costs a call
                        estimates[index] = known + SMOOTHING * (bounded - known)
                    else:
                        estimates[index] = sample
            latency = estimates[replica]
            if latency:
                stale = now - sampled_at[replica] - FRESH_MS
                if stale > 0:
                    typical = estimates[stage]
                    ratio = min(max(latency / typical, 1 / MAX_RATIO), MAX_RATIO)
                    latency = typical * ratio ** exp2(-stale / HALF_LIFE_MS)
            else:
                latency = estimates[stage] or 1.0
            if waiting:
                queue = queues[replica]
                while not awaited[queue[0]]:
                    queue.popleft()
                age = now - arrival[queue[0]]
                if age > latency:  # noqa: PLR1730 - costs a call
                    latency = age
            return latency * (len(waiting) + 1)

        return score
