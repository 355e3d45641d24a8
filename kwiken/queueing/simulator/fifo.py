"""Replicas that serve one call at a time, in the order of arrival.

Under this rule the end of a call is known when it arrives: nothing that comes later can delay it. Only the
removal of a call ahead of it moves it, and only forwards. So an end needs no event: it is written down, and
put right where a call is taken out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container
from heapq import heapify, heappop, heappush

import numpy as np

from kwiken.arrays import Floats
from kwiken.queueing.simulator.replica_scores import Estimates


class FifoReplicas:
    """The replicas of one stage, each with its own queue. Times are milliseconds; moments never go back.

    Attributes:
        score: of a replica at a moment, lower is better: its load, or what its caller believes. Asked twice a
            call, so it is a closure that holds all it needs.
        came: when each call comes.
        end: when its work ends, as far as is known; final where that is not after the present moment.
        replica: who does it.
        worked: work done and promised by replica.

    Args:
        replicas: how many.
        arrival: when each primary call comes; they are numbered from 0, and copies get the numbers after.
        estimates: what the caller believes of the replicas, told of every answer once somebody looks.
        unheard: calls that are somebody else's, so that the caller hears nothing of their end.
    """

    def __init__(
        self,
        replicas: int,
        arrival: list[float],
        *,
        estimates: Estimates | None = None,
        unheard: Container[int] = (),
    ) -> None:
        calls = len(arrival)
        self._estimates, self._unheard = estimates, unheard
        self._free = [0.0] * replicas  # when each has done what it has
        self._flight: list[list[tuple[float, int]]] = [[] for _ in range(replicas)]  # (answer, call), a heap
        # by replica: as they came; those answered go later
        self._line: list[deque[int]] = [deque() for _ in range(replicas)]
        self._open = bytearray(calls)  # by call: whether its caller waits for it
        self._left: list[list[int]] = [[] for _ in range(replicas)]  # calls that nobody waits for but go on
        self._start = [0.0] * calls
        self._rest = [0.0] * calls
        self.came = arrival.copy()
        self.end = [0.0] * calls
        self.replica = [0] * calls
        self.worked = [0.0] * replicas
        self.score: Callable[[int, float], float] = (
            self.load
            if estimates is None
            else estimates.in_order(self._flight, self._line, self._open, self.came, unheard)
        )

    def load(self, replica: int, now: float) -> int:
        """Calls that its caller waits for, in service, in the queue or at rest."""
        flight = self._flight[replica]
        while flight and flight[0][0] <= now:
            moment, call = heappop(flight)
            self._open[call] = False
            if self._estimates is not None and call not in self._unheard:
                self._estimates.answered(replica, moment - self.came[call], moment)
        return len(flight)

    def place(self, call: int, replica: int, work: float, rest: float, now: float) -> float:
        """A call arrives. A copy's number is the next one that was not used.

        Returns:
            When it is answered, or earlier where a call ahead of it is taken out.
        """
        start = self._free[replica]
        if start < now:  # noqa: PLR1730 - costs a call
            start = now
        self._free[replica] = end = start + work
        flight = self._flight[replica]
        if flight and flight[0][0] <= now:
            self.load(replica, now)
        answer = end + rest
        heappush(flight, (answer, call))
        self.worked[replica] += work
        if call == len(self.end):
            for of_calls in (self._start, self._rest, self.end):
                of_calls.append(0.0)
            self.came.append(now)
            self.replica.append(0)
            self._open.append(False)
        if self._estimates is not None:
            self._open[call] = True
            self._line[replica].append(call)
        self._start[call] = start
        self._rest[call] = rest
        self.end[call] = end
        self.replica[call] = replica
        return answer

    def forget(self, call: int, now: float) -> None:
        """Nobody waits for this call any more; what it does is another matter."""
        replica = self.replica[call]
        self.load(replica, now)
        self._open[call] = False
        flight = [entry for entry in self._flight[replica] if entry[1] != call]
        heapify(flight)
        self._flight[replica] = flight

    def remove(self, call: int, now: float, *, running: bool) -> list[int] | None:
        """Take a call out that nobody waits for any more.

        Args:
            call: its number; its work has not ended.
            now: the moment.
            running: whether it is stopped if it is in service; if not it is left to run.

        Returns:
            The calls that now end earlier; None where it was left to run.
        """
        self.forget(call, now)
        replica = self.replica[call]
        start, end = self._start, self.end
        left = self._left[replica] = [other for other in self._left[replica] if end[other] > now]
        if start[call] <= now and not running:
            left.append(call)
            return None
        self.worked[replica] -= end[call] - max(start[call], now)
        others = [other for _, other in self._flight[replica] if end[other] > now] + left
        free = max((end[other] for other in others if start[other] <= now), default=now)
        waiting = [other for other in others if start[other] > now]
        waiting.sort(key=lambda other: (self.came[other], other))
        for other in waiting:
            work = end[other] - start[other]
            start[other] = free
            end[other] = free = free + work
        self._free[replica] = free
        flight = [(end[other] + self._rest[other], other) for _, other in self._flight[replica]]
        heapify(flight)
        self._flight[replica] = flight
        return waiting


def fifo_ends(arrivals: Floats, work: Floats) -> Floats:
    """When calls end at one replica from which none is taken out: all at once.

    Args:
        arrivals: (n,) ascending, milliseconds.
        work: (n,) milliseconds.

    Returns:
        (n,) milliseconds: Lindley's recursion (1952) unrolled, `end_n = S_n + max over j <= n of
        (arrival_j - S_(j-1))` with `S` the running sums of work.
    """
    sums = np.cumsum(work)
    return np.asarray(sums + np.maximum.accumulate(arrivals - (sums - work)))
