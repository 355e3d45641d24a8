"""One stage with its queues: the quickest of the ways that are exact for it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kwiken._copies import linked
from kwiken._errors import InputError
from kwiken._pool import Pool
from kwiken._profile import Floats
from kwiken.queueing._fifo import fifo_ends
from kwiken.queueing._law import Empirical
from kwiken.queueing._pauses import Clock, clocks
from kwiken.queueing._race import Attempts, Calls, Copies, Ints, QueueRace, Served
from kwiken.queueing._station import Station

MOST_CALLS: Final = 1 << 22  # of one stage in one run: some 150 bytes each while it is simulated
DRAWN: Final = 512  # copies that are drawn at once
SLACK: Final = 0.02  # background goes on for so much longer than the calls, for those that end last


def serve(station: Station, calls: Calls, rng: np.random.Generator, clock: Clock | None = None) -> Served:
    """Run a stage's calls through its queues.

    Args:
        station: the stage.
        calls: its primary calls, by arrival.
        rng: of all draws; replicas, copies, pauses and background have streams of their own, so stations that
            differ in one of them share the others.
        clock: of the machine that its replicas run on; None where each has one to itself.

    Raises:
        InputError: for more calls than fit in memory.
    """
    dispatch, spares, pausing, others = rng.spawn(4)
    if station.replicas is None:
        return _without_queue(station, calls, copies_of(station, spares), dispatch)
    if not calls.count:
        none, nobody = np.empty(0), np.empty(0, np.int64)
        attempts = _one_each(calls, nobody, none, none)
        return Served(none, none, nobody, nobody, 0, np.zeros(station.replicas), 0.0, attempts)
    own = calls.count
    every = calls if station.background is None else with_background(station, calls, others)
    if every.count > MOST_CALLS:
        raise InputError(
            f"stage {station.name!r} would get {every.count} calls, and {MOST_CALLS} fit; take fewer requests"
        )
    times = clocks(station.pauses, station.replicas, pausing) if clock is None else [clock] * station.replicas
    if _nothing_interferes(station):
        served = _each_alone(station, every, times, dispatch)
    else:
        race = QueueRace(station, every, times, copies_of(station, spares), dispatch)
        served = race.run()
        if clock is not None:
            served = replace(served, attempts=race.attempts())
    return served if every.count == own else _without_background(served, every)


def copies_of(station: Station, rng: np.random.Generator) -> Copies:
    """Draws work and rest of a copy, given its call's."""

    def drawn() -> Iterator[tuple[float, float]]:
        while True:
            work = station.work.draw(rng, DRAWN).tolist()
            rest = station.rest.draw(rng, DRAWN).tolist()
            yield from zip(work, rest, strict=True)

    own, repeats = drawn(), station.repeats

    def own_copy(work: float, _: float) -> tuple[float, float]:
        drawn_work, rest = next(own)
        return work if repeats else drawn_work, rest

    law, rho, most = station.rest, station.alike, station.alike_to_ms
    if rho <= 0 or not isinstance(law, Empirical):
        return own_copy
    scores = rng.spawn(1)[0]
    shared = law.pool if most == math.inf else _up_to(law.pool, most)

    def linked_copy(work: float, rest: float) -> tuple[float, float]:
        copy_work, other = own_copy(work, rest)
        normal = scores.standard_normal(1)
        if max(rest, other) > most:  # one of them is a replica's own affair
            return copy_work, other
        return copy_work, float(linked(shared, np.array([rest]), normal, rho)[0])

    return linked_copy


def _up_to(pool: Pool, most: float) -> Pool:
    """Those of a pool that are not longer."""
    count = int(np.searchsorted(pool.values, most, side="right"))
    mass = pool.mass[:count]
    return Pool(pool.values[:count], mass / mass.sum() if count else None)


def with_background(station: Station, calls: Calls, rng: np.random.Generator) -> Calls:
    """The calls and the background's, by arrival; a Poisson process for every replica."""
    background = station.background
    assert background is not None
    assert station.replicas is not None
    until = float(calls.arrival[-1]) * (1 + SLACK)
    rate = background.utilisation * station.workers * station.replicas / background.work.mean_ms
    count = int(rng.poisson(rate * until))
    arrival = np.concatenate((calls.arrival, rng.random(count) * until))
    order = np.argsort(arrival, kind="stable")
    pinned = np.concatenate((calls.pinned, rng.integers(station.replicas, size=count)))
    work = np.concatenate((calls.work, background.work.draw(rng, count)))
    rest = np.concatenate((calls.rest, np.zeros(count)))
    in_front = [
        None if part is None else np.concatenate((part, np.zeros(count)))[order]
        for part in (calls.sending, calls.reading, calls.passing)
    ]
    return Calls(arrival[order], work[order], rest[order], pinned[order], *in_front)


