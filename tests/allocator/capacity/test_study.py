"""Sizing of whole services: documents that belong together, targets met or named, comparisons."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from kwiken.allocator.capacity import (
    SizeOutcome,
    SizeSettings,
    SizeStudy,
    StageNeed,
    UnmetTargetError,
    study,
    study_size,
)
from kwiken.allocator.capacity.marginals import marginals, slowest_stage
from kwiken.allocator.capacity.outcomes import start_with_given
from kwiken.allocator.capacity.search import FoundSizes, Search
from kwiken.allocator.capacity.supply import Sizes, StageSize, Supply
from kwiken.allocator.capacity.trials import FIXED_LEVEL, StageTrials
from kwiken.allocator.placement import Placement, nodes_from_toml
from kwiken.base.errors import InputError
from kwiken.model.plan import Plan
from kwiken.model.profile import Profile, costs, part_of
from kwiken.tail.queueing.load import QueueSettings, load_model
from tests.allocator.capacity.test_supply import NODES
from tests.support.models.stragglers import straggling_profile

FEW = {"fetch": StageNeed(max_replicas=3), "rank": StageNeed(max_replicas=3)}
CREATED = "2026-01-01T00:00:00Z"


def settings(**changed: object) -> SizeSettings:
    return replace(SizeSettings(target_p99_ms=80.0, rate_per_s=150.0, created=CREATED), **changed)  # type: ignore[arg-type]


@dataclass(frozen=True)
class StageNode:
    name: str
    after: tuple[str, ...] = ()


class Recorded:
    """Latencies in place of those that a search has simulated: two stages side by side."""

    def __init__(self, **latency_ms: np.ndarray) -> None:
        stages = [StageNode(name) for name in latency_ms]
        profile = SimpleNamespace(stages=stages)
        self.trials = SimpleNamespace(names=tuple(latency_ms), model=SimpleNamespace(profile=profile))
        self._latency_ms = latency_ms

    def stage_latencies(self, sizes: Sizes) -> list[np.ndarray]:
        del sizes
        return list(self._latency_ms.values())

    def latencies(self, sizes: Sizes) -> np.ndarray:
        return np.asarray(np.max(self.stage_latencies(sizes), axis=0))


def test_faster_nodes_are_the_next_faster_ones() -> None:
    text = (
        NODES
        + """
[[classes]]
name = "quick"
cores = 4
memory_gb = 8
speed = 2.0
cost_per_hour = 1.0

