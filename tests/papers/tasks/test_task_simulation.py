"""Tasks on units: contention, choices by code, conflicts, late binding."""

from __future__ import annotations

import random

import numpy as np
import pytest

from papers.worlds.tasks.kinds import drawn_kinds, kind_of
from papers.worlds.tasks.schedulers import POLICIES, by_code
from papers.worlds.tasks.simulation import TaskLoad, TaskOutcomes, simulate
from papers.worlds.tasks.units import UnitCluster

LIGHT = kind_of((5,) * 10)
CACHE_HEAVY = kind_of((90, *(5,) * 9))


def played(
    policy: str, *, load: float = 0.7, agents: int = 10, draws: int = 8, seed: int = 1
) -> TaskOutcomes:
    rng = np.random.default_rng(seed)
    units, kinds = UnitCluster([8] * 40, [0] * 40), drawn_kinds(8, 1, rng)
    count = int(load * len(units) * 1.0 / 0.1)
    tasks = TaskLoad(np.sort(rng.random(count)), np.full(count, 0.1), rng.integers(8, size=count))
    found = simulate(units, kinds, tasks, POLICIES[policy], draws=draws, agents=agents, seed=seed)
    assert len(units.free) == len(units), "every task gave its unit back"
    assert all(not any(sums) for sums in units.sums)
    return found


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("load", [0.4, 1.2])
def test_every_task_runs_once_and_none_before_it_came(policy: str, load: float) -> None:
    found = played(policy, load=load)
    assert (found.delay_s >= 0).all()
    assert (found.response_s >= 0.1 + found.delay_s - 1e-9).all(), "nothing is faster than alone"
    assert (found.performance <= 1).all()


def test_one_agent_never_conflicts_and_more_do() -> None:
    assert played("tarcil", load=0.3, agents=1).conflicts == 0
    assert played("tarcil", load=0.9, agents=10).conflicts > 0
    assert played("tarcil", load=0.9, draws=16).conflicts > played("tarcil", load=0.9, draws=2).conflicts


def test_runs_repeat_by_their_seed() -> None:
    one, other = played("tarcil"), played("tarcil")
    np.testing.assert_array_equal(one.response_s, other.response_s)


def test_pressure_is_the_mean_over_the_other_units() -> None:
    units = UnitCluster([1, 4], [0, 0])
    assert units.digits(0, LIGHT) == (0,) * 10
    units.take(1, CACHE_HEAVY)
    assert units.digits(1, CACHE_HEAVY)[0] == 30
    assert units.digits(1, LIGHT)[LIGHT.order.index(0)] == 30
    assert units.performance(1, CACHE_HEAVY, own=True) == 1.0
    assert units.performance(1, CACHE_HEAVY) < 0.9
    assert units.performances(CACHE_HEAVY)[1] == pytest.approx(units.performance(1, CACHE_HEAVY))
    units.release(1, CACHE_HEAVY)
    assert units.performance(1, CACHE_HEAVY) == 1.0


def test_the_code_takes_an_adequate_unit_before_every_other() -> None:
    units = UnitCluster([2, 2], [0, 0])
    units.take(0, CACHE_HEAVY)
    assert {by_code(units, CACHE_HEAVY, 8, random.Random(n)) for n in range(20)} <= {2, 3}
    assert {by_code(units, LIGHT, 8, random.Random(n)) for n in range(20)} == {1}, "the tightest fit"
