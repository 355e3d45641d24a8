"""Quasar's workloads: each has a performance target, and may take any size and number of replicas."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from kwiken.allocator.placement.headroom import SOURCE_CAUTION
from kwiken.allocator.placement.node_ledger import ROUNDING
from kwiken.allocator.placement.request import request_for
from kwiken.allocator.schedulers.baselines import reservation
from kwiken.allocator.workloads.profile import Size
from kwiken.allocator.workloads.workload import Target, Workload
from kwiken.base.arrays import Floats
from papers.worlds.fleet.behaviour import Behaviour
from papers.worlds.fleet.generators import CORES, MEMORY_GB
from papers.worlds.fleet.platforms import Platform, cluster_of
from papers.worlds.fleet.simulator.scenario import FOREVER, Job, Phase, PhaseStep, Scenario, UserReservation
from papers.worlds.fleet.world import MAX_OF_ONE, SPREAD_OF_DURATIONS, World, behaviour_of, random_outages

KNOWN: Final = 30  # workloads that were measured everywhere
HOURS: Final = 24  # steps of a day's load
LOOK_AHEAD: Final = 4  # waiting workloads that are tried: one that does not fit holds up no others
SERVICE, BATCH, SINGLE = range(3)


def targets(
    name: str,
    seed: int,
    platforms: tuple[Platform, ...],
    count: int,
    *,
    load: float,
    swings: bool = False,
    outages: int = 0,
) -> World:
    """Quasar's workloads of all types, one each second (section 5.3, Q5).

    A third each are services with a rate, distributed batch jobs with a completion time, and programs on one
    node. The target is what an ideal allocation gives: 1 to 4 replicas of 1 to 4 cores, with the memory that
    the workload can use, alone on its best class. Durations are such that the ideal allocations need `load`
    of all cores on average. What users reserve follows from the true need on a typical node, so all managers
    of reservations are given the same.

    Args:
        load: share of the cores that ideal allocations need while workloads arrive.
        swings: whether the load of services rises and falls.
        outages: number of nodes that fail for good while workloads arrive.
    """
    rng = np.random.default_rng(seed)
    cluster = cluster_of(platforms)
    truth = behaviour_of(rng, count + KNOWN, platforms, one_size=False)
    arrivals_s = np.arange(count, dtype=float)
    kinds = rng.integers(3, size=count)
    cores = rng.integers(3, size=count)  # position in CORES: 1, 2 or 4
    replicas = np.where(kinds == SINGLE, 1, rng.integers(1, 5, size=count))
    needed = np.array(CORES)[cores] * replicas
    durations_s = np.exp(rng.normal(scale=SPREAD_OF_DURATIONS, size=count))
    durations_s *= load * float(cluster.cores.sum()) * count / float(needed @ durations_s)
    factors = random_reservations(rng, count).tolist()
    sizes = tuple(Size(float(each), float(gb)) for each in CORES for gb in MEMORY_GB)
    classes = tuple(one.name for one in platforms)
    jobs = []
    for place in range(count):
        required = _ideal(truth, place, int(cores[place]) * len(MEMORY_GB), int(replicas[place]))
        kind, duration_s = int(kinds[place]), float(durations_s[place])
        target = Target(p99_ms=50, rate_per_s=required) if kind == SERVICE else Target(ips=required)
        profile = truth.profile(place, f"workload-{place}", target.measure, sizes, classes)
        workload = Workload(
            name=profile.name,
            memory_gb=float(MEMORY_GB[0]),
            target=target,
            max_replicas=1 if kind == SINGLE else MAX_OF_ONE,
        )
        service = kind == SERVICE
        phase = Phase(profile, FOREVER if service else required * duration_s, required)
        steps = _swings(rng, duration_s) if service and swings else ()
        ends = duration_s if service else FOREVER
        request = request_for(workload, profile, cluster, SOURCE_CAUTION)
        need = reservation(request)
        size = Size(float(request.cores[need.size]), float(request.memory_gb[need.size]))
        reserved = reserved_by_user(size, need.count, factors[place], one_node=kind == SINGLE)
        jobs.append(Job(workload, float(arrivals_s[place]), (phase,), ends, steps, reserved))
    down = random_outages(rng, cluster, outages, float(arrivals_s[-1]))
    scenario = Scenario(name, cluster, tuple(jobs), down, LOOK_AHEAD)
    rows = tuple((place,) for place in range(count))
    known = truth.part(count, count + KNOWN)
    return World(scenario, truth.part(0, count), known, rows, (sizes,) * count, seed)


def _ideal(truth: Behaviour, row: int, first: int, replicas: int) -> float:
    """Performance alone on the best class, of the given cores with as much memory as the workload can use.

    The best class adds nothing: performance by class is relative to that class.
    """
    up = float(truth.up[row, first : first + len(MEMORY_GB)].max())
    return float(truth.base[row]) * math.exp(up + float(truth.out[row, replicas - 1]))


def random_reservations(rng: np.random.Generator, count: int) -> Floats:
    """Factors by which users reserve more than the need (Quasar section 3.13), 2.94 on average.

    Returns:
        (count,) factors: above 1 for 70% of users, below 1 for 20%, and 1 for the others.
    """
    kind = rng.random(count)
    over = np.exp(rng.uniform(0, math.log(10), count))
    under = np.exp(rng.uniform(-math.log(5), 0, count))
    return np.where(kind < 0.7, over, np.where(kind < 0.9, under, 1.0))  # noqa: PLR2004 - the source's shares


def reserved_by_user(size: Size, replicas: int, factor: float, *, one_node: bool) -> UserReservation:
    """What a user reserves who exceeds or misses the need by a factor.

    A program on one node gets other cores and memory by that factor, rounded up to a size that there is;
    all others get another number of replicas.

    Args:
        size: size of a replica that is needed.
        factor: how many times the need is reserved, above 0.
        one_node: whether the workload cannot have several replicas.
    """
    if not one_node:
        return UserReservation(size, math.ceil(replicas * factor - ROUNDING))
    cores, memory_gb = _at_least(CORES, size.cores * factor), _at_least(MEMORY_GB, size.memory_gb * factor)
    return UserReservation(Size(cores, memory_gb), 1)


def _at_least(offered: tuple[int, ...], wanted: float) -> float:
    """The least of some rising numbers that is enough, or the last one."""
    return float(next((one for one in offered if one >= wanted - ROUNDING), offered[-1]))


def _swings(rng: np.random.Generator, duration_s: float) -> tuple[PhaseStep, ...]:
    """Load of a service over its life: a day's sine from 40% to 100% in 24 steps, and one spike to 150%."""
    hours = np.arange(HOURS)
    factors = 0.7 - 0.3 * np.cos(2 * np.pi * (hours + HOURS * rng.random()) / HOURS)
    spike = int(rng.integers(HOURS))
    factors[spike] = 1.5
    return tuple(
        PhaseStep(duration_s * float(hour) / HOURS, float(factor))
        for hour, factor in zip(hours, factors, strict=True)
    )
