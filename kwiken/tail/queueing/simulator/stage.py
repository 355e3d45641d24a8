"""Simulation of one stage: chooses the fastest exact method for its queues and copies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from kwiken.base.arrays import Floats
from kwiken.base.errors import InputError
from kwiken.tail.curves.copies import correlated_copies
from kwiken.tail.queueing.simulator.calls import CallOutcomes, DrawCopy, Ints, SimulatedCalls
from kwiken.tail.queueing.simulator.fifo import fifo_ends
from kwiken.tail.queueing.simulator.pauses import PausedClock
from kwiken.tail.queueing.simulator.race import QueueRace
from kwiken.tail.queueing.simulator.service_times import Empirical
from kwiken.tail.queueing.simulator.station import Station
from kwiken.tail.simulation.block_race import BlockRace

MAX_STAGE_CALLS: Final = 1 << 22  # calls of one stage in one run: some 150 bytes each while it is simulated
DRAWS_PER_BATCH: Final = 512  # copies drawn at once
BACKGROUND_OVERRUN: Final = 0.02  # share of the time by which background and pauses outlast the arrivals


def serve(station: Station, calls: SimulatedCalls, rng: np.random.Generator) -> CallOutcomes:
    """Simulate the calls of one stage in its queues.

    There are three cases: 1. no replicas: no call waits, copies race; 2. random replicas and no copies: each
    replica by itself, in one vectorised pass; 3. all else: event by event.

    Args:
        station: the stage with its replicas and rules.
        calls: primary calls, by arrival.
        rng: source of randomness; replicas, copies, background and pauses have streams of their own, so that
            stations that differ in one of them share the draws of the others.

    Raises:
        InputError: for more calls than fit in memory.
    """
    dispatch_rng, copy_rng, background_rng, pause_rng = rng.spawn(4)
    if station.replicas is None:
        return race_without_queues(station, calls, copy_drawer(station, copy_rng), dispatch_rng)
    if not calls.count:
        none, no_replica = np.empty(0), np.empty(0, np.int64)
        return CallOutcomes(none, no_replica, no_replica, np.zeros(station.replicas), 0.0)
    own = calls.count
    every = calls if station.background is None else _with_background(station, calls, background_rng)
    if every.count > MAX_STAGE_CALLS:
        raise InputError(
            f"stage {station.name!r} would get {every.count} calls, and {MAX_STAGE_CALLS} fit; "
            "take fewer requests"
        )
    until_ms = float(every.arrival[-1]) * (1 + BACKGROUND_OVERRUN)
    clocks = [] if station.pauses is None else station.pauses.drawn(station.replicas, until_ms, pause_rng)
    if _replicas_are_independent(station):
        served = _serve_each_replica(station.replicas, every, dispatch_rng, clocks)
    else:
        served = QueueRace(station, every, copy_drawer(station, copy_rng), dispatch_rng, clocks).run()
    return served if every.count == own else _without_background(served, every)


def copy_drawer(station: Station, rng: np.random.Generator) -> DrawCopy:
    """Function that draws work and rest of a copy, given its call's rest."""

    def drawn() -> Iterator[tuple[float, float]]:
        while True:
            work = station.work.draw(rng, DRAWS_PER_BATCH).tolist()
            rest = station.rest.draw(rng, DRAWS_PER_BATCH).tolist()
            yield from zip(work, rest, strict=True)

    own = drawn()

    def independent_copy(_: float) -> tuple[float, float]:
        return next(own)

    rest_times, rho = station.rest, station.copy_correlation
    if rho <= 0 or not isinstance(rest_times, Empirical):
        return independent_copy
    normals, distribution = rng.spawn(1)[0], rest_times.distribution

    def correlated_copy(rest: float) -> tuple[float, float]:
        work, _ = next(own)
        return work, float(
            correlated_copies(distribution, np.array([rest]), normals.standard_normal(1), rho)[0]
        )

    return correlated_copy


