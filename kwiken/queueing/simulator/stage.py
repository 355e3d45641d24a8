"""Simulation of one stage: chooses the fastest exact method for its queues and copies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np

from kwiken.curves import linked
from kwiken.errors import InputError
from kwiken.queueing.simulator.fifo import fifo_ends
from kwiken.queueing.simulator.race import Calls, Copies, QueueRace, Served
from kwiken.queueing.simulator.service_times import Empirical
from kwiken.queueing.simulator.station import Station

MAX_STAGE_CALLS: Final = 1 << 22  # calls of one stage in one run: some 150 bytes each while it is simulated
DRAWS_PER_BATCH: Final = 512  # copies drawn at once
BACKGROUND_OVERRUN: Final = 0.02  # share of the time by which background work outlasts the last arrival


def serve(station: Station, calls: Calls, rng: np.random.Generator) -> Served:
    """Simulate the calls of one stage in its queues.

    There are three cases: 1. no replicas: no call waits, copies race; 2. random replicas and no copies: each
    replica by itself, in one vectorised pass; 3. all else: event by event.

    Args:
        station: the stage with its replicas and rules.
        calls: primary calls, by arrival.
        rng: source of randomness; replicas, copies and background have streams of their own, so that stations
            that differ in one of them share the draws of the others.

    Raises:
        InputError: for more calls than fit in memory.
    """
    dispatch, spares, others = rng.spawn(3)
    if station.replicas is None:
        return _without_queue(station, calls, copies_of(station, spares), dispatch)
    if not calls.count:
        none, no_replica = np.empty(0), np.empty(0, np.int64)
        return Served(none, no_replica, no_replica, np.zeros(station.replicas), 0.0)
    own = calls.count
    every = calls if station.background is None else with_background(station, calls, others)
    if every.count > MAX_STAGE_CALLS:
        raise InputError(
            f"stage {station.name!r} would get {every.count} calls, and {MAX_STAGE_CALLS} fit; "
            "take fewer requests"
        )
    if _nothing_interferes(station):
        served = _each_alone(station.replicas, every, dispatch)
    else:
        served = QueueRace(station, every, copies_of(station, spares), dispatch).run()
    return served if every.count == own else _without_background(served, every)


def copies_of(station: Station, rng: np.random.Generator) -> Copies:
    """Function that draws work and rest of a copy, given its call's rest."""

    def drawn() -> Iterator[tuple[float, float]]:
        while True:
            work = station.work.draw(rng, DRAWS_PER_BATCH).tolist()
            rest = station.rest.draw(rng, DRAWS_PER_BATCH).tolist()
            yield from zip(work, rest, strict=True)

    own = drawn()

    def own_copy(_: float) -> tuple[float, float]:
        return next(own)

    law, rho = station.rest, station.alike
    if rho <= 0 or not isinstance(law, Empirical):
        return own_copy
    scores, pool = rng.spawn(1)[0], law.pool

    def linked_copy(rest: float) -> tuple[float, float]:
        work, _ = next(own)
        return work, float(linked(pool, np.array([rest]), scores.standard_normal(1), rho)[0])

    return linked_copy


def with_background(station: Station, calls: Calls, rng: np.random.Generator) -> Calls:
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
    return Calls(arrival[order], work[order], rest[order], pinned[order])


def _without_background(served: Served, every: Calls) -> Served:
    own = every.pinned < 0
    return replace(
        served,
        latency_ms=served.latency_ms[own],
        replica=served.replica[own],
        copies=served.copies[own],
    )


def _nothing_interferes(station: Station) -> bool:
    """Whether replicas are independent: their choice ignores queues, and no call is copied or cancelled."""
    blind = station.dispatch == "random" or station.replicas == 1
    races = station.reissue is not None and station.replicas != 1
    return blind and not races


def _each_alone(replicas: int, calls: Calls, rng: np.random.Generator) -> Served:
    """Random replicas without copies: the queue of each replica in one vectorised pass."""
    drawn = rng.integers(replicas, size=calls.count)
    replica = np.where(calls.pinned >= 0, calls.pinned, drawn)
    end = np.empty(calls.count)
    order = np.argsort(replica, kind="stable")
    bounds = np.searchsorted(replica[order], np.arange(replicas + 1))
    for number in range(replicas):
        mine = order[bounds[number] : bounds[number + 1]]
        if len(mine):
            end[mine] = fifo_ends(calls.arrival[mine], calls.work[mine])
    return Served(
        latency_ms=end - calls.arrival + calls.rest,
        replica=replica,
        copies=np.zeros(calls.count, np.int64),
        worked_ms=np.asarray(np.bincount(replica, calls.work, minlength=replicas), dtype=float),
        extra_ms=0.0,
    )


def _without_queue(station: Station, calls: Calls, copies: Copies, rng: np.random.Generator) -> Served:
    """A stage without replicas in the model: copies race, and no call waits."""
    latency = calls.work + calls.rest
    extra, sent = 0.0, np.zeros(calls.count, np.int64)
    reissue = station.reissue
    if reissue is not None:
        may = np.ones(calls.count, np.bool_)
        if reissue.probability < 1:
            may = rng.random(calls.count) < reissue.probability
        for number in range(1, reissue.copies + 1):
            due = number * reissue.after_ms
            late = np.flatnonzero(may & (latency > due))
            drawn = np.array([copies(rest) for rest in calls.rest[late].tolist()]).reshape(-1, 2)
            latency[late] = np.minimum(latency[late], due + drawn.sum(axis=1))
            extra += float(drawn[:, 0].sum())
            sent[late] += 1
    return Served(
        latency_ms=latency,
        replica=np.full(calls.count, -1),
        copies=sent,
        worked_ms=np.array([float(calls.work.sum()) + extra]),
        extra_ms=extra,
    )
