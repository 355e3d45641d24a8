"""Open loop: each request starts when it is due, never because another one was answered.

A closed loop (a user who waits for the answer before asking again) sends less just when the system is slow,
so the slow moments are hardly measured: coordinated omission. Here the schedule is fixed beforehand and
latency counts from the intended start, so a stall is seen by every request that was due during it.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

import numpy as np

from kwiken.loadtest.arrivals import Arrivals
from kwiken.loadtest.outcome import DROPPED, Outcome
from kwiken.loadtest.queries import Queries

Send = Callable[[int, str], tuple[int, str | None, int, float]]
_LEAD_S = 0.05
_BURST = 32


class Threads(Protocol):
    """The few things needed of light-weight threads; tests do without a real scheduler or clock."""

    def spawn(self, work: Callable[..., None], *args: object) -> None:
        """Run `work` soon, beside the caller."""

    def sleep_until(self, moment: float) -> None:
        """Pause the caller until `moment` of the clock."""

    def give_way(self) -> None:
        """Let the others run for a while."""


class OpenLoop:
    """Starts each intended request, or drops it when too many are unanswered.

    Args:
        plan: intended start (seconds from the run's start, ascending) and the query's index.
        send: sends one query with a traceparent; returns status, reason of failure, size, utility.
        sink: told of every outcome, in order of completion.
        threads: see `Threads`.
        max_in_flight: how many may be unanswered; bounds sockets and memory.
        clock: seconds, monotonic.
    """

    def __init__(
        self,
        plan: Iterable[tuple[float, int]],
        *,
        send: Send,
        sink: Callable[[Outcome], None],
        threads: Threads,
        max_in_flight: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._plan = plan
        self._send = send
        self._sink = sink
        self._threads = threads
        self._max_in_flight = max_in_flight
        self._clock = clock
        # Two runs with one seed ask the same, but their traces must not collide: no seed here.
        self._ids = random.Random()  # noqa: S311 - ids, no secrets
        self.in_flight = 0
        self.started_at = 0.0
        self.epoch_s = 0.0

    def run(self) -> None:
        """Go through the plan; returns when the last request was started, not when it was answered."""
        self.started_at = self._clock() + _LEAD_S
        self.epoch_s = time.time() + _LEAD_S
        behind = 0
        for offset, query in self._plan:
            due = self.started_at + offset
            if self._clock() < due:
                self._threads.sleep_until(due)
                behind = 0
            else:
                # A generator that is behind must still let its requests out.
                behind += 1
                if behind % _BURST == 0:
                    self._threads.give_way()
            self._arrive(offset, due, query)

    def drain(self, seconds: float) -> None:
        """Wait until every request is answered, at most `seconds`."""
        end = self._clock() + seconds
        while self.in_flight and (now := self._clock()) < end:
            self._threads.sleep_until(now + 0.005)

    def _arrive(self, offset: float, due: float, query: int) -> None:
        if self.in_flight >= self._max_in_flight:
            nan = float("nan")
            self._sink(Outcome(offset, nan, nan, 0, DROPPED, "", 0))
            return
        self.in_flight += 1
        self._threads.spawn(self._request, offset, due, query)

    def _request(self, offset: float, due: float, query: int) -> None:
        ids = f"{self._ids.getrandbits(192) | 1 << 64 | 1:048x}"  # neither id may be all zero
        trace_id = ids[:32]
        begin = self._clock()
        answer: tuple[int, str | None, int, float] = (0, "interrupted", 0, 1.0)
        try:
            answer = self._send(query, f"00-{trace_id}-{ids[32:]}-01")
        finally:
            end = self._clock()
            self.in_flight -= 1
            status, error, size, utility = answer
            lag, took = (begin - due) * 1e3, (end - due) * 1e3
            self._sink(Outcome(offset, lag, took, status, error, trace_id, size, utility))


def plan(arrivals: Arrivals, queries: Queries, seed: int) -> Iterator[tuple[float, int]]:
    """Intended starts with what to ask, the same for the same seed."""
    for_times, for_queries = (np.random.default_rng(child) for child in np.random.SeedSequence(seed).spawn(2))
    for times in arrivals.chunks(for_times):
        yield from zip(times.tolist(), queries.draw(for_queries, len(times)).tolist(), strict=True)
