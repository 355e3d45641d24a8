"""FIFO replicas: each serves one attempt at a time, in the order of arrival.

The end of an attempt's work is known at its arrival, as no later attempt can delay it and pauses are drawn
beforehand. Only the removal of an attempt ahead changes it, and only to an earlier time. So the end of work
needs no event: it is stored, and corrected on a removal.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Sequence
from heapq import heapify, heappop, heappush

import numpy as np

from kwiken.base.arrays import Floats
from kwiken.tail.queueing.simulator.pauses import PausedClock
from kwiken.tail.queueing.simulator.replica_scores import Estimates


class FifoReplicas:
    """Replicas of one stage, each with a queue of its own. Times are milliseconds; moments never go back.

    Attributes:
        score: score of a replica at a moment, lower is better: its load, or the caller's estimate. Asked
            twice a call, so it is a closure that holds all it needs.
        end: end of each attempt's work, as far as is known; final unless it is in the future.
        replica: index of each attempt's replica.
        busy_ms: work done and promised by replica.

    Args:
        replicas: number of replicas, 1 or more.
        arrival: arrival time of each primary attempt; these are numbered from 0, and copies get the numbers
            after.
        estimates: the caller's latency estimates, updated with every answer before they are used; None for
            none.
        background: background calls, whose answers the caller does not see.
        clocks: by replica: when it is paused; empty for no pauses.
    """

    def __init__(
        self,
        replicas: int,
        arrival: list[float],
        *,
        estimates: Estimates | None = None,
        background: Container[int] = (),
        clocks: Sequence[PausedClock] = (),
    ) -> None:
        calls = len(arrival)
        self._estimates, self._background, self._clocks = estimates, background, clocks
        self._free_at = [0.0] * replicas  # by replica: when its queue will be empty
        # By replica: heap of (answer time, attempt) of attempts without an answer.
        self._outstanding: list[list[tuple[float, int]]] = [[] for _ in range(replicas)]
        # By replica: its attempts by arrival; answered ones are removed lazily.
        self._queues: list[deque[int]] = [deque() for _ in range(replicas)]
        self._awaited = bytearray(calls)  # by attempt: whether its caller waits for it
        self._cancelled: list[list[int]] = [[] for _ in range(replicas)]  # cancelled attempts that run on
        self._arrival = arrival.copy()
        self._start = [0.0] * calls
        self._rest = [0.0] * calls
        self.end = [0.0] * calls
        self.replica = [0] * calls
        self.busy_ms = [0.0] * replicas
        self.score: Callable[[int, float], float] = (
            self.load
            if estimates is None
            else estimates.scorer(self._outstanding, self._queues, self._awaited, self._arrival, background)
        )

    def load(self, replica: int, now: float) -> int:
        """Number of attempts of a replica that callers wait for: in service, in the queue or at rest."""
        outstanding = self._outstanding[replica]
        while outstanding and outstanding[0][0] <= now:
            moment, attempt = heappop(outstanding)
            self._awaited[attempt] = False
            if self._estimates is not None and attempt not in self._background:
                self._estimates.answered(replica, moment - self._arrival[attempt], moment)
        return len(outstanding)

    def answer_at(self, attempt: int) -> float:
        """Time of an attempt's answer, as far as is known; final unless it is in the future."""
        return self.end[attempt] + self._rest[attempt]

    def place(self, attempt: int, replica: int, work: float, rest: float, now: float) -> float:
        """Queue an attempt that arrives. A copy's number is the next unused one.

        Returns:
            Time of its answer; it may come earlier where an attempt ahead of it is removed.
        """
        start = self._free_at[replica]
        if start < now:  # noqa: PLR1730 - costs a call
            start = now
        if self._clocks:
            start, end = self._clocks[replica].served(start, work)
        else:
            end = start + work
        self._free_at[replica] = end
        outstanding = self._outstanding[replica]
        if outstanding and outstanding[0][0] <= now:
            self.load(replica, now)
        answer = end + rest
        heappush(outstanding, (answer, attempt))
        self.busy_ms[replica] += work
        if attempt == len(self.end):
            for of_attempts in (self._start, self._rest, self.end):
                of_attempts.append(0.0)
            self._arrival.append(now)
            self.replica.append(0)
            self._awaited.append(False)
        if self._estimates is not None:
            self._awaited[attempt] = True
            self._queues[replica].append(attempt)
        self._start[attempt] = start
        self._rest[attempt] = rest
        self.end[attempt] = end
        self.replica[attempt] = replica
        return answer

    def cancel(self, attempt: int, now: float, *, running: bool) -> list[int]:
        """Cancel an attempt that lost its race.

        There are three cases: 1. its work has ended: the caller only stops waiting; 2. it is in service and
        may run on; 3. its work is removed, and attempts behind it move forward.

        Args:
            attempt: number of an attempt that was placed.
            now: current time.
            running: whether an attempt in service is stopped; otherwise it runs on.

        Returns:
            The attempts that now end earlier.
        """
        replica = self.replica[attempt]
        if self._estimates is not None and self.answer_at(attempt) > now:
            self.load(replica, now)  # processes earlier answers first
            self._estimates.cancelled(replica, now - self._arrival[attempt], now)
        self._stop_waiting(attempt, replica, now)
        if self.end[attempt] <= now:
            return []
        cancelled = self._cancelled[replica] = [
            other for other in self._cancelled[replica] if self.end[other] > now
        ]
        if self._start[attempt] <= now and not running:
            cancelled.append(attempt)
            return []
        self.busy_ms[replica] -= self._worked(replica, max(self._start[attempt], now), self.end[attempt])
        return self._move_forward(replica, now)

    def _worked(self, replica: int, since: float, until: float) -> float:
        """Time that a replica runs between two moments."""
        if not self._clocks:
            return until - since
        clock = self._clocks[replica]
        return clock.ran(until) - clock.ran(since)

    def _stop_waiting(self, attempt: int, replica: int, now: float) -> None:
        """Stop waiting for an attempt, whether its work goes on or not."""
        self.load(replica, now)
        self._awaited[attempt] = False
        outstanding = [entry for entry in self._outstanding[replica] if entry[1] != attempt]
        heapify(outstanding)
        self._outstanding[replica] = outstanding

    def _move_forward(self, replica: int, now: float) -> list[int]:
        """Compute starts and ends of a replica's attempts anew after a removal; returns those that wait."""
        start, end = self._start, self.end
        present = [other for _, other in self._outstanding[replica] if end[other] > now]
        present += self._cancelled[replica]
        free_at = max((end[other] for other in present if start[other] <= now), default=now)
        waiting = [other for other in present if start[other] > now]
        waiting.sort(key=lambda other: (self._arrival[other], other))
        for other in waiting:
            work = self._worked(replica, start[other], end[other])
            start[other], end[other] = (
                self._clocks[replica].served(free_at, work) if self._clocks else (free_at, free_at + work)
            )
            free_at = end[other]
        self._free_at[replica] = free_at
        outstanding = [(self.answer_at(other), other) for _, other in self._outstanding[replica]]
        heapify(outstanding)
        self._outstanding[replica] = outstanding
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