def _without_background(served: Served, every: Calls) -> Served:
    own = every.pinned < 0
    return replace(
        served,
        latency_ms=served.latency_ms[own],
        wait_ms=served.wait_ms[own],
        replica=served.replica[own],
        copies=served.copies[own],
        attempts=None if served.attempts is None else _renumbered(served.attempts, own),
    )


def _renumbered(attempts: Attempts, own: NDArray[np.bool_]) -> Attempts:
    """Calls by their number among the stage's own."""
    numbers = np.where(own, np.cumsum(own) - 1, -1)
    return replace(attempts, call=numbers[attempts.call])


def _nothing_interferes(station: Station) -> bool:
    """Whether replicas can be simulated one by one: nobody looks at queues, and nobody leaves them."""
    blind = station.dispatch == "random" or station.replicas == 1
    races = station.reissue is not None and station.replicas != 1
    return blind and not races and station.discipline == "fifo"


def _each_alone(
    station: Station, calls: Calls, times: Sequence[Clock | None], rng: np.random.Generator
) -> Served:
    """Random replicas in the order of arrival: every replica by itself, all of its calls at once."""
    drawn = rng.integers(len(times), size=calls.count)
    replica = np.where(calls.pinned >= 0, calls.pinned, drawn)
    end = np.empty(calls.count)
    order = np.argsort(replica, kind="stable")
    bounds = np.searchsorted(replica[order], np.arange(len(times) + 1))
    for number, clock in enumerate(times):
        mine = order[bounds[number] : bounds[number + 1]]
        if len(mine):
            end[mine] = _ends(calls.arrival[mine], calls.work[mine], station.workers, clock)
    return Served(
        latency_ms=end - calls.arrival + calls.seen_after,
        wait_ms=np.maximum(0.0, end - calls.arrival - calls.work),
        replica=replica,
        copies=np.zeros(calls.count, np.int64),
        denied=0,
        worked_ms=np.asarray(np.bincount(replica, calls.work, minlength=len(times)), dtype=float),
        extra_ms=0.0,
        attempts=_one_each(calls, replica, calls.work, calls.seen_after),
    )


def _one_each(calls: Calls, replica: Ints, work: Floats, rest: Floats) -> Attempts:
    """Nobody has a copy."""
    everybody = np.arange(calls.count)
    return Attempts(everybody, calls.arrival, replica, work, rest, np.ones(calls.count, np.bool_))


def _ends(arrival: Floats, work: Floats, workers: int, clock: Clock | None) -> Floats:
    if clock is None:
        return fifo_ends(arrival, work, workers)
    return clock.moments_at(fifo_ends(clock.worked_at(arrival), work, workers))


def _without_queue(station: Station, calls: Calls, copies: Copies, rng: np.random.Generator) -> Served:
    """A stage that nothing can overload: copies race, and nobody waits."""
    latency = calls.work + calls.seen_after
    extra, sent = 0.0, np.zeros(calls.count, np.int64)
    reissue = station.reissue
    if reissue is not None:
        may = np.ones(calls.count, np.bool_)
        passing = np.zeros(calls.count) if calls.passing is None else calls.passing
        grace = calls.grace_ms(station)
        sending = np.zeros(calls.count) if calls.sending is None else calls.sending
        if reissue.probability < 1:
            may = rng.random(calls.count) < reissue.probability
        for number in range(1, reissue.copies + 1):
            due = np.maximum(0.0, reissue.after_ms - sending) + (number - 1) * reissue.after_ms
            late = np.flatnonzero(may & (latency > due + grace))
            those = zip(calls.work[late].tolist(), calls.rest[late].tolist(), strict=True)
            drawn = np.array([copies(work, rest) for work, rest in those]).reshape(-1, 2)
            took = drawn.sum(axis=1) + passing[late]
            latency[late] = np.minimum(latency[late], due[late] + took)
            extra += float(drawn[:, 0].sum())
            sent[late] += 1
    return Served(
        latency_ms=latency,
        wait_ms=np.zeros(calls.count),
        replica=np.full(calls.count, -1),
        copies=sent,
        denied=0,
        worked_ms=np.array([float(calls.work.sum()) + extra]),
        extra_ms=extra,
        attempts=_one_each(calls, np.full(calls.count, -1), np.zeros(calls.count), latency),
    )
