"""Use that is to come, and moves and swaps that lower the chance of too few cores."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.special import ndtr

from kwiken.allocator.packing.drains import after, straightened
from kwiken.allocator.packing.goals import PackingGoal, use_goal
from kwiken.allocator.packing.later_moments import LaterUse, later_use
from kwiken.allocator.packing.margin import sums_of
from kwiken.allocator.packing.repacking import RepackSettings, repack
from kwiken.allocator.packing.swaps import settled
from kwiken.allocator.packing.tasks.packed_cluster import PackedCluster, plain_cluster
from kwiken.allocator.packing.tasks.usage import UsageSeries, use_of
from kwiken.base.arrays import Floats, Ints
from kwiken.model.nodes.nodes import Cluster, Node, NodeClass
from tests.support.allocation.packing.clusters import drawn_cluster


def _later(seed: int) -> tuple[PackedCluster, PackingGoal, LaterUse]:
    packed, series = drawn_cluster(seed)
    use = use_of(series, packed.cores, packed.memory_gb)
    found = later_use(series, use, np.array([4.0]))
    assert found is not None
    return packed, use_goal(packed, use, 0.5, found), found


@pytest.mark.parametrize("deviation", [0.2, 0.4, 0.8])
def test_the_chance_of_normal_sums_is_that_of_the_normal_distribution(deviation: float) -> None:
    slopes = np.geomspace(0.5, 160.0, 28)
    later = LaterUse(slopes, np.zeros((0, len(slopes))))
    means = np.array([2.0, 2.5, 3.0, 3.4])
    told = later.chance(means[:, None] * slopes + deviation**2 * slopes**2 / 2, np.full(4, 4.0))
    exact = ndtr((means - 4.0) / deviation)
    kept = exact > 1e-12
    assert told[kept] == pytest.approx(exact[kept], rel=1e-6)


def test_the_chance_is_near_to_the_share_of_drawn_sums() -> None:
    rng = np.random.default_rng(3)
    draws = rng.gamma(0.8, 0.15, (20, 200_000))  # twenty skewed tasks
    slopes = np.geomspace(0.5, 160.0, 28)
    below = slopes[slopes < 1 / 0.15]
    logs = np.where(slopes < 1 / 0.15, -0.8 * np.log1p(-np.minimum(slopes, below[-1]) * 0.15), 1e3)
    told = LaterUse(slopes, logs[None]).chance(20 * logs[None], np.array([4.0]))[0]
    assert told == pytest.approx((draws.sum(axis=0) > 4.0).mean(), rel=0.15)


def test_nodes_beyond_their_cores_have_a_high_chance() -> None:
    slopes = np.geomspace(0.5, 160.0, 28)
    told = LaterUse(slopes, slopes[None]).chance(6.0 * slopes[None], np.array([4.0]))
    assert 0.3 < told[0] <= 1.0


def test_nothing_is_told_of_few_samples_or_few_tasks() -> None:
    packed, series = drawn_cluster(1)
    use = use_of(series, packed.cores, packed.memory_gb)
    assert later_use(series.part(slice(0, 47)), use, np.array([4.0])) is None
    few = UsageSeries(series.times_s, series.cores[:47], series.memory_gb[:47])
    assert later_use(few, use_of(few, np.ones(47), np.ones(47)), np.array([4.0])) is None


def test_a_task_without_samples_uses_what_it_requests() -> None:
    packed, series = drawn_cluster(2)
    series.cores[5] = np.nan
    use = use_of(series, packed.cores, packed.memory_gb)
    found = later_use(series, use, np.array([4.0]))
    assert found is not None
    assert found.logs[5] == pytest.approx(packed.cores[5] * found.slopes)


def test_a_calm_task_may_rise_as_tasks_of_like_spread_did() -> None:
    rng = np.random.default_rng(7)
    cores = 0.5 + 0.01 * rng.standard_normal((200, 96))
    cores[::10, 90:] += 0.4  # a tenth of the tasks rise at the end
    series = UsageSeries(np.arange(96, dtype=np.float64) * 300, cores, np.full(cores.shape, np.nan))
    found = later_use(series, use_of(series, np.ones(200), np.ones(200)), np.array([4.0]))
    assert found is not None
    steep = int(np.argmin(np.abs(found.slopes - 40.0)))
    own = np.log(np.mean(np.exp(cores[1] * found.slopes[steep])))
    assert found.logs[1, steep] > own + 0.5


def test_no_task_is_told_to_use_more_than_like_tasks_were_seen_to_use() -> None:
    rng = np.random.default_rng(11)
    cores = np.clip(0.5 + 0.4 * rng.standard_normal((120, 96)), 0.0, 1.0)
    series = UsageSeries(np.arange(96, dtype=np.float64) * 300, cores, np.full(cores.shape, np.nan))
    found = later_use(series, use_of(series, np.ones(120), np.ones(120)), np.array([4.0]))
    assert found is not None
    assert np.all(found.logs <= found.slopes * cores.max() + 1e-9)
    three, seven = (found.logs[:count].sum(axis=0)[None] for count in (3, 7))
    room = np.array([4.0])
    assert found.chance(three, room)[0] < 1e-12  # three tasks of at most one core each
    assert 0.2 < found.chance(seven, room)[0] / (cores[:7].sum(axis=0) > 4.0).mean() < 5.0


def test_the_chance_is_the_share_of_time_that_comes() -> None:
    rng = np.random.default_rng(5)
    level, spread = rng.uniform(0.05, 0.5, (400, 1)), rng.uniform(0.02, 0.3, (400, 1))
    cores = np.clip(level + spread * rng.standard_t(4, (400, 288)), 0.0, 1.0)
    series = UsageSeries(np.arange(288, dtype=np.float64) * 300, cores, np.full(cores.shape, np.nan))
    seen, later = series.part(slice(0, 144)), cores[:, 144:]
    use = use_of(seen, np.ones(400), np.ones(400))
    found = later_use(seen, use, np.array([4.0]))
    assert found is not None
    for nodes in (34, 38):
        node = rng.permutation(400) % nodes
        told = found.chance(sums_of(found.logs, node, nodes), np.full(nodes, 4.0)).mean()
        measured = (sums_of(later, node, nodes) > 4.0).mean()
        assert 0.7 < told / measured < 1.4


@pytest.mark.parametrize("sizes", [[1.0] * 60 + [64.0] * 8, [1.0] * 12 + [64.0] * 16])
def test_the_chance_is_the_share_of_time_on_nodes_far_from_the_usual_size(sizes: list[float]) -> None:
    rng = np.random.default_rng(19)
    cores = np.array(sizes)
    count = int(4.6 * cores.sum())
    use = rng.uniform(0.02, 0.2, (count, 1)) * rng.gamma(4.0, 0.4, (count, 480))
    series = UsageSeries(np.arange(480, dtype=np.float64) * 300, use, np.full(use.shape, np.nan))
    seen, later = series.part(slice(0, 96)), use[:, 96:]
    found = later_use(seen, use_of(seen, np.ones(count), np.ones(count)), cores)
    assert found is not None
    counts = np.where(cores == 1.0, 4, 345)  # tasks of each node
    node = np.repeat(np.arange(len(cores)), counts)[:count]
    at = rng.permutation(count)[: len(node)]
    told = found.chance(sums_of(found.logs[at], node, len(cores)), cores)
    measured = (sums_of(later[at], node, len(cores)) > cores[:, None]).mean(axis=1)
    for size in (1.0, 64.0):
        own = cores == size
        assert 0.4 < told[own].mean() / measured[own].mean() < 3.0, (size, told[own], measured[own])


def test_what_is_told_of_a_task_does_not_depend_on_how_large_a_large_node_is() -> None:
    rng = np.random.default_rng(23)
    cores = rng.uniform(0.02, 0.2, (200, 1)) * rng.gamma(4.0, 0.25, (200, 96))
    series = UsageSeries(np.arange(96, dtype=np.float64) * 300, cores, np.full(cores.shape, np.nan))
    use = use_of(series, np.ones(200), np.ones(200))
    large, larger = (later_use(series, use, np.array([size])) for size in (16.0, 256.0))
    assert large is not None
    assert larger is not None
    told = np.interp(larger.slopes, large.slopes, large.logs[0])
    within = (larger.slopes >= large.slopes[0]) & (larger.slopes <= large.slopes[-1])
    assert larger.logs[0, within] == pytest.approx(told[within], rel=0.02)


def test_slopes_reach_as_far_on_every_node_as_on_a_usual_one() -> None:
    packed, series = drawn_cluster(6)
    use = use_of(series, packed.cores, packed.memory_gb)
    alike, unequal, extreme = (
        later_use(series, use, np.array(sizes)) for sizes in ([4.0], [0.5, 4.0, 96.0], [1e-6, 4.0, 1e9])
    )
    assert alike is not None
    assert unequal is not None
    assert extreme is not None
    assert np.array_equal(alike.slopes, np.geomspace(2.0, 640.0, 28) / 4.0)
    assert unequal.slopes[0] <= 2.0 / 96.0
    assert unequal.slopes[-1] >= 640.0 / 0.5
    assert np.all(np.diff(unequal.slopes) > 0)
    assert len(extreme.slopes) == 28 + 2 * 44
    same = np.isin(unequal.slopes, alike.slopes)
    assert same.sum() == 28
    assert np.array_equal(unequal.logs[:, same], alike.logs)


@pytest.mark.parametrize("samples", [48, 49, 300, 2_017])
def test_logarithms_are_finite_and_rise_with_the_slope(samples: int) -> None:
    rng = np.random.default_rng(samples)
    cores = rng.uniform(0.0, 1.0, (60, 1)) * rng.lognormal(0, 1.0, (60, samples))
    cores[0], cores[1] = 0.0, 3.0
    series = UsageSeries(np.arange(samples, dtype=np.float64) * 60, cores, np.full(cores.shape, np.nan))
    found = later_use(series, use_of(series, np.ones(60), np.ones(60)), np.array([4.0]))
    assert found is not None
    assert np.isfinite(found.logs).all()
    assert np.all(np.diff(found.logs[1]) > 0)
    alone = found.chance(found.logs, np.full(60, 4.0))
    assert np.all((alone >= 0) & (alone <= 1))


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_settling_keeps_constraints_and_lowers_the_chance(seed: int) -> None:
    packed, goal, later = _later(seed)
    rng = np.random.default_rng(seed)
    nodes = len(packed.cluster.nodes)
    to = rng.random(nodes) < 0.7
    free = to[packed.node] & (rng.random(len(packed.tasks)) < 0.6)
    packed = replace(
        packed,
        kinds=rng.integers(0, 2, len(packed.tasks)),
        allowed=np.stack([np.ones(nodes, dtype=np.bool_), rng.random(nodes) < 0.8]),
    )
    node = settled(packed, goal, packed.node, free, to)
    assert np.array_equal(node, settled(packed, goal, packed.node, free, to))
    moved = node != packed.node
    assert not np.any(moved & ~free)
    assert np.all(to[node[moved]])
    assert np.all(packed.allowed[packed.kinds[moved], node[moved]])
    was, now = (sums_of(goal.hard, at, nodes) for at in (packed.node, node))
    assert np.all(now <= np.maximum(goal.capacity, was) + 1e-6)
    cores = packed.cluster.cores

    def chances(at: Ints) -> Floats:
        return later.chance(sums_of(later.logs, at, nodes), cores)

    def penalties(at: Ints) -> Floats:
        return goal.penalty(sums_of(goal.soft[0], at, nodes), np.arange(nodes))

    assert penalties(node) == pytest.approx(chances(node), abs=1e-9)
    assert penalties(node).sum() <= penalties(packed.node).sum() + 1e-9
    assert penalties(node).max() <= penalties(packed.node).max() + 1e-9
    pairs = packed.owner_numbers
    for task in np.flatnonzero(moved):
        assert np.sum((node == node[task]) & (pairs == pairs[task])) == 1


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_taken_steps_move_what_the_drains_moved_at_no_more_risk(seed: int) -> None:
    packed, series = drawn_cluster(seed)
    found = repack(packed, series, RepackSettings(dial=3.0))
    drained = straightened(packed.node, found.steps[: found.chosen])
    assert [[move.task for move in step.moves] for step in found.taken] == [
        [move.task for move in step.moves] for step in drained
    ]
    chosen = found.states[found.chosen]
    assert found.outcome.nodes == chosen.nodes
    assert found.outcome.moves == chosen.moves
    assert found.outcome.risk <= chosen.risk + 1e-9
    assert np.array_equal(found.node, after(packed.node, found.taken))


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_a_higher_dial_takes_no_fewer_nodes_and_no_more_risk(seed: int) -> None:
    packed, series = drawn_cluster(seed)
    found = [repack(packed, series, RepackSettings(dial=dial)) for dial in (0.0, 3.0, 5.0, 7.0, 10.0)]
    chosen = [one.states[one.chosen] for one in found]
    assert [one.nodes for one in chosen] == sorted(one.nodes for one in chosen)
    assert [one.risk for one in chosen] == sorted((one.risk for one in chosen), reverse=True)


def test_settling_before_the_choice_frees_more_nodes_within_a_wish() -> None:
    rng = np.random.default_rng(17)
    nodes, tasks = 60, 240
    level, spread = rng.uniform(0.05, 0.6, (tasks, 1)), rng.choice([0.02, 0.3], (tasks, 1))
    cores = np.clip(level + spread * rng.standard_normal((tasks, 192)), 0.0, 1.0)
    series = UsageSeries(np.arange(192, dtype=np.float64) * 300, cores, np.full(cores.shape, 0.1))
    names = tuple(f"t{task}" for task in range(tasks))
    cluster = Cluster(
        (NodeClass(name="n", cores=4.0, memory_gb=64.0),), tuple(Node(f"n{at}", "n") for at in range(nodes))
    )
    packed = plain_cluster(
        cluster, names, names, np.ones(tasks), np.full(tasks, 0.1), np.arange(tasks) % nodes
    )
    early, late = (
        repack(packed, series, RepackSettings(risk=0.001, settled_states=states)) for states in (40, 0)
    )
    assert early.outcome.share <= 0.001
    assert early.outcome.nodes < late.outcome.nodes


def test_nothing_is_settled_where_nothing_may_move() -> None:
    packed, goal, _ = _later(4)
    none = np.zeros(len(packed.tasks), dtype=np.bool_)
    assert settled(packed, goal, packed.node, none, np.ones(20, dtype=np.bool_)) is packed.node
