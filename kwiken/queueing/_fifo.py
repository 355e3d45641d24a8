"""Replicas that serve calls in the order of arrival.

Under this rule the end of a call is known when it arrives: nothing that comes later can delay it. Only the
removal of a call ahead of it moves it, and only forwards. So an end needs no event: it is written down, and
put right where a call is taken out (Kiefer and Wolfowitz 1955 for several workers).
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush, heapreplace

import numpy as np

from kwiken._profile import Floats
from kwiken.queueing._pauses import Clock


class FifoReplicas:
    """The replicas of one stage, each with its own queue. Times are milliseconds; moments never go back.

    Args:
        clocks: one a replica; None where it never pauses.
        workers: calls that a replica serves at once.
        calls: number of primary calls, which are numbered from 0; copies get the numbers after.
    """

    def __init__(self, clocks: Sequence[Clock | None], workers: int, calls: int) -> None:
        self._clocks = clocks
        self._workers = workers
        self._free = [[0.0] * workers for _ in clocks]  # own time at which each worker is free, a heap
        self._held: list[list[tuple[float, int]]] = [[] for _ in clocks]  # (end, call), a heap
        self._start = [0.0] * calls  # own time
        self._own_end = [0.0] * calls
        self._moment = [0.0] * calls  # when it arrived
        self.end = [0.0] * calls
        self.replica = [0] * calls
        self.worked = [0.0] * len(clocks)  # work done and promised by replica

    def load(self, replica: int, now: float) -> int:
        """Calls that it holds, waiting or in service."""
        held = self._held[replica]
        while held and held[0][0] <= now:
            heappop(held)
        return len(held)

    def oldest(self, replica: int, now: float) -> float:
        """When the oldest call that it holds arrived; `now` where it holds none."""
        held = self._held[replica]
        while held and held[0][0] <= now:
            heappop(held)
        if not held:
            return now
        if self._workers == 1:  # they end in the order in which they came
            return self._moment[held[0][1]]
        return min([self._moment[call] for _, call in held])

    def place(self, call: int, replica: int, work: float, now: float) -> None:
        """A call arrives. A copy's number is the next one that was not used."""
        clock = self._clocks[replica]
        own_now = now if clock is None else clock.worked(now)
        free = self._free[replica]
        start = max(free[0], own_now)
        own_end = start + work
        heapreplace(free, own_end)
        end = own_end if clock is None else clock.moment(own_end)
        held = self._held[replica]
        while held and held[0][0] <= now:
            heappop(held)
        heappush(held, (end, call))
        self.worked[replica] += work
        if call == len(self.end):
            for of_calls in (self._start, self._own_end, self._moment, self.end):
                of_calls.append(0.0)
            self.replica.append(0)
        self._start[call] = start
        self._own_end[call] = own_end
        self._moment[call] = now
        self.end[call] = end
        self.replica[call] = replica

    def end_by(self, call: int, now: float) -> float:  # noqa: ARG002 - other disciplines need the moment
        """When the call ends, as far as is known; final where that is not after `now`."""
        return self.end[call]

    likely_end = end_by

    def remove(self, call: int, now: float, *, running: bool) -> list[int] | None:
        """Take a call out that nobody waits for any more.

        Args:
            call: its number; it has not ended.
            now: the moment.
            running: whether it is stopped if it is in service; if not it is left to run.

        Returns:
            The calls that now end earlier; None where it was left to run.
        """
        replica = self.replica[call]
        clock = self._clocks[replica]
        own_now = now if clock is None else clock.worked(now)
        start = self._start[call]
        if start <= own_now and not running:
            return None
        self.load(replica, now)
        others = [other for _, other in self._held[replica] if other != call]
        self.worked[replica] -= self._own_end[call] - max(start, own_now)
        serving = [other for other in others if self._start[other] <= own_now]
        waiting = [other for other in others if self._start[other] > own_now]
        waiting.sort(key=lambda other: (self._moment[other], other))
        free = [self._own_end[other] for other in serving]
        free += [own_now] * (self._workers - len(free))
        heapify(free)
        self._free[replica] = free
        for other in waiting:
            work = self._own_end[other] - self._start[other]
            self._start[other] = start = max(free[0], own_now)
            self._own_end[other] = own_end = start + work
            heapreplace(free, own_end)
            self.end[other] = own_end if clock is None else clock.moment(own_end)
        self._held[replica] = [(self.end[other], other) for other in others]
        heapify(self._held[replica])
        return waiting

    def finish(self) -> None:
        """Nothing more will come. Every end is known already."""


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
