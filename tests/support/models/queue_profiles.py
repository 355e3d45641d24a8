"""Profiles of services with queues, made by the simulator so that their work and waits are known."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kwiken.base.arrays import Floats
from kwiken.model.plan.plan import SpanMatch
from kwiken.model.profile.profile import Profile, StageProfile
from kwiken.tail.queueing.simulator.network import poisson_arrivals, simulate_queues
from kwiken.tail.queueing.simulator.service_times import LogNormal
from kwiken.tail.queueing.simulator.station import Station

CHAIN = (
    Station(name="fetch", work=LogNormal(5.0, 0.5), rest=LogNormal(4.0, 1.0), replicas=4, dispatch="aged"),
    Station(name="rank", after=("fetch",), work=LogNormal(5.0, 1.5), replicas=4, dispatch="aged"),
)


def rate_of(utilisation: float) -> float:
    """Requests a second at which the chain's replicas reach a utilisation."""
    return CHAIN[0].visits_per_s(utilisation)


def queue_profile(
    rate_per_s: float,
    *,
    stations: Sequence[Station] = CHAIN,
    requests: int = 20_000,
    seed: int = 1,
    known: bool = True,
) -> Profile:
    """Profile as traces of these stations would give it.

    Args:
        rate_per_s: requests a second.
        stations: with log-normal work, one call a visit.
        requests: how many.
        seed: of all draws.
        known: whether busy times and replicas were measured.
    """
    rng = np.random.default_rng(seed)
    arrivals = poisson_arrivals(rate_per_s, requests, rng)
    found = simulate_queues(stations, arrivals, rng=rng)
    stages = tuple(
        _stage(station, found.stages[station.name].latency_ms, known=known) for station in stations
    )
    return Profile(
        service="chain", stages=stages, latency_ms=found.latency_ms, started_s=1.7e9 + arrivals / 1e3
    )


def _stage(station: Station, latency_ms: Floats, *, known: bool) -> StageProfile:
    work = station.work
    assert isinstance(work, LogNormal)
    return StageProfile(
        name=station.name,
        after=station.after,
        match=SpanMatch(service=f"chain-{station.name}", operation=station.name),
        calls_ms=latency_ms[:, None],
        censored=np.zeros((len(latency_ms), 1), np.bool_),
        busy_ms=work.mean_ms if known else None,
        busy_variation=work.variation if known else None,
        replicas=station.replicas if known else None,
    )
