"""FIFO replicas: each serves one call at a time, in the order of arrival.

The end of a call is known at its arrival, as no later call can delay it. Only the removal of a call ahead
changes it, and only to an earlier time. So the end of work needs no event: it is stored, and corrected on a
removal.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container
from heapq import heapify, heappop, heappush

import numpy as np

from kwiken.arrays import Floats
from kwiken.queueing.simulator.replica_scores import Estimates


class FifoReplicas:
    """Replicas of one stage, each with a queue of its own. Times are milliseconds; moments never go back.

    Attributes:
        score: score of a replica at a moment, lower is better: its load, or the caller's estimate. Asked
            twice a call, so it is a closure that holds all it needs.
        came: arrival time of each call.
        end: end of each call's work, as far as is known; final unless it is in the future.
        replica: index of each call's replica.
        worked: work done and promised by replica.

    Args:
        replicas: number of replicas, 1 or more.
        arrival: arrival time of each primary call; these are numbered from 0, and copies get the numbers
            after.
        estimates: the caller's latency estimates, updated with every answer before they are used; None for
            none.
        unheard: calls of the background, whose answers the caller does not see.
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
        self._free = [0.0] * replicas  # by replica: when its queue will be empty
        self._flight: list[list[tuple[float, int]]] = [[] for _ in range(replicas)]  # heaps of (answer, call)
        # By replica: its calls by arrival; answered ones are removed lazily.
        self._line: list[deque[int]] = [deque() for _ in range(replicas)]
        self._open = bytearray(calls)  # by call: whether its caller waits for it
        self._left: list[list[int]] = [[] for _ in range(replicas)]  # cancelled calls that run on
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
        """Number of calls of a replica that their callers wait for: in service, in the queue or at rest."""
        flight = self._flight[replica]
        while flight and flight[0][0] <= now:
            moment, call = heappop(flight)
            self._open[call] = False
            if self._estimates is not None and call not in self._unheard:
                self._estimates.answered(replica, moment - self.came[call], moment)
        return len(flight)

    def place(self, call: int, replica: int, work: float, rest: float, now: float) -> float:
        """Queue a call that arrives. A copy's number is the next unused one.

        Returns:
            Time of its answer; it may come earlier where a call ahead of it is removed.
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
        """Stop waiting for a call, whether its work goes on or not."""
        replica = self.replica[call]
        self.load(replica, now)
        self._open[call] = False
        flight = [entry for entry in self._flight[replica] if entry[1] != call]
        heapify(flight)
        self._flight[replica] = flight

    def remove(self, call: int, now: float, *, running: bool) -> list[int] | None:
        """Remove a call that lost its race.

        Args:
            call: number of a call whose work has not ended.
            now: current time.
            running: whether a call in service is stopped; otherwise it runs on.

        Returns:
            The calls that now end earlier; None where the call runs on.
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
    """Ends of all calls at one replica from which none is removed, in one vectorised pass.

    Args:
        arrivals: (n,) arrival times, ascending, milliseconds.
        work: (n,) times of work, milliseconds.

    Returns:
        (n,) milliseconds: Lindley's recursion (1952) unrolled, `end_n = S_n + max over j <= n of
        (arrival_j - S_(j-1))` with `S` the running sums of work.
    """
    sums = np.cumsum(work)
    return np.asarray(sums + np.maximum.accumulate(arrivals - (sums - work)))