def _with_background(station: Station, calls: SimulatedCalls, rng: np.random.Generator) -> SimulatedCalls:
    """The stage's calls merged with background work by arrival; a Poisson process for every replica."""
    background = station.background
    assert background is not None
    assert station.replicas is not None
    until = float(calls.arrival[-1]) * (1 + BACKGROUND_OVERRUN)
    rate = background.utilisation * station.replicas / background.work.mean_ms
    count = int(rng.poisson(rate * until))
    arrival = np.concatenate((calls.arrival, rng.random(count) * until))
    order = np.argsort(arrival, kind="stable")
    pinned = np.concatenate((calls.pinned, rng.integers(station.replicas, size=count)))
    work = np.concatenate((calls.work, background.work.draw(rng, count)))
    rest = np.concatenate((calls.rest, np.zeros(count)))
    return SimulatedCalls(arrival[order], work[order], rest[order], pinned[order])


def _without_background(served: CallOutcomes, every: SimulatedCalls) -> CallOutcomes:
    own = every.pinned < 0
    return replace(
        served,
        latency_ms=served.latency_ms[own],
        replica=served.replica[own],
        copies=served.copies[own],
    )


def _replicas_are_independent(station: Station) -> bool:
    """Whether replicas are independent: their choice ignores queues, and no call is copied or cancelled."""
    blind = station.dispatch == "random" or station.replicas == 1
    races = station.reissue is not None and station.replicas != 1
    return blind and not races


def _serve_each_replica(
    replicas: int, calls: SimulatedCalls, rng: np.random.Generator, clocks: Sequence[PausedClock]
) -> CallOutcomes:
    """Random replicas without copies: the queue of each replica in one vectorised pass."""
    drawn = rng.integers(replicas, size=calls.count)
    replica = np.where(calls.pinned >= 0, calls.pinned, drawn)
    end = np.empty(calls.count)
    order = np.argsort(replica, kind="stable")
    bounds = np.searchsorted(replica[order], np.arange(replicas + 1))
    for number in range(replicas):
        mine = order[bounds[number] : bounds[number + 1]]
        if not len(mine):
            continue
        arrival, work = calls.arrival[mine], calls.work[mine]
        if clocks:  # in the running time of a replica there are no pauses
            clock = clocks[number]
            end[mine] = clock.moments(fifo_ends(clock.running(arrival), work))
        else:
            end[mine] = fifo_ends(arrival, work)
    return CallOutcomes(
        latency_ms=end - calls.arrival + calls.rest,
        replica=replica,
        copies=np.zeros(calls.count, np.int64),
        busy_ms=np.asarray(np.bincount(replica, calls.work, minlength=replicas), dtype=float),
        extra_work_ms=0.0,
    )


class DrawnCopies:
    """Copies of a stage without queues, as `BlockRace` takes them; adds up their work.

    Args:
        rest: (m,) rests of the calls, milliseconds.
        draw_copy: function that draws work and rest of a copy.

    Attributes:
        work_ms: work of all copies drawn so far.
    """

    def __init__(self, rest: Floats, draw_copy: DrawCopy, rng: np.random.Generator) -> None:
        self._rest = rest
        self._draw_copy = draw_copy
        self._rng = rng
        self.work_ms = 0.0

    def copies(self, which: Ints) -> Floats:
        """(k,): latencies of copies of these calls, milliseconds."""
        drawn = np.array([self._draw_copy(rest) for rest in self._rest[which].tolist()]).reshape(-1, 2)
        self.work_ms += float(drawn[:, 0].sum())
        return np.asarray(drawn.sum(axis=1))

    def coins(self, which: Ints) -> Floats:
        """(k,): uniform values from 0 to 1. One is drawn for every call, late or not, as with queues."""
        return self._rng.random(len(self._rest))[which]


def race_without_queues(
    station: Station, calls: SimulatedCalls, draw_copy: DrawCopy, rng: np.random.Generator
) -> CallOutcomes:
    """A stage without replicas in the model: copies race, and no call waits."""
    copies = DrawnCopies(calls.rest, draw_copy, rng)
    race = BlockRace((calls.work + calls.rest)[:, None], copies)
    race.run(station.reissue)
    return CallOutcomes(
        latency_ms=race.ends[:, 0],
        replica=np.full(calls.count, -1),
        copies=race.sent_before(None)[0],
        busy_ms=np.array([float(calls.work.sum()) + copies.work_ms]),
        extra_work_ms=copies.work_ms,
    )
