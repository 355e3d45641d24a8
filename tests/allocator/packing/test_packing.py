"""Packing by use: drains, the dial, the margin, and requests."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from kwiken.allocator.packing.dial import weight_of
from kwiken.allocator.packing.drains import after, drain_steps, straightened
from kwiken.allocator.packing.goals import use_goal
from kwiken.allocator.packing.margin import chance_above, learned_factor, levelled, sums_of
from kwiken.allocator.packing.repacking import RepackSettings, repack
from kwiken.allocator.packing.tasks.packed_cluster import plain_cluster
from kwiken.allocator.packing.tasks.usage import UsageSeries, nearest_rank, use_of
from kwiken.base.errors import InputError
from kwiken.model.nodes.nodes import Cluster, Node, NodeClass
from tests.support.allocation.packing.clusters import drawn_cluster


def test_nearest_rank_of_a_week_of_minutes_is_the_9980th() -> None:
    week = np.random.default_rng(0).permutation(np.arange(1.0, 10_081.0))[None, :]
    assert nearest_rank(week, 99)[0] == 9980
    assert nearest_rank(week, 100)[0] == 10_080
    assert nearest_rank(np.array([[np.nan, 3.0, 1.0, 2.0]]), 100)[0] == 3


def test_two_hosts_with_two_tasks_end_on_one_after_two_moves() -> None:
    cluster = Cluster((NodeClass(name="a", cores=4, memory_gb=8),), (Node("a", "a"), Node("b", "a")))
    names = ("a1", "a2", "b1", "b2")
    packed = plain_cluster(cluster, names, names, np.ones(4) * 0.5, np.ones(4), np.array([0, 0, 1, 1]))
    found = repack(packed, None, RepackSettings(dial=0, spread=1.0))
    assert found.states[found.chosen].nodes == 1
    assert found.states[found.chosen].moves == 2


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), most=st.integers(0, 60))
def test_steps_keep_capacity_spread_and_the_most_moves(seed: int, most: int) -> None:
    packed, series = drawn_cluster(seed)
    found = repack(packed, series, RepackSettings(dial=0, max_moves=most))
    goal = found.goal
    start = sums_of(goal.hard, packed.node, len(packed.cluster.nodes))
    node = found.node
    load = sums_of(goal.hard, node, len(packed.cluster.nodes))
    assert np.all(load <= np.maximum(goal.capacity, start) + 1e-6)
    changed = int((node != packed.node).sum())
    assert changed <= most
    assert changed == sum(len(step.moves) for step in found.taken)
    assert {move.task for step in found.taken for move in step.moves} == set(
        np.flatnonzero(node != packed.node)
    )
    for owner in range(len(packed.tasks) // 2):
        pair = [2 * owner, 2 * owner + 1]
        if node[pair[0]] == node[pair[1]]:  # no two replicas are brought together
            assert packed.node[pair[0]] == packed.node[pair[1]] == node[pair[0]]
    occupied = packed.occupied(node)
    assert all(not occupied[step.freed] for step in found.taken if step.freed is not None)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_a_higher_dial_never_takes_fewer_nodes_nor_more_risk(seed: int) -> None:
    packed, series = drawn_cluster(seed)
    found = repack(packed, series, RepackSettings())
    chosen = [found.states[found.at_dial(dial / 4)] for dial in range(41)]
    for lower, higher in pairwise(chosen):
        assert higher.cost >= lower.cost - 1e-9
        assert higher.risk <= lower.risk + 1e-9
    assert chosen[-1].risk <= found.states[0].risk + 1e-9


def test_smaller_caps_of_moves_never_free_more() -> None:
    packed, series = drawn_cluster(3)
    nodes = []
    for most in (0, 5, 10, 20, 40, 80):
        found = repack(packed, series, RepackSettings(dial=0, max_moves=most))
        nodes.append(min(state.nodes for state in found.states))
    assert nodes[0] == repack(packed, series, RepackSettings(max_moves=0)).states[0].nodes
    assert nodes == sorted(nodes, reverse=True)


def test_a_second_run_on_what_was_packed_moves_nothing() -> None:
    packed, series = drawn_cluster(5)
    first = repack(packed, series, RepackSettings(risk=0.001))
    from dataclasses import replace

    again = repack(replace(packed, node=first.node), series, RepackSettings(risk=0.001))
    assert again.states[again.chosen].moves == 0


def test_straightened_moves_lead_to_the_same_place() -> None:
    packed, series = drawn_cluster(8)
    use = use_of(series, packed.cores, packed.memory_gb)
    steps = list(drain_steps(packed, use_goal(packed, use, 1 / 3, 1.5), 1000))
    short = straightened(packed.node, steps)
    assert np.array_equal(after(packed.node, steps), after(packed.node, short))
    assert max(np.bincount([move.task for step in short for move in step.moves])) == 1


def test_the_margin_is_learned_from_how_use_differs_later() -> None:
    rng = np.random.default_rng(0)
    level = rng.uniform(0.05, 0.3, (400, 1))
    noise = rng.normal(0, 0.05, (400, 96))
    steady = UsageSeries(np.arange(96.0), np.clip(level + noise, 0, None), np.full((400, 96), np.nan))
    moved = steady.cores.copy()
    moved[:, 48:] += rng.normal(0, 0.12, (400, 1))
    shifting = UsageSeries(steady.times_s, np.clip(moved, 0, None), steady.memory_gb)
    ones = np.ones(400)
    (calm, told), (restless, _) = (
        learned_factor(one, use_of(one, ones, ones), 4.0) for one in (steady, shifting)
    )
    assert told
    assert calm == pytest.approx(1.0, abs=0.25)
    assert restless > calm + 0.3


def test_chance_is_that_of_a_normal_sum() -> None:
    found = chance_above(np.array([2.0, 3.0]), np.array([1.0, 1.0]), np.array([3.0, 3.0]), 1.0)
    assert found == pytest.approx([0.158655, 0.5], abs=1e-5)


def test_levels_differ_by_less_than_the_largest_task() -> None:
    rng = np.random.default_rng(1)
    mean, variance = rng.uniform(0.1, 0.5, 200), rng.uniform(0, 0.01, 200)
    sums = sums_of(mean, levelled(mean, variance, 10), 10)
    assert sums.max() - sums.min() < 0.5


def test_requests_add_up_within_every_node() -> None:
    packed, series = drawn_cluster(11)
    found = repack(packed, series, RepackSettings(dial=3))
    cores, memory_gb = found.requests
    nodes = len(packed.cluster.nodes)
    assert np.all(sums_of(cores, found.node, nodes) <= packed.cluster.cores + 1e-6)
    assert np.all(memory_gb >= nearest_rank(series.memory_gb) - 1e-12)


def test_memory_is_never_below_what_was_seen() -> None:
    series = UsageSeries(np.arange(20.0), np.full((1, 20), 0.1), np.r_[np.full(19, 1.0), 3.0][None, :])
    assert use_of(series, np.ones(1), np.ones(1)).memory_gb[0] == pytest.approx(3.15)


def test_dials_outside_are_refused() -> None:
    assert weight_of(0) == 0
    assert math.isinf(weight_of(10))
    for dial in (math.nan, -0.1, 10.1):
        with pytest.raises(InputError, match="dial: must be from 0 to 10"):
            weight_of(dial)


@pytest.mark.slow
def test_400_moves_among_18000_nodes() -> None:
    rng = np.random.default_rng(2)
    nodes, tasks = 18_000, 37_000
    cluster = Cluster(
        (NodeClass(name="a", cores=16, memory_gb=64),), tuple(Node(f"n{at}", "a") for at in range(nodes))
    )
    names = tuple(f"t{at}" for at in range(tasks))
    owners = tuple(f"o{at // 30}" for at in range(tasks))
    packed = plain_cluster(
        cluster, names, owners, np.full(tasks, 4.0), np.full(tasks, 8.0), rng.integers(0, nodes, tasks)
    )
    cores = rng.uniform(0.5, 2, (tasks, 1)) * rng.lognormal(0, 0.3, (tasks, 96))
    series = UsageSeries(np.arange(96, dtype=np.float64) * 900, cores, np.full((tasks, 96), 4.0))
    found = repack(packed, series, RepackSettings(dial=0))
    assert 0 < found.states[-1].moves <= 400
    assert found.states[-1].nodes <= found.states[0].nodes - 300


@pytest.mark.parametrize(
    ("changes", "pattern"),
    [
        ({"max_moves": -1}, "moves: must be 0 or more, not -1"),
        ({"settled_states": -1}, "settled states: must be 0 or more, not -1"),
        ({"spread": 0.0}, "spread: must be above 0 and at most 1, not 0"),
        ({"spread": 1.1}, "spread: must be above 0 and at most 1, not 1.1"),
    ],
)
def test_settings_outside_their_ranges_are_refused(changes: dict[str, Any], pattern: str) -> None:
    with pytest.raises(InputError, match=pattern):
        RepackSettings(**changes)
