"""Replica choice in the simulator: scores by expected latency times queue length.

The better of two replicas drawn at random is taken, as kwiken/runtime/decisions/replica_choice.py does after C3
(NSDI 2015) and Prequal (NSDI 2024). Failing and paused replicas are left out of the model.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container
from heapq import heappop
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

    __slots__ = ("_latency", "_news_at")

    def __init__(self, replicas: int) -> None:
        self._latency = [0.0] * (replicas + 1)  # the last is the stage's
        self._news_at = [-FRESH_MS] * replicas

    def answered(self, replica: int, took: float, now: float) -> None:
        """A call was answered."""
        self._news_at[replica] = now
        latency = self._latency
        known = latency[replica]
        latency[replica] = known + GAIN * (min(took, CLIP * known) - known) if known else took
        known = latency[-1]
        latency[-1] = known + GAIN * (min(took, CLIP * known) - known) if known else took

    def dropped(self, replica: int, took: float, now: float) -> None:
        """Nobody waits for a call any more: it would have taken at least so long.

        Args:
            replica: whose.
            took: how long the call waited.
            now: the moment.
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
        """The score of a replica at a moment, lower is better: expected wait, as far as it can be compared.

        It is expected latency, or the age of the oldest call where that is more, times the calls that are not
        answered and one. Answers until then are learned first, as `answered` does, written out in one piece:
        simulations ask this twice a call, and most of their time goes here.

        Args:
            flights: by replica: (answer, call) of what is not known to be answered, a heap; taken from.
            lines: by replica: its calls as they came, those answered too until somebody looks; taken from.
            waited_for: by call: whether its caller waits for it; cleared at its answer.
            came: by call: when.
            unheard: calls of which the caller hears nothing.
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
                        top = CLIP * known
                        seen = took if took < top else top  # noqa: FURB136 - costs a call
                        latencies[whose] = known + GAIN * (seen - known)
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
