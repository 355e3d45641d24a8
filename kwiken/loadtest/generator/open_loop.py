"""Open-loop request generator: each request starts when it is due, whether or not others were answered.

A closed loop (a user who waits for each answer before the next request) sends less while the system is slow,
so slow periods are hardly measured: coordinated omission. Here the schedule is fixed beforehand and latency
counts from the intended start, so every request that was due during a stall shows it.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

import numpy as np

from kwiken.loadtest.generator.shared_schedule import NO_REQUEST
from kwiken.loadtest.inputs.arrivals import Arrivals
from kwiken.loadtest.inputs.queries import Queries
from kwiken.loadtest.results.outcome import DROPPED, RequestOutcome, SentRequest

Send = Callable[[int, str], SentRequest]
_START_DELAY_S = 0.05
_MAX_STARTS_WITHOUT_YIELD = 32


class Threads(Protocol):
    """Interface to light-weight threads; tests replace it by one without a real scheduler or clock."""

    def spawn(self, work: Callable[..., None], *args: object) -> None:
        """Run `work` concurrently with the caller."""

    def sleep_until(self, moment: float) -> None:
        """Pause the caller until `moment` of the clock."""

    def give_way(self) -> None:
        """Yield to other threads that are ready."""


class OpenLoop:
    """Generator that starts each intended request, or drops it if too many are in flight.

    Args:
        plan: intended starts (seconds from the start of the run, ascending), each with its query's index;
            `NO_REQUEST` in place of an index waits until then and sends nothing.
        send: sends one query with a traceparent.
        sink: callback for every outcome, in order of completion.
        threads: light-weight threads that requests run in.
        max_in_flight: maximal number of unanswered requests; bounds sockets and memory.
        clock: monotonic clock, seconds.
    """

    def __init__(
        self,
        plan: Iterable[tuple[float, int]],
        *,
        send: Send,
        sink: Callable[[RequestOutcome], None],
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
        # Not seeded: two runs with one seed send the same requests, but their trace ids must differ.
        self._ids = random.Random()  # noqa: S311 - ids, no secrets
        self.in_flight = 0
        self.started_at = 0.0
        self.epoch_s = 0.0

    def run(self) -> None:
        """Start every request of the plan; returns after the last start, not after the last response."""
        self.started_at = self._clock() + _START_DELAY_S
        self.epoch_s = time.time() + _START_DELAY_S
        behind = 0
        for offset, query in self._plan:
            due = self.started_at + offset
            if self._clock() < due:
                self._threads.sleep_until(due)
                behind = 0
            else:
                # A generator that is behind must still let the requests it spawned run.
                behind += 1
                if behind % _MAX_STARTS_WITHOUT_YIELD == 0:
                    self._threads.give_way()
            if query != NO_REQUEST:
                self._arrive(offset, due, query)

    def drain(self, seconds: float) -> None:
        """Wait until every request has ended, for at most `seconds`."""
        end = self._clock() + seconds
        while self.in_flight and (now := self._clock()) < end:
            self._threads.sleep_until(now + 0.005)

    def _arrive(self, offset: float, due: float, query: int) -> None:
        if self.in_flight >= self._max_in_flight:
            nan = float("nan")
            self._sink(RequestOutcome(offset, nan, nan, 0, DROPPED, "", 0))
            return
        self.in_flight += 1
        self._threads.spawn(self._request, offset, due, query)

    def _request(self, offset: float, due: float, query: int) -> None:
        ids = f"{self._ids.getrandbits(192) | 1 << 64 | 1:048x}"  # neither id may be zero
        trace_id = ids[:32]
        begin = self._clock()
        answer = SentRequest(0, "interrupted", 0)
        try:
            answer = self._send(query, f"00-{trace_id}-{ids[32:]}-00")
        finally:
            end = self._clock()
            self.in_flight -= 1
            status, error, size, utility, first_s, gap_s = answer
            lag, took = (begin - due) * 1e3, (end - due) * 1e3
            first, gap = lag + first_s * 1e3, gap_s * 1e3
            self._sink(RequestOutcome(offset, lag, took, status, error, trace_id, size, utility, first, gap))


def plan(arrivals: Arrivals, queries: Queries, seed: int) -> Iterator[tuple[float, int]]:
    """Intended starts, each with the index of a query; the same for the same seed."""
    for_times, for_queries = (np.random.default_rng(child) for child in np.random.SeedSequence(seed).spawn(2))
    for times in arrivals.chunks(for_times):
        yield from zip(times.tolist(), queries.draw(for_queries, len(times)).tolist(), strict=True)
