"""Simulation of requests through a DAG of stages with queues.

The DAG is feed-forward: a stage depends on when its parents end, never on its children. So each stage is
simulated by itself, for all requests at once, given its parents' ends. That is exact and quick, and holds the
calls of one stage in memory at a time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kwiken.base.arrays import Floats
from kwiken.base.errors import InputError
from kwiken.model.latency import parents_first, start_times
from kwiken.tail.queueing.simulator.calls import CallOutcomes, SimulatedCalls
from kwiken.tail.queueing.simulator.stage import serve
from kwiken.tail.queueing.simulator.station import Station

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Primaries:
    """Primary calls of a stage by request, where they are given instead of drawn.

    Attributes:
        work_ms: (n, width) times of work; NaN for no call.
        rest_ms: (n, width) times of rest, NaN in the same places.
        lag_ms: (n, width) times that answers lie at the caller before the caller reads them. No copy shortens
            them, because the caller reads the copy's answer as late. None for none.
    """

    work_ms: Floats
    rest_ms: Floats
    lag_ms: Floats | None = None


@dataclass(frozen=True)
class StageQueues:
    """Outcome of one stage; n requests, m calls.

    Attributes:
        latency_ms: (n,) time until the last answer of a request; 0 where it made no call.
        calls: (n,) number of primary calls of each request.
        copies: (n,) number of copies sent for each request.
        utilisation: (replicas,) share of the time until the last arrival that each one was busy; empty for a
            stage without replicas.
        extra_load: work caused by copies, as a share of the work of first attempts.
    """

    latency_ms: Floats
    calls: Ints
    copies: Ints
    utilisation: Floats
    extra_load: float

    @property
    def fraction(self) -> float:
        """Number of copies per call."""
        return float(self.copies.sum() / max(1, self.calls.sum()))


@dataclass(frozen=True)
class QueueSimulation:
    """Outcome of a simulation of whole requests.

    Attributes:
        latency_ms: (n,) latencies of whole requests.
    """

    latency_ms: Floats
    stages: Mapping[str, StageQueues]


def poisson_arrivals(rate_per_s: float, requests: int, rng: np.random.Generator) -> Floats:
    """(requests,): arrival times of a Poisson process, milliseconds, ascending.

    Args:
        rate_per_s: requests a second; above 0.

    Raises:
        InputError: for a rate that is not a finite number above 0.
    """
    if not 0 < rate_per_s < math.inf:
        raise InputError(f"must be a finite number above 0, not {rate_per_s}", where="rate")
    return np.cumsum(rng.standard_exponential(requests)) * (1e3 / rate_per_s)


def simulate_queues(
    stations: Sequence[Station],
    arrivals_ms: Floats,
    *,
    rng: np.random.Generator,
    given: Mapping[str, Primaries] | None = None,
    warm_up: int = 0,
) -> QueueSimulation:
    """Simulate requests through a DAG of stages with queues.

    Args:
        stations: the stages, each with its replicas.
        arrivals_ms: (n,) arrival times of requests, ascending from 0 or later.
        rng: source of randomness. Every stage has streams of its own, in the order given, for calls,
            replicas, copies and background: simulations that differ in a policy share all other draws.
        given: by stage: its primary calls; drawn from the station's distributions where absent.
        warm_up: number of requests at the beginning that load the queues but are left out of latencies; call
            latencies, waits, extra load and utilisation include them.

    Raises:
        InputError: for an invalid DAG, arrivals that go back, or primaries of another shape than the
            requests.
        OverloadError: where a stage cannot serve its copies.
    """
    arrivals = _checked(arrivals_ms, warm_up)
    streams = rng.spawn(len(stations))
    ends: dict[str, Floats] = {}
    stages: dict[str, StageQueues] = {}
    for i in parents_first(stations):
        station = stations[i]
        parents = start_times(station, ends)
        start = arrivals if parents is None else parents
        stage = _stage(station, start, (given or {}).get(station.name), streams[i])
        ends[station.name] = start + stage.latency_ms
        stages[station.name] = _without_first(stage, warm_up)
    inner = {parent for station in stations for parent in station.after}
    last = np.maximum.reduce([end for name, end in ends.items() if name not in inner])
    return QueueSimulation(np.asarray(last - arrivals)[warm_up:], stages)


def _checked(arrivals_ms: Floats, warm_up: int) -> Floats:
    arrivals = np.asarray(arrivals_ms, dtype=float)
    sound = arrivals.ndim == 1 and np.isfinite(arrivals).all() and (np.diff(arrivals, prepend=0.0) >= 0).all()
    if not sound:
        raise InputError("must be finite moments, ascending from 0 or later", where="arrivals_ms")
    if not 0 <= warm_up < len(arrivals):
        raise InputError(
            f"must leave at least one of {len(arrivals)} requests, not {warm_up}", where="warm_up"
        )
    return arrivals


def _stage(
    station: Station, start: Floats, primaries: Primaries | None, rng: np.random.Generator
) -> StageQueues:
    """Simulate one stage, given the times at which requests come to it."""
    drawing, serving = rng.spawn(2)
    work, rest = _work_and_rest(station, len(start), primaries, drawing)
    there = np.flatnonzero(~np.isnan(work).ravel())
    there = there[np.argsort(start[there // work.shape[1]], kind="stable")]
    owner = there // work.shape[1]
    calls = SimulatedCalls(start[owner], work.ravel()[there], rest.ravel()[there], np.full(len(there), -1))
    served = serve(station, calls, serving)
    latency = np.zeros(len(start))
    lag = primaries.lag_ms if primaries is not None else None
    read = served.latency_ms if lag is None else served.latency_ms + lag.ravel()[there]
    np.maximum.at(latency, owner, read)
    return StageQueues(
        latency_ms=latency,
        calls=np.bincount(owner, minlength=len(start)),
        copies=_by_request(served.copies, owner, len(start)),
        utilisation=_utilisation(station, calls, served),
        extra_load=served.extra_work_ms / max(float(calls.work.sum()), math.ulp(0.0)),
    )


def _work_and_rest(
    station: Station, requests: int, primaries: Primaries | None, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """(n, width) times of work and (n, width) times of rest, milliseconds; NaN for no call."""
    if primaries is None:
        shape = (requests, station.fanout)
        size = requests * station.fanout
        return station.work.draw(rng, size).reshape(shape), station.rest.draw(rng, size).reshape(shape)
    work, rest = primaries.work_ms, primaries.rest_ms
    if work.ndim != 2 or len(work) != requests or rest.shape != work.shape:  # noqa: PLR2004 - a matrix
        raise InputError(
            f"stage {station.name!r}: must be matrices of {requests} rows, not of shapes {work.shape} and "
            f"{rest.shape}",
            where="given",
        )
    if (np.isnan(work) != np.isnan(rest)).any() or (work < 0).any() or (rest < 0).any():
        raise InputError(f"stage {station.name!r}: times must be >= 0, or NaN for no call", where="given")
    lag = primaries.lag_ms
    if lag is not None and (lag.shape != work.shape or not (lag[~np.isnan(work)] >= 0).all()):
        raise InputError(
            f"stage {station.name!r}: lag_ms must have the shape {work.shape} and a time >= 0 for each call",
            where="given",
        )
    return work, rest


def _by_request(values: Ints, owner: Ints, requests: int) -> Ints:
    return np.asarray(np.bincount(owner, values, minlength=requests), dtype=np.int64)


def _utilisation(station: Station, calls: SimulatedCalls, served: CallOutcomes) -> Floats:
    span_ms = float(calls.arrival[-1]) if calls.count else 0.0
    if station.replicas is None or not span_ms:
        return np.zeros(station.replicas or 0)
    return served.busy_ms / span_ms


def _without_first(stage: StageQueues, warm_up: int) -> StageQueues:
    return replace(
        stage,
        latency_ms=stage.latency_ms[warm_up:],
        calls=stage.calls[warm_up:],
        copies=stage.copies[warm_up:],
    )
