"""Effects of one move more or less at each stage, and the check of whole services."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kwiken.allocator.capacity.marginals import marginals, slowest_stage
from kwiken.allocator.capacity.search import Search
from kwiken.allocator.capacity.supply import Sizes, StageNeed, StageSize, Supply
from kwiken.allocator.capacity.trials import LEVELS, StageTrials
from kwiken.allocator.capacity.verification import verify
from kwiken.model.nodes.document import nodes_from_toml
from kwiken.model.profile.cost_models import costs
from kwiken.tail.queueing.load.decompose import load_model
from tests.allocator.capacity.test_supply import NODES
from tests.support.models.stragglers import straggling_profile

PROFILE = straggling_profile(requests=1000)
MODEL = load_model(PROFILE)
NAMES = tuple(MODEL.stages)
TOP = len(LEVELS) - 1


def search_of(*, nodes: str | None = None, max_reissue: float = 0.1, most: int = 8) -> Search:
    cluster = None if nodes is None else nodes_from_toml(nodes, where="nodes.toml")
    supply = Supply(NAMES, {name: StageNeed(max_replicas=most) for name in NAMES}, cluster)
    return Search(StageTrials(MODEL, 100.0, supply, seed=0, requests=1000), costs(PROFILE), max_reissue)


@pytest.fixture(scope="module")
def search() -> Search:
    return search_of()


MORE, LESS = "replica more", "replica less"


@pytest.mark.parametrize(
    ("size", "moves"),
    [
        (StageSize(3, 0, 2), {MORE: (4, 2), LESS: (2, 2), "more copies": (3, 3), "fewer copies": (3, 1)}),
        (StageSize(2, 0, 0), {MORE: (3, 0), LESS: (1, 0), "more copies": (2, 1)}),
        (StageSize(2, 0, 1), {MORE: (3, 1), LESS: (1, 1), "more copies": (2, 2), "fewer copies": (2, 0)}),
        (StageSize(1, 0, 0), {MORE: (2, 0)}),
        (StageSize(3, 0, TOP), {MORE: (4, TOP), LESS: (2, TOP), "fewer copies": (3, TOP - 1)}),
        (
            StageSize(3, 0, TOP - 1),
            {MORE: (4, TOP - 1), LESS: (2, TOP - 1), "more copies": (3, TOP), "fewer copies": (3, TOP - 2)},
        ),
    ],
)
def test_each_move_is_told_with_its_effect(
    search: Search, size: StageSize, moves: dict[str, tuple[int, int]]
) -> None:
    other = StageSize(3)
    for stage in range(2):
        sizes: Sizes = (size, other) if stage == 0 else (other, size)
        found = [one for one in marginals(search, sizes) if one.stage == NAMES[stage]]
        assert [one.move for one in found] == [*moves]
        for one in found:
            replicas, level = moves[one.move]
            changed = list(sizes)
            changed[stage] = StageSize(replicas, 0, level)
            p99_ms = search.p99_ms(tuple(changed))
            assert one.p99_change_ms == p99_ms - search.p99_ms(sizes)
            assert one.cost_change == replicas - size.replicas
            assert one.forbidden == ("reissues" if search.spent(tuple(changed)) > 0.1 + 1e-6 else "")


def test_what_forbids_a_move_is_told() -> None:
    found = marginals(search_of(max_reissue=0.0, most=3), (StageSize(3), StageSize(2)))
    told = {(one.stage, one.move): one.forbidden for one in found}
    assert told["fetch", "replica more"] == "nodes"
    assert told["rank", "replica more"] == ""
    assert told["rank", "more copies"] == "reissues"


def test_faster_nodes_need_room_for_one_replica() -> None:
    one_core = NODES.replace("count = 2", "count = 1").replace("cores = 4", "cores = 1")
    small_only = one_core.replace("cores = 1\n", "cores = 0.5\n")
    for nodes, expected in ((NODES, 2), (one_core, 2), (small_only, 0)):
        search = search_of(nodes=nodes)
        place = search.supply.classes.index("small")
        found = marginals(search, (StageSize(2, place), StageSize(2, place)))
        assert sum(one.move == "faster nodes" for one in found) == expected


def test_the_slowest_requests_are_a_hundredth() -> None:
    search = search_of()
    sizes = (StageSize(3), StageSize(3))
    name, excess_ms = slowest_stage(search, sizes)
    assert (name, excess_ms) == slowest_stage(search, sizes, 0.01)
    by_stage, whole = search.stage_latencies(sizes), search.latencies(sizes)
    slow = whole >= np.quantile(whole, 0.99)
    excess = {  # a chain: each stage is on the path of every request
        stage: float(latency[slow].mean() - np.median(latency))
        for stage, latency in zip(NAMES, by_stage, strict=True)
    }
    assert name == max(excess, key=lambda stage: excess[stage])
    assert excess_ms == pytest.approx(excess[name])


def test_a_check_counts_requests_by_a_bound_on_calls() -> None:
    trials = search_of().trials
    checked = verify(trials, (StageSize(3), StageSize(3)), seed=1)
    assert checked is not None
    assert len(checked.latency_ms) == 40_000
    assert checked.p99_ms == pytest.approx(checked.ladder.p99_ms, rel=1e-3)


def test_chances_are_shares_of_the_same_resamples() -> None:
    checked = verify(search_of().trials, (StageSize(3), StageSize(3)), seed=1)
    assert checked is not None
    resampled = checked.percentiles()
    assert resampled.tolist() == checked.percentiles(seed=0).tolist()
    assert resampled.tolist() != checked.percentiles(seed=1).tolist()
    p99_ms = resampled[:, 3]
    assert p99_ms.mean() == pytest.approx(checked.p99_ms, rel=0.1)
    for target_ms in (*np.quantile(p99_ms, [0.1, 0.5, 0.9]), float(p99_ms[0])):
        assert checked.probability(target_ms) == (p99_ms <= target_ms).mean()
        assert (
            checked.probability(target_ms, seed=1) == (checked.percentiles(seed=1)[:, 3] <= target_ms).mean()
        )
    assert checked.probability(0.0) == 0.0
    assert checked.probability(1e9) == 1.0


def test_a_check_without_copies_is_that_of_the_sizes_without_them() -> None:
    trials = search_of().trials
    sizes = (StageSize(3, 0, 5), StageSize(3, 0, 2))
    plain = tuple(replace(size, level=0) for size in sizes)
    left_out, none, copied = (
        verify(trials, sizes, seed=2, copies=False),
        verify(trials, plain, seed=2),
        verify(trials, sizes, seed=2),
    )
    assert left_out is not None
    assert none is not None
    assert copied is not None
    assert left_out.latency_ms.tolist() == none.latency_ms.tolist()
    assert left_out.copies == {"fetch": 0.0, "rank": 0.0}
    assert copied.copies["fetch"] == pytest.approx(0.05, rel=0.5)
    assert copied.copies["rank"] == pytest.approx(0.01, rel=0.5)
    assert copied.p99_ms < none.p99_ms
    for name, work_ms in (("fetch", 4.0), ("rank", 6.0)):
        assert none.utilisation[name] == pytest.approx(work_ms * 0.1 / 3, rel=0.03)
