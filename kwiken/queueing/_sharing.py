"""Replicas that share their cores equally among all calls that they hold (processor sharing).

All calls in service get the same attention, so one number a replica tells when each of them ends: the
attention that a call present from the beginning would have had. A call ends when that number has grown by
its work since it came. It grows by `min(1, cores / calls)` a millisecond; a heap has the next to end on top.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from heapq import heapify, heappop, heappush
from math import inf

from kwiken.queueing._estimates import Estimates
from kwiken.queueing._pauses import Clock


class SharingReplicas:
    """The replicas of one stage. Times are milliseconds; moments never go back.

    Attributes:
        score: of a replica at a moment, lower is better: its load, or what its caller believes.
        came: when each call comes.
        end: when its work ended; infinite where it goes on.
        replica: who does it.

    Args:
        clocks: one a replica; None where it never pauses.
        workers: cores of a replica; one call uses at most one of them.
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
        self._cores = workers
        self._estimates, self._unheard = estimates, unheard
        self._heaps: list[list[tuple[float, int]]] = [[] for _ in clocks]  # (attention at its end, call)
        self._resting: list[list[tuple[float, int]]] = [[] for _ in clocks]  # (answer, call), a heap
        self._left: list[set[int]] = [set() for _ in clocks]  # calls that nobody waits for but go on
        self._given = [0.0] * len(clocks)  # attention so far
        self._until = [0.0] * len(clocks)  # own time up to which it is known
        self._tag = [0.0] * calls  # attention at its end
        self._rest = [0.0] * calls
        self.came = arrival.copy()
        self.end = [inf] * calls
        self.replica = [0] * calls
        self.worked = [0.0] * len(clocks)  # work done and promised by replica
        self.score: Callable[[int, float], float] = self.load if estimates is None else self._judge(estimates)

    def load(self, replica: int, now: float) -> int:
        """Calls that its caller waits for."""
        self._advance(replica, now)
        resting = self._resting[replica]
        while resting and resting[0][0] <= now:
            moment, call = heappop(resting)
            if self._estimates is not None and call not in self._unheard:
                self._estimates.answered(replica, moment - self.came[call], moment)
        return len(self._heaps[replica]) - len(self._left[replica]) + len(resting)

    def _judge(self, estimates: Estimates) -> Callable[[int, float], float]:
        def score(replica: int, now: float) -> float:
            load = self.load(replica, now)
            return estimates.score(replica, load, self._oldest(replica) if load else now, now)

        return score

    def _oldest(self, replica: int) -> float:
        """When the oldest call came that its caller waits for; there must be one, and `load` been asked."""
        left = self._left[replica]
        serving = [self.came[call] for _, call in self._heaps[replica] if call not in left]
        return min(serving + [self.came[call] for _, call in self._resting[replica]])

    def place(self, call: int, replica: int, work: float, rest: float, now: float) -> float:
        """A call arrives. A copy's number is the next one that was not used.

        Returns:
            Infinity: nobody knows yet when it is answered at the latest.
        """
        self._advance(replica, now)
        tag = self._given[replica] + work
        heappush(self._heaps[replica], (tag, call))
        self.worked[replica] += work
        if call == len(self.end):
            for of_calls in (self._tag, self._rest):
                of_calls.append(0.0)
            self.came.append(now)
            self.end.append(inf)
            self.replica.append(0)
        self._tag[call] = tag
        self._rest[call] = rest
        self.replica[call] = replica
        return inf

    def end_by(self, call: int, now: float) -> float:
        """When the call ended; infinite where it goes on after `now`."""
        if self.end[call] > now:
            self._advance(self.replica[call], now)
        return self.end[call]

    def likely_end(self, call: int, now: float) -> float:
        """The earliest that it can end if nobody is taken out; exact with one core if nobody comes either.

        Until a call has got what it needs, each of the others gets as much, or less where it needs less.
        """
        if self.end_by(call, now) < inf:
            return self.end[call]
        replica = self.replica[call]
        given = self._given[replica]
        lefts = [tag - given for tag, _ in self._heaps[replica]]
        need = self._tag[call] - given
        spent = sum([min(need, left) for left in lefts])
        end = self._until[replica] + max(need, spent / self._cores)
        clock = self._clocks[replica]
        return end if clock is None else clock.moment(end)

    def forget(self, call: int, now: float) -> None:
        """Nobody waits for this call any more; what it does is another matter."""
        replica = self.replica[call]
        self.load(replica, now)
        if self.end[call] == inf:
            self._left[replica].add(call)
            return
        resting = [entry for entry in self._resting[replica] if entry[1] != call]
        heapify(resting)
        self._resting[replica] = resting

    def remove(self, call: int, now: float, *, running: bool) -> list[int] | None:
        """Take a call out that nobody waits for, where `running` ones are stopped: all are in service.

        Returns:
            The calls that now end earlier; None where it was left to run.
        """
        self.forget(call, now)
        if not running:
            return None
        replica = self.replica[call]
        self._left[replica].discard(call)
        heap = self._heaps[replica]
        self.worked[replica] -= max(0.0, self._tag[call] - self._given[replica])
        left = [entry for entry in heap if entry[1] != call]
        heapify(left)
        self._heaps[replica] = left
        return [other for _, other in left]

    def finish(self) -> None:
        """Nothing more will come: let every call end."""
        for replica in range(len(self._heaps)):
            self._advance(replica, inf)

    def service(self) -> None:
        """Nobody is served alone."""

    def _advance(self, replica: int, now: float) -> None:
        """Let calls end that end by now."""
        heap = self._heaps[replica]
        clock = self._clocks[replica]
        own_now = now if clock is None or now == inf else clock.worked(now)
        until = self._until[replica]
        if not heap:
            self._until[replica] = own_now
            self._given[replica] = 0.0  # so that it stays a small number, and exact
            return
        given, cores = self._given[replica], self._cores
        while heap:
            tag, call = heap[0]
            pace = len(heap) / cores if len(heap) > cores else 1.0
            end = until + (tag - given) * pace
            if end > own_now:
                given += (own_now - until) / pace
                break
            heappop(heap)
            given, until = tag, end
            self.end[call] = moment = end if clock is None else clock.moment(end)
            if call in self._left[replica]:
                self._left[replica].discard(call)
            else:
                heappush(self._resting[replica], (moment + self._rest[call], call))
        self._given[replica] = given
        self._until[replica] = own_now
