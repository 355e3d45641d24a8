"""Paragon's applications: each runs on one node, with a reservation that another system has made."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from kwiken.allocator.workloads.profile import Size
from kwiken.allocator.workloads.workload import Measure, Target, Workload
from kwiken.base.arrays import Floats
from papers.worlds.fleet.behaviour import Behaviour
from papers.worlds.fleet.generators import MAX_NEED_QUANTILE
from papers.worlds.fleet.platforms import Platform, cluster_of
from papers.worlds.fleet.simulator.scenario import Job, Phase, Scenario, UserReservation
from papers.worlds.fleet.simulator.state import QOS
from papers.worlds.fleet.world import SPREAD_OF_DURATIONS, World, behaviour_of, random_outages

POOL: Final = (29, 22, 350, 25)  # applications by kind (Paragon section 5.3)
POOL_CORES: Final = (1, 4, 4, 2)  # single-threaded, multi-threaded, mixes of four programs, disk and network
MIN_GB_PER_CORE, MAX_GB_PER_CORE = 0.25, 2.0


def applications(
    name: str,
    seed: int,
    platforms: tuple[Platform, ...],
    arrivals_s: Floats,
    *,
    known: int,
    median_s: float | None = None,
    load: float | None = None,
    phases: int = 1,
    outages: int = 0,
    most_needed: float = MAX_NEED_QUANTILE,
) -> World:
    """Paragon's applications: a random sequence of its pool, each kind as likely (section 5.3).

    Args:
        arrivals_s: (j,) times of arrival, in seconds, rising.
        known: number of applications that were measured everywhere.
        median_s: median duration alone on the best platform, in seconds; or give `load`.
        load: share of the cores that are needed on average while jobs arrive, from which durations follow.
        phases: number of applications that each workload consists of, one after the other.
        outages: number of nodes that fail for good while jobs arrive.
        most_needed: quantile of what platforms offer up to which needs are drawn, a share.
    """
    rng = np.random.default_rng(seed)
    cluster = cluster_of(platforms)
    pool = sum(POOL)
    kinds = np.repeat(np.arange(len(POOL)), POOL)
    per_core = np.exp(rng.uniform(math.log(MIN_GB_PER_CORE), math.log(MAX_GB_PER_CORE), pool))
    truth = behaviour_of(rng, pool + known, platforms, one_size=True, most_needed=most_needed)
    count = len(arrivals_s)
    kind = rng.integers(len(POOL), size=count)
    chosen = [rng.choice(np.flatnonzero(kinds == each), phases).tolist() for each in kind.tolist()]
    cores = np.array(POOL_CORES)[kind]
    durations_s = np.exp(rng.normal(0, SPREAD_OF_DURATIONS, count))
    if median_s is not None:
        durations_s *= median_s
    if load is not None:
        durations_s *= load * float(cluster.cores.sum()) * arrivals_s[-1] / float(cores @ durations_s)
    sizes = [
        (Size(float(each), float(each * per_core[rows].max())),)
        for each, rows in zip(cores.tolist(), chosen, strict=True)
    ]
    jobs = [
        _application(
            f"job-{place}",
            float(arrivals_s[place]),
            truth,
            chosen[place],
            sizes[place],
            platforms,
            duration_s,
        )
        for place, duration_s in enumerate(durations_s.tolist())
    ]
    scenario = Scenario(
        name, cluster, tuple(jobs), random_outages(rng, cluster, outages, float(arrivals_s[-1]))
    )
    rows = tuple(tuple(each) for each in chosen)
    return World(scenario, truth.part(0, pool), truth.part(pool, pool + known), rows, tuple(sizes), seed)


def _application(
    name: str,
    arrival_s: float,
    truth: Behaviour,
    rows: Sequence[int],
    sizes: tuple[Size, ...],
    platforms: tuple[Platform, ...],
    duration_s: float,
) -> Job:
    """A job of one or more applications; its target is 95% of the best platform that holds it."""
    (size,) = sizes
    holds = np.array([one.cores >= size.cores and one.memory_gb >= size.memory_gb for one in platforms])
    classes = tuple(one.name for one in platforms)
    phases = []
    for row in rows:
        best = float(np.exp(truth.het[row][holds]).max())
        profile = truth.profile(row, name, Measure.IPS, sizes, classes)
        phases.append(Phase(profile, best * duration_s / len(rows), best))
    target = Target(ips=QOS * phases[0].reference)
    workload = Workload(name=name, memory_gb=size.memory_gb, target=target, max_replicas=1)
    return Job(workload, arrival_s, tuple(phases), reserved=UserReservation(size, 1))
