"""Sizing of whole services: documents that belong together, targets met or named, comparisons."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from kwiken.allocator.capacity import study
from kwiken.allocator.capacity.marginals import marginals, slowest_stage
from kwiken.allocator.capacity.outcomes import REPLICAS_ONLY, start_with_given
from kwiken.allocator.capacity.search import FoundSizes, Search
from kwiken.allocator.capacity.settings import SizeSettings
from kwiken.allocator.capacity.study import SizeStudy, UnmetTargetError, study_size
from kwiken.allocator.capacity.supply import Sizes, StageNeed, StageSize, Supply
from kwiken.allocator.capacity.trials import FIXED_LEVEL, StageTrials
from kwiken.base.errors import InputError
from kwiken.model.nodes.document import nodes_from_toml
from kwiken.model.nodes.placement import Placement
from kwiken.model.plan.plan import Plan
from kwiken.model.profile.cost_models import costs
from kwiken.model.profile.profile import Profile
from kwiken.model.profile.subset import part_of
from kwiken.tail.queueing.load.decompose import QueueSettings, load_model
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


def test_the_slowest_stage_is_one_that_slow_requests_wait_for() -> None:
    """What slows down beside a longer stage is waited for by nobody."""
    long, beside = np.full(200, 300.0), np.full(200, 10.0)
    long[:2], beside[:2] = 400.0, 390.0
    name, excess_ms = slowest_stage(cast("Search", Recorded(long=long, beside=beside)), ())
    assert name == "long"
    assert excess_ms == pytest.approx(100.0)
    few = np.full(101, 300.0)
    few[:2] = 500.0, 400.0  # the slowest hundredth of 101 requests: these two
    assert slowest_stage(cast("Search", Recorded(long=few)), ())[1] == pytest.approx(150.0)


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
        ({"rate_per_s": 1.1e9}, "rate: must be at most 1e\\+09 requests a second, not 1.1e\\+09"),
        ({"max_reissue": 1.01}, "max_reissue: must be a share"),
        ({"max_reissue": -0.01}, "max_reissue: must be a share"),
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


def test_ten_requests_are_needed(profile: Profile) -> None:
    with pytest.raises(InputError, match="at least 10 requests, and the profile has 9"):
        study_size(part_of(profile, np.arange(9)), settings())
    with pytest.raises(InputError, match="stage 'x' is not in the profile"):  # what is checked next
        study_size(part_of(profile, np.arange(10)), settings(needs={"x": StageNeed()}))


def test_a_promise_is_told_by_the_p99_of_other_recordings(placed: SizeStudy) -> None:
    """A p99 counts as within a target that is exceeded by 15% at most."""
    study = replace(placed, resampled_ms=np.random.default_rng(0).permutation(np.arange(1.0, 201.0)))
    assert study.interval_ms == (5.0, 195.0)
    for target_ms in (10.0, 100.0, 173.0, 174.0, 1000.0):
        within = sum(p99_ms <= 1.15 * target_ms for p99_ms in range(1, 201))
        assert study.probability(target_ms) == pytest.approx(within / 200)
    exactly = replace(placed, resampled_ms=np.array([100.0 * 1.15, 116.0]))
    assert exactly.probability(100.0) == 0.5


def test_the_watched_time_of_replicas_counts_stages_where_the_replica_of_each_call_is_known(
    placed: SizeStudy,
) -> None:
    """A recording of 1,000 requests at 100 a second, with three replicas of the first stage."""
    assert placed.watched_s == 0.0
    model = placed.outcome.trials.model
    first, second = model.profile.stages
    known = replace(first, asked=np.zeros((1000, 1), np.int64), replica_names=("a", "b", "c"))
    watched = replace(model, profile=replace(model.profile, stages=(known, second)))
    trials = cast("StageTrials", SimpleNamespace(model=watched))
    study = replace(placed, outcome=replace(placed.outcome, trials=trials))
    assert study.watched_s == pytest.approx(3 * 1000 / model.rate_per_s)
    assert study.watched_s == pytest.approx(30.0, rel=0.1)


def test_a_frontier_has_the_points_that_nothing_beats(
    profile: Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both searches are asked for targets evenly spaced by ratio, from their least p99 to that of the start."""
    start, answer = (StageSize(1),), (StageSize(7, level=2),)

    def found(sizes: Sizes) -> FoundSizes:
        (size,) = sizes
        return FoundSizes(sizes, 320.0 / size.replicas * (0.5 if size.level else 1.0), float(size.replicas))

    asked: dict[str, list[float]] = {"copies": [], "alone": []}

    def way(name: str, level: int) -> Callable[[float], FoundSizes]:
        def cheapest(goal_ms: float) -> FoundSizes:
            asked[name].append(goal_ms)
            count = math.ceil((160.0 if level else 320.0) / goal_ms)
            # Two replicas get no copies, and do no better than one with copies.
            return found((StageSize(count, level=0 if count == 2 else level),))

        return cheapest

    reached: list[float] = []

    def reach(cost: float) -> FoundSizes:
        reached.append(cost)
        return found((StageSize(14),))

    alone = SimpleNamespace(reach=reach, cheapest=way("alone", 0))
    copies = SimpleNamespace(
        least_p99=lambda cost, sizes: found((replace(sizes[0], replicas=int(cost), level=2),))
    )
    search = SimpleNamespace(
        p99_ms=lambda sizes: found(sizes).p99_ms,
        cheapest_start=lambda: start,
        found=found,
        only=lambda levers: alone if levers == REPLICAS_ONLY else copies,
    )
    met = SimpleNamespace(cost=7.0, sizes=answer, verified=None)
    monkeypatch.setattr(study, "Search", lambda *_, spread: search)
    monkeypatch.setattr(study, "start_with_given", lambda search: None)
    monkeypatch.setattr(study, "in_two_steps", lambda search, given: way("copies", 2))
    monkeypatch.setattr(study, "reached", lambda *_, seed: (met, None))
    for name in ("verify", "resampled_p99", "plan_of"):
        monkeypatch.setattr(study, name, lambda *_, **__: cast("Any", SimpleNamespace()))
    monkeypatch.setattr(study, "marginals", lambda search, sizes: ())
    points = study_size(profile, settings(frontier=True)).frontier
    assert reached == [14.0, 14.0]
    for name, least_ms in (("copies", 160.0 / 14), ("alone", 320.0 / 14)):
        ratio = (320.0 / least_ms) ** (1 / 7)
        assert asked[name] == pytest.approx([least_ms * ratio**step for step in range(1, 8)])
    for with_copies, p99_ms, counts in (
        (True, 160.0, (1, 3, 4, 6, 7, 9, 14)),
        (False, 320.0, (1, 2, 3, 4, 5, 7, 10, 14)),
    ):
        line = [point for point in points if point.with_copies is with_copies]
        assert [point.cost for point in line] == list(counts)
        assert [point.p99_ms for point in line] == [p99_ms / count for count in counts]
        assert [point.sizes[0].replicas for point in line] == list(counts)
