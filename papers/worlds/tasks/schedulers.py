"""Schedulers of tasks: how a unit is chosen, and what a decision takes.

A decision has two times (specification of Tarcil, section 3): the delay that the task sees, mostly messages,
and the occupancy of its agent, which works on many decisions at once.
"""

# ruff: noqa: ARG001 - all policies are asked alike, and some need less

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import numpy as np

from papers.worlds.tasks.kinds import TaskKind
from papers.worlds.tasks.units import UnitCluster

NEAR_BEST: Final = 0.95  # share of the best platform's speed from which on a platform is as good


@dataclass(frozen=True)
class DecisionTimes:
    """Times of one decision, seconds.

    Attributes:
        delay_s: delay that the task sees, without queues.
        occupancy_s: time of its agent.
        retry_s: delay of one more draw after a conflict.
        most_s: longest delay with the queue, after which the task is placed all the same.
    """

    delay_s: float
    occupancy_s: float
    retry_s: float = 0.002
    most_s: float = float("inf")


Choose = Callable[[UnitCluster, TaskKind, int, random.Random], int | None]


@dataclass(frozen=True)
class Policy:
    """Way to schedule.

    Attributes:
        choose: function that chooses a free unit from a sample; None if the sample holds none.
        times: times of a decision by sample size and number of servers.
        probes: whether a task without a free unit waits at the units that were drawn (late binding), and not
            in one line.
    """

    name: str
    choose: Choose
    times: Callable[[int, int], DecisionTimes]
    probes: bool = False


def by_code(units: UnitCluster, kind: TaskKind, draws: int, rng: random.Random) -> int | None:
    """Best of a sample of the free units by the quality code, on the best platforms of the sample."""
    drawn = _free(units, draws, rng)
    if not drawn:
        return None
    server_of, platforms, speed = units.server_of, units.platforms, kind.platform
    servers = [server_of[unit] for unit in drawn]
    fastest = max([speed[platforms[server]] for server in servers]) if len(speed) > 1 else 0.0
    least = NEAR_BEST * fastest
    adequate: tuple[int, ...] | None = None
    worst: tuple[int, ...] | None = None
    best, second = drawn[0], drawn[0]
    tolerated, digits_of = kind.tolerated, units.digits
    for unit, server in zip(drawn, servers, strict=True):
        if speed[platforms[server]] < least:
            continue
        digits = digits_of(server, kind)
        if digits <= tolerated:
            if adequate is None or digits > adequate:
                best, adequate = unit, digits
        elif worst is None or digits < worst:
            second, worst = unit, digits
    return best if adequate is not None else second


def by_prediction(units: UnitCluster, kind: TaskKind, draws: int, rng: random.Random) -> int | None:
    """Best of a sample of the free units by predicted performance."""
    drawn = _free(units, draws, rng)
    return max(drawn, key=lambda unit: units.predicted_on(units.server_of[unit], kind), default=None)


def by_chance(units: UnitCluster, kind: TaskKind, draws: int, rng: random.Random) -> int | None:
    """First free unit of a few that are drawn among all."""
    for _ in range(draws):
        unit = int(rng.random() * len(units))
        if units.is_free(unit):
            return unit
    return None


def by_scan(units: UnitCluster, kind: TaskKind, draws: int, rng: random.Random) -> int | None:
    """Best of all free units by predicted performance."""
    return _best_of_all(units, kind, true=False)


def by_truth(units: UnitCluster, kind: TaskKind, draws: int, rng: random.Random) -> int | None:
    """Best of all free units by true performance, which no scheduler knows."""
    return _best_of_all(units, kind, true=True)


def _best_of_all(units: UnitCluster, kind: TaskKind, *, true: bool) -> int | None:
    if not units.free:
        return None
    found = units.performances(kind) if true else units.predicted(kind)
    server = int(np.where(units.has_free(), found, -1.0).argmax())
    first = units.first_of[server]
    return next(unit for unit in range(first, first + units.units[server]) if units.is_free(unit))


def _free(units: UnitCluster, draws: int, rng: random.Random) -> list[int]:
    """Free units drawn at random; distinct enough: one that is drawn twice counts once."""
    free = units.free
    count = len(free)
    if count <= draws:
        return free[:]
    draw = rng.random
    return [free[int(draw() * count)] for _ in range(draws)]


def _tarcil(draws: int, servers: int) -> DecisionTimes:
    return DecisionTimes(0.008 + 0.0006 * draws, 0.0001 + 0.00003 * draws)


def _sparrow(draws: int, servers: int) -> DecisionTimes:
    return DecisionTimes(0.008 + 0.0006 * 2, 0.0001 + 0.00003 * 2)


def _centralised(draws: int, servers: int) -> DecisionTimes:
    one = min(2.0, 0.0025 * servers)
    return DecisionTimes(one, one, most_s=2.0)


def _ideal(draws: int, servers: int) -> DecisionTimes:
    return DecisionTimes(0.0, 0.0, 0.0)


POLICIES: Final = MappingProxyType(
    {
        "tarcil": Policy("tarcil", by_code, _tarcil),
        "tarcil by prediction": Policy("tarcil by prediction", by_prediction, _tarcil),
        "sampling": Policy("sampling", by_chance, _sparrow, probes=True),
        "centralised": Policy("centralised", by_scan, _centralised),
        "ideal": Policy("ideal", by_truth, _ideal),
    }
)
