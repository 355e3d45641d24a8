"""What a caller that watches its replicas believes of them: the runtime's picker, as far as latency goes.

Expected latency times queue length, of the two that were drawn (runtime/_picker.py, after C3, NSDI 2015, and
Prequal, NSDI 2024). A replica whose late call was given up counts as silent since that call's start, until it
gives a sign of life: at once, or when its pause ends. The ejection of replicas that fail is left out: here
none fails.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container
from heapq import heappop
from math import exp2, inf
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

    __slots__ = ("_alive_at", "_latency", "_news_at", "_silent")

    def __init__(self, replicas: int) -> None:
        self._latency = [0.0] * (replicas + 1)  # the last is the stage's
        self._news_at = [-FRESH_MS] * replicas
        self._silent = [inf] * replicas  # start of a call that was given up and not answered before
        self._alive_at = [0.0] * replicas  # when the sign of life comes that ends this silence

    def answered(self, replica: int, took: float, now: float) -> None:
        """A call was answered."""
        self._silent[replica] = inf
        self._learn(replica, took, now)

    def dropped(self, replica: int, took: float, now: float, alive_at: float) -> None:
        """Nobody waits for a call any more: it would have taken at least so long.

        Args:
            replica: whose.
            took: how long the call waited.
            now: the moment.
            alive_at: when the replica answers that it lives: `now` unless it pauses.
        """
        if took > self._latency[replica]:
            self._learn(replica, took, now)
        if alive_at > now and took > (self._latency[-1] or inf):
            self._silent[replica] = min(self._silent_since(replica, now), now - took)
            self._alive_at[replica] = alive_at

    def score(self, replica: int, calls: int, oldest: float, now: float) -> float:
        """Expected wait, as far as it can be compared; lower is better.

        Args:
            replica: whose.
            calls: that it has not answered.
            oldest: when the oldest of them was sent; anything where there are none.
            now: the moment.
        """
        latency = self._latency[replica]
        if latency:
            old = now - self._news_at[replica]
            if old >= FRESH_MS:
                typical = self._latency[-1]
                latency = typical + (latency - typical) * exp2(-old / HALF_LIFE_MS)
        else:
            latency = self._latency[-1] or 1.0
        if calls and now - oldest > latency:
            latency = now - oldest
        if self._silent[replica] < inf:
            latency = max(latency, now - self._silent_since(replica, now))
        return latency * (calls + 1)

    def _silent_since(self, replica: int, now: float) -> float:
        """Start of a call given up: its age counts as if it still waited. Infinite once it gave its sign."""
        if now >= self._alive_at[replica]:
            self._silent[replica] = inf
        return self._silent[replica]

    def _learn(self, replica: int, took: float, now: float) -> None:
        self._news_at[replica] = now
        latency = self._latency
        known = latency[replica]
        latency[replica] = known + GAIN * (min(took, CLIP * known) - known) if known else took
        known = latency[-1]
        latency[-1] = known + GAIN * (min(took, CLIP * known) - known) if known else took

    def in_order(  # noqa: C901 - in one piece: see below
        self,
        flights: list[list[tuple[float, int]]],
        lines: list[deque[int]],
        waited_for: bytearray,
        came: list[float],
        unheard: Container[int],
    ) -> Callable[[int, float], float]:
        """`score` of a replica and a moment, where calls are served in the order of arrival.

        The same as learning of all answers until then, `answered`, and `score`, written out in one piece:
        simulations ask this twice a call, and most of their time goes here.

        Args:
            flights: by replica: (answer, call) of what is not known to be answered, a heap; taken from.
            lines: by replica: its calls as they came, those answered too until somebody looks; taken from.
            waited_for: by call: whether its caller waits for it; cleared at its answer.
            came: by call: when.
            unheard: calls of which the caller hears nothing.
        """
        latencies, news, silences, stage = self._latency, self._news_at, self._silent, len(self._silent)

        def score(replica: int, now: float) -> float:  # noqa: C901 - a call inside would cost a fifth more
            flight = flights[replica]
            while flight and flight[0][0] <= now:
                moment, call = heappop(flight)
                waited_for[call] = False
                if call in unheard:
                    continue
                took = moment - came[call]
                silences[replica] = inf
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
            if silences[replica] < inf:
                latency = max(latency, now - self._silent_since(replica, now))
            return latency * (len(flight) + 1)

        return score
