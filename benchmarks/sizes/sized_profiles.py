"""Profiles for the benchmark of sizing: the search service's shape, and generated DAGs with queues."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kwiken.base.arrays import Floats
from kwiken.model.latency import end_to_end, start_times
from kwiken.model.plan.plan import SpanMatch
from kwiken.model.profile.distribution import EmpiricalDistribution
from kwiken.model.profile.profile import Profile, StageProfile
from kwiken.tail.queueing.simulator.calls import SimulatedCalls
from kwiken.tail.queueing.simulator.network import poisson_arrivals
from kwiken.tail.queueing.simulator.service_times import Empirical, LogNormal
from kwiken.tail.queueing.simulator.stage import serve
from kwiken.tail.queueing.simulator.station import Station
from papers.worlds.populations.services import POPULATIONS, population, population_profile

REQUESTS = 3000
SEARCH_RATE_PER_S = 100.0
# Stage, parents, calls of a visit, mean work of a call on a replica in ms, its variation, replicas.
SEARCH = (
    ("parse", (), 1, 0.44, 0.5, 2),
    ("spell", ("parse",), 1, 0.46, 0.3, 2),
    ("lookup", ("spell",), 8, 0.27, 0.3, 3),
    ("symbols", ("spell",), 1, 0.53, 0.3, 2),
    ("rank", ("spell", "lookup", "symbols"), 1, 1.85, 0.3, 2),
    ("snippets", ("rank",), 5, 0.70, 0.6, 3),
    ("page", ("rank", "snippets"), 1, 0.48, 0.6, 2),
)
STRAGGLERS, STRAGGLER_MS = 0.003, (20.0, 80.0)  # share of the calls that stall, and for how long
DAGS_DRAWN, DAG_TAKEN = 5, 1  # of five DAGs by size the second smallest: about seven stages
WORK_SHARE = 0.3  # of a generated stage's median latency that is work of its replica
DAG_UTILISATION = 0.3  # of the replicas of a generated DAG while it is recorded
DAG_RATE_PER_S = 100.0


def search_profile(seed: int) -> Profile:
    """Profile of a service with the search service's DAG and work; a few calls stall at a replica's side."""
    rng = np.random.default_rng(seed)
    arrivals = poisson_arrivals(SEARCH_RATE_PER_S, REQUESTS, rng)
    ends: dict[str, Floats] = {}
    stages = []
    for name, after, width, work_ms, variation, replicas in SEARCH:
        base = rng.lognormal(np.log(0.6), 0.5, 20_000)
        stall = rng.random(len(base)) < STRAGGLERS
        base[stall] += rng.uniform(*STRAGGLER_MS, int(stall.sum()))
        rest = Empirical(EmpiricalDistribution.of(base))
        station = Station(
            name=name, work=LogNormal(work_ms, variation), rest=rest, replicas=replicas, dispatch="aged"
        )
        stage = StageProfile(
            name=name,
            after=after,
            match=SpanMatch(service=f"search-{name}", operation=name),
            calls_ms=np.empty((REQUESTS, width)),
            censored=np.zeros((REQUESTS, width), np.bool_),
            busy_ms=work_ms,
            busy_variation=variation,
            replicas=replicas,
        )
        waited = start_times(stage, ends)
        start = arrivals if waited is None else arrivals + waited
        order = np.argsort(start, kind="stable")
        count = REQUESTS * width
        calls = SimulatedCalls(
            np.repeat(start[order], width),
            station.work.draw(rng, count),
            rest.draw(rng, count),
            np.full(count, -1),
        )
        stage.calls_ms[order] = serve(station, calls, rng).latency_ms.reshape(REQUESTS, width)
        ends[name] = stage.latency_ms + (0.0 if waited is None else waited)
        stages.append(stage)
    latency = end_to_end(stages, {stage.name: stage.latency_ms for stage in stages})
    return Profile(
        service="search", stages=tuple(stages), latency_ms=latency, started_s=1.7e9 + arrivals / 1e3
    )


def dag_profile(seed: int) -> Profile:
    """Profile of a generated DAG; a part of each stage's median latency is work of its replicas."""
    rng = np.random.default_rng(seed)
    dag = population(POPULATIONS["C"], rng, dags=DAGS_DRAWN)[DAG_TAKEN]
    profile = population_profile(dag, REQUESTS, rng)
    stages = []
    for stage in profile.stages:
        busy_ms = WORK_SHARE * float(np.median(stage.calls_ms))
        replicas = max(2, int(np.ceil(busy_ms * DAG_RATE_PER_S / 1e3 / DAG_UTILISATION)))
        stages.append(replace(stage, busy_ms=busy_ms, busy_variation=0.5, replicas=replicas))
    return replace(profile, stages=tuple(stages))
