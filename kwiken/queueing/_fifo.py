"""Replicas that serve calls in the order of arrival.

Under this rule the end of a call is known when it arrives: nothing that comes later can delay it. Only the
removal of a call ahead of it moves it, and only forwards. So an end needs no event: it is written down, and
put right where a call is taken out (Kiefer and Wolfowitz 1955 for several workers).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Sequence
from heapq import heapify, heappop, heappush, heapreplace

import numpy as np

from kwiken._profile import Floats
from kwiken.queueing._estimates import Estimates
from kwiken.queueing._pauses import Clock


class FifoReplicas:
    """The replicas of one stage, each with its own queue. Times are milliseconds; moments never go back.

    Attributes:
        score: of a replica at a moment, lower is better: its load, or what its caller believes. Asked twice a
            call, so it is a closure that holds all it needs.
        came: when each call comes.
        end: when its work ends, as far as is known.
        replica: who does it.

    Args:
        clocks: one a replica; None where it never pauses.
        workers: calls that a replica serves at once.
        arrival: when each primary call comes; they are numbered from 0, and copies get the numbers after.
        estimates: what the caller believes of the replicas, told of every answer once somebody looks.
        unheard: calls that are somebody else's, so that the caller hears nothing of their end.
    """

    def __init__(
        self,
        clocks: Sequence[Clock | None],
        workers: int,
        arrival: list[float],
        *,
        estimates: Estimates | None = None,
        unheard: Container[int] = (),
    ) -> None:
        calls = len(arrival)
        self._clocks = clocks
        self._workers = workers
        self._estimates, self._unheard = estimates, unheard
        self._free = [[0.0] * workers for _ in clocks]  # own time at which each worker is free, a heap
        self._flight: list[list[tuple[float, int]]] = [[] for _ in clocks]  # (answer, call), a heap
        self._line: list[deque[int]] = [deque() for _ in clocks]  # as they came; those answered go later
        self._open = bytearray(calls)  # by call: whether its caller waits for it
        self._left: list[list[int]] = [[] for _ in clocks]  # calls that nobody waits for but go on
        self._start = [0.0] * calls  # own time
        self._rest = [0.0] * calls
        self._own_end = [0.0] * calls
        self.came = arrival.copy()
        self.end = [0.0] * calls
        self.replica = [0] * calls
        self.worked = [0.0] * len(clocks)  # work done and promised by replica
        self.score: Callable[[int, float], float] = (
            self.load
            if estimates is None
            else estimates.in_order(self._flight, self._line, self._open, self.came, unheard)
        )

    def load(self, replica: int, now: float) -> int:
        """Calls that its caller waits for."""
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
        clock = self._clocks[replica]
        own_now = now if clock is None else clock.worked(now)
        free = self._free[replica]
        start = free[0]
        if start < own_now:  # noqa: PLR1730 - costs a call
            start = own_now
        own_end = start + work
        heapreplace(free, own_end)
        end = own_end if clock is None else clock.moment(own_end)
        flight = self._flight[replica]
        if flight and flight[0][0] <= now:
            self.load(replica, now)
        answer = end + rest
        heappush(flight, (answer, call))
        self.worked[replica] += work
        if call == len(self.end):
            for of_calls in (self._start, self._rest, self._own_end, self.end):
                of_calls.append(0.0)
            self.came.append(now)
            self.replica.append(0)
            self._open.append(False)
        if self._estimates is not None:
            self._open[call] = True
            self._line[replica].append(call)
        self._start[call] = start
        self._rest[call] = rest
        self._own_end[call] = own_end
        self.end[call] = end
        self.replica[call] = replica
        return answer

    def end_by(self, call: int, now: float) -> float:  # noqa: ARG002 - other disciplines need the moment
        """When the call's work ends, as far as is known; final where that is not after `now`."""
        return self.end[call]

    likely_end = end_by

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
        clock = self._clocks[replica]
        own_now = now if clock is None else clock.worked(now)
        start, own_end = self._start, self._own_end
        left = self._left[replica] = [other for other in self._left[replica] if own_end[other] > own_now]
        if start[call] <= own_now and not running:
            left.append(call)
            return None
        left_at = max(start[call], own_now)
        self.worked[replica] -= own_end[call] - left_at
        own_end[call] = left_at
        others = [other for _, other in self._flight[replica] if own_end[other] > own_now] + left
        serving = [other for other in others if start[other] <= own_now]
        waiting = [other for other in others if start[other] > own_now]
        waiting.sort(key=lambda other: (self.came[other], other))
        free = [own_end[other] for other in serving]
        free += [own_now] * (self._workers - len(free))
        heapify(free)
        self._free[replica] = free
        for other in waiting:
            work = own_end[other] - start[other]
            start[other] = begins = max(free[0], own_now)
            own_end[other] = ends = begins + work
            heapreplace(free, ends)
            self.end[other] = ends if clock is None else clock.moment(ends)
        flight = [(self.end[other] + self._rest[other], other) for _, other in self._flight[replica]]
        heapify(flight)
        self._flight[replica] = flight
        return waiting

    def finish(self) -> None:
        """Nothing more will come. Every end is known already."""

    def service(self) -> Floats:
        """(a,): how long each attempt was served."""
        return np.asarray(np.asarray(self._own_end) - np.asarray(self._start))


def fifo_ends(arrivals: Floats, work: Floats, workers: int) -> Floats:
    """When calls end at one replica from which none is taken out: all at once.

    Args:
        arrivals: (n,) ascending, milliseconds of the replica's own time.
        work: (n,) milliseconds.
        workers: calls that it serves at once.

    Returns:
        (n,) own time. One worker: Lindley's recursion (1952) unrolled, `end_n = S_n + max over j <= n of
        (arrival_j - S_(j-1))` with `S` the running sums of work. Several: Kiefer and Wolfowitz's.
    """
    if workers == 1:
        sums = np.cumsum(work)
        return np.asarray(sums + np.maximum.accumulate(arrivals - (sums - work)))
    free = [0.0] * workers
    ends = []
    for arrival, need in zip(arrivals.tolist(), work.tolist(), strict=True):
        end = max(arrival, free[0]) + need
        heapreplace(free, end)
        ends.append(end)
    return np.asarray(ends)
