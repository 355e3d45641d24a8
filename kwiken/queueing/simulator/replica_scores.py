"""Replica choice in the simulator: scores by expected latency times queue length.

The better of two replicas drawn at random is taken, as in kwiken/runtime/decisions/replica_choice.py, after
C3 (NSDI 2015) and Prequal (NSDI 2024). Ejected and paused replicas are not modelled.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container
from heapq import heappop
from math import exp2
from typing import Final

SMOOTHING: Final = 0.1  # weight of a new latency in the moving average
MAX_SAMPLE_RATIO: Final = 3.0  # a sample counts as at most so many times the estimate
HALF_LIFE_MS: Final = 5000.0  # half-life with which an estimate without samples approaches the stage's
FRESH_MS: Final = 1000.0  # age of the newest sample up to which an estimate stays as it is


class Estimates:
    """Latency estimates of one stage's replicas, as the caller keeps them. Times are milliseconds.

    Args:
        replicas: number of replicas, 1 or more.
    """

    __slots__ = ("_latency", "_news_at")

    def __init__(self, replicas: int) -> None:
        self._latency = [0.0] * (replicas + 1)  # the last one is the stage's
        self._news_at = [-FRESH_MS] * replicas

    def answered(self, replica: int, took: float, now: float) -> None:
        """Update the estimates with the latency of an answered call."""
        self._news_at[replica] = now
        latency = self._latency
        known = latency[replica]
        latency[replica] = (
            known + SMOOTHING * (min(took, MAX_SAMPLE_RATIO * known) - known) if known else took
        )
        known = latency[-1]
        latency[-1] = known + SMOOTHING * (min(took, MAX_SAMPLE_RATIO * known) - known) if known else took

    def dropped(self, replica: int, took: float, now: float) -> None:
        """Update the estimates with a cancelled call: its latency would have been at least its age.

        Args:
            replica: index of its replica.
            took: age of the call when it was cancelled.
            now: current time.
        """
        if took > self._latency[replica]:
            self.answered(replica, took, now)

    def in_order(  # noqa: C901 - in one piece: see below
        self,
        flights: list[list[tuple[float, int]]],
        lines: list[deque[int]],
        waited_for: bytearray,
        came: list[float],
        unheard: Container[int],
    ) -> Callable[[int, float], float]:
        """Make the function that scores a replica at a moment; lower is better: an expected wait.

        The score is the expected latency, or the age of the oldest call where that is more, times one plus
        the number of calls without an answer. Answers until that moment are learned first as in `answered`,
        inlined
        here: simulations ask for a score twice a call and spend most of their time in it.

        Args:
            flights: by replica: heap of (answer time, call) of outstanding calls; answered ones are removed.
            lines: by replica: its calls by arrival, answered ones included; these are removed from the front.
            waited_for: by call: whether its caller waits for it; cleared at its answer.
            came: by call: arrival time.
            unheard: calls of the background, whose answers the caller does not see.
        """
        latencies, news, stage = self._latency, self._news_at, len(self._news_at)

        def score(replica: int, now: float) -> float:
            flight = flights[replica]
            while flight and flight[0][0] <= now:
                moment, call = heappop(flight)
                waited_for[call] = False
                if call in unheard:
                    continue
                took = moment - came[call]
                news[replica] = moment
                for whose in (replica, stage):
                    known = latencies[whose]
                    if known:
                        top = MAX_SAMPLE_RATIO * known
                        seen = took if took < top else top  # noqa: FURB136 - costs a call
                        latencies[whose] = known + SMOOTHING * (seen - known)
                    else:
                        latencies[whose] = took
            latency = latencies[replica]
            if latency:
                old = now - news[replica]
                if old >= FRESH_MS:
                    typical = latencies[stage]
                    latency = typical + (latency - typical) * exp2(-old / HALF_LIFE_MS)
            else:
                latency = latencies[stage] or 1.0
            if flight:
                line = lines[replica]
                while not waited_for[line[0]]:
                    line.popleft()
                age = now - came[line[0]]
                if age > latency:  # noqa: PLR1730 - costs a call
                    latency = age
            return latency * (len(flight) + 1)

        return score