[[nodes]]
name = "quick"
class = "quick"
zone = "c"
count = 2
"""
    )
    profile = straggling_profile(seed=1)
    names = [stage.name for stage in profile.stages]
    supply = Supply(names, {}, nodes_from_toml(text, where="nodes.toml"))
    search = Search(
        StageTrials(load_model(profile), 60.0, supply, seed=0, requests=1000), costs(profile), 0.0
    )
    slow, next_faster = supply.classes.index("small"), supply.classes.index("large")
    sizes = tuple(StageSize(3, slow) for _ in names)
    found = [one for one in marginals(search, sizes) if one.move == "faster nodes"]
    assert len(found) == len(names)
    for stage, one in enumerate(found):
        more = 3 * (supply.price[stage, next_faster] - supply.price[stage, slow])
        assert one.cost_change == pytest.approx(more)


@pytest.mark.parametrize(("on_the_way_ms", "at_the_end_ms"), [(70.0, 50.0), (50.0, 70.0)])
def test_the_nearest_is_the_least_p99_that_was_verified(
    on_the_way_ms: float, at_the_end_ms: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    def outcome(p99_ms: float) -> SizeOutcome:
        return cast("SizeOutcome", SimpleNamespace(p99_ms=p99_ms, cost=3.0))

    monkeypatch.setattr(study, "checked", lambda *_, seed: outcome(at_the_end_ms))
    monkeypatch.setattr(study, "_bound", lambda *_: "nothing helps")
    search, least = (
        cast("Search", SimpleNamespace(trials=None)),
        cast("FoundSizes", SimpleNamespace(sizes=())),
    )
    error = study._unmet(search, least, outcome(on_the_way_ms), settings())
    assert error.nearest_ms == 50.0


def test_the_slowest_stage_is_one_that_slow_requests_wait_for() -> None:
    """What slows down beside a longer stage is waited for by nobody."""
    long, beside = np.full(200, 300.0), np.full(200, 10.0)
    long[:2], beside[:2] = 400.0, 390.0
    name, excess_ms = slowest_stage(cast("Search", Recorded(long=long, beside=beside)), ())
    assert name == "long"
    assert excess_ms == pytest.approx(100.0)


@pytest.fixture(scope="module")
def profile() -> Profile:
    return straggling_profile(requests=1000)


@pytest.fixture(scope="module")
def placed(profile: Profile) -> SizeStudy:
    cluster = nodes_from_toml(NODES, where="nodes.toml")
    return study_size(profile, settings(cluster=cluster, target_p99_ms=60.0))


def test_the_target_is_met_in_the_simulator(placed: SizeStudy) -> None:
    assert placed.outcome.p99_ms <= 60.0
    assert placed.plain.p99_ms > placed.outcome.p99_ms


def test_plan_and_placement_belong_together(placed: SizeStudy, profile: Profile) -> None:
    plan = Plan.from_json(placed.plan.to_json())
    assert placed.placement is not None
    placement = Placement.from_json(placed.placement.to_json(), where="placement.json")
    assert plan.profile == profile.digest
    assert plan.expected is not None
    assert plan.expected.after.p99_ms == pytest.approx(placed.outcome.p99_ms)
    assert plan.expected.before.p99_ms == pytest.approx(placed.plain.p99_ms)
    copies = sum(
        plan.cost.stages[name] * stage.reissue.fraction
        for name, stage in plan.stages.items()
        if stage.reissue is not None
    )
    assert 0 < copies == pytest.approx(plan.budgets.reissue)
    assert sum(one.cost_per_hour for one in placement.workloads) == pytest.approx(placed.outcome.cost)
    for workload, size in zip(placement.workloads, placed.outcome.sizes, strict=True):
        assert (workload.service, workload.stage) == (profile.service, workload.name)
        assert len(workload.replicas) == size.replicas
        classes = {node.name: node.node_class for node in placement.nodes}
        assert {classes[one.node] for one in workload.replicas} == {("large", "small")[size.node_class]}


def test_the_same_seed_gives_the_same_sizes(profile: Profile) -> None:
    first, second = (study_size(profile, settings(target_p99_ms=90.0)) for _ in range(2))
    assert first.outcome.sizes == second.outcome.sizes
    assert first.plan == second.plan


def test_the_frontier_falls_and_ends_at_twice_the_cost(profile: Profile) -> None:
    study = study_size(profile, settings(target_p99_ms=90.0, frontier=True))
    least_ms = {}
    for with_copies in (True, False):
        points = [point for point in study.frontier if point.with_copies is with_copies]
        assert len(points) > 2
        costs = [point.cost for point in points]
        latencies = [point.p99_ms for point in points]
        assert all(less < more for less, more in pairwise(costs))
        assert all(slow > fast for slow, fast in pairwise(latencies))
        assert costs[-1] <= 2 * study.outcome.cost
        least_ms[with_copies] = latencies[-1]
        for point in points:
            assert point.p99_ms == study.search.p99_ms(point.sizes)
            assert point.cost == study.search.supply.cost(point.sizes)
            assert with_copies or not any(size.level for size in point.sizes)
    assert least_ms[True] < least_ms[False]
    answer_ms = study.search.p99_ms(study.outcome.sizes)
    assert any(
        point.with_copies and point.cost <= study.outcome.cost and point.p99_ms <= answer_ms
        for point in study.frontier
    )


def test_a_target_out_of_reach_names_the_nearest_and_what_bounds_it(profile: Profile) -> None:
    with pytest.raises(
        UnmetTargetError, match=r"a p99 of 1 ms cannot be met at 150 .*nearest is .* ms"
    ) as told:
        study_size(profile, settings(target_p99_ms=1.0, needs=FEW))
    assert told.value.nearest_ms > 1.0
    assert "'fetch'" in str(told.value) or "'rank'" in str(told.value)


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"target_p99_ms": float("nan")}, "target_p99_ms: must be a finite number above 0"),
        ({"rate_per_s": -1.0}, "rate_per_s: must be a finite number above 0"),
        ({"rate_per_s": 1e300}, "rate: must be at most 1e\\+09 requests a second, not 1e\\+300"),
        ({"max_reissue": 2.0}, "max_reissue: must be a share"),
    ],
)
def test_settings_out_of_range_are_refused(changed: dict[str, float], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        settings(**changed)


def test_a_stage_that_is_not_there_is_named(profile: Profile) -> None:
    with pytest.raises(InputError, match=r"stage 'x' is not in the profile; it has: fetch, rank"):
        study_size(profile, settings(needs={"x": StageNeed()}))
    with pytest.raises(InputError, match="stage 'x' is not in the profile"):
        study_size(profile, settings(queues=QueueSettings(replicas={"x": 2})))


def test_a_share_of_time_that_is_more_than_the_latency_is_refused(profile: Profile) -> None:
    stages = tuple(replace(stage, busy_ms=None) for stage in profile.stages)
    sample = QueueSettings(replicas={"fetch": 2}, utilisation={"fetch": 0.5}, rate_per_s=0.01)
    with pytest.raises(InputError, match=r"queues: stage 'fetch': 0\.5 .* ms of work a call, and calls"):
        study_size(replace(profile, stages=stages), settings(queues=sample))


def test_more_and_fewer_copies_are_told_for_policies_that_were_given_too(profile: Profile) -> None:
    trials = StageTrials(load_model(profile), 150.0, Supply(["fetch", "rank"], {}), seed=0)
    search = Search(trials, costs(profile), 0.2)
    given = start_with_given(search)
    assert given is not None
    sizes = tuple(replace(size, replicas=4, level=FIXED_LEVEL) for size in given)
    assert any(trials.given_level(stage) > 0 for stage in range(2))
    told = [(one.stage, one.move) for one in marginals(search, sizes)]
    for stage, name in enumerate(trials.names):
        if trials.given_level(stage) > 0:
            assert (name, "fewer copies") in told


def test_a_profile_without_busy_times_cannot_be_sized(profile: Profile) -> None:
    stages = tuple(replace(stage, busy_ms=None) for stage in profile.stages)
    with pytest.raises(InputError, match="no stage has a measured busy time"):
        study_size(replace(profile, stages=stages), settings())
    with pytest.raises(InputError, match="at least 10 requests"):
        study_size(part_of(profile, np.arange(5)), settings())
