"""Search for sizes: near the optimum of small services, locally minimal, within budget and room."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from kwiken.allocator.capacity import search as capacity_search, verification
from kwiken.allocator.capacity.search import FoundSizes, Search, SizeLevers
from kwiken.allocator.capacity.supply import Sizes, StageNeed, StageSize, Supply
from kwiken.allocator.capacity.trials import LEVELS, MAX_BUSY, StageTrials
from kwiken.allocator.capacity.verification import verify
from kwiken.base.errors import InputError
from kwiken.model.nodes.document import nodes_from_toml
from kwiken.model.profile.cost_models import costs
from kwiken.tail.queueing.load.decompose import QueueSettings, load_model
from kwiken.tail.queueing.simulator.service_times import LogNormal
from kwiken.tail.queueing.simulator.station import Station
from kwiken.tail.simulation.common_random_numbers import smooth_p99
from tests.allocator.capacity.test_supply import NODES
from tests.support.models.queue_profiles import queue_profile, rate_of
from tests.support.models.stragglers import straggling_profile

MAX_GAP = 1.2  # cost of the search over that of the optimum, for any target
MAX_MEAN_GAP = 1.05  # the same on average over the targets
MOST = 4  # replicas of a stage
RATE = 150.0


def record(search: Search, monkeypatch: pytest.MonkeyPatch, latencies: Sequence[np.ndarray]) -> None:
    """Let stages take these times, milliseconds, whatever their sizes are."""
    trials = search.trials
    warm = np.zeros(trials.warm_up)
    some = [SimpleNamespace(latency_ms=np.concatenate([warm, one])) for one in latencies]
    monkeypatch.setattr(trials, "trial", lambda stage, size: some[stage])


def search_of(
    seed: int = 1,
    *,
    nodes: str | None = None,
    max_reissue: float = 0.1,
    most: int = MOST,
    rate_per_s: float = RATE,
) -> Search:
    profile = straggling_profile(seed=seed)
    names = [stage.name for stage in profile.stages]
    needs = {name: StageNeed(max_replicas=most) for name in names}
    cluster = None if nodes is None else nodes_from_toml(nodes, where="nodes.toml")
    trials = StageTrials(
        load_model(profile), rate_per_s, Supply(names, needs, cluster), seed=0, requests=1000
    )
    return Search(trials, costs(profile), max_reissue)


@pytest.fixture(scope="module")
def search() -> Search:
    return search_of()


def every_size(search: Search) -> list[Sizes]:
    classes = range(len(search.supply.classes))
    options = [
        [
            StageSize(count, place, level)
            for place in classes
            for count in range(search.trials.fewest(stage, place), MOST + 1)
            for level in (range(len(LEVELS)) if count > 1 else (0,))
        ]
        for stage in range(2)
    ]
    return [sizes for sizes in itertools.product(*options) if search.allowed(sizes)]


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("nodes", [None, pytest.param(NODES, marks=pytest.mark.slow)])
def test_the_cost_is_near_that_of_exhaustive_search(seed: int, nodes: str | None) -> None:
    search = search_of(seed, nodes=nodes)
    every = [search.found(sizes) for sizes in every_size(search)]
    least, most = min(one.p99_ms for one in every), search.p99_ms(search.cheapest_start())
    gaps = []
    for share in (0.1, 0.3, 0.5, 0.8):
        target = least + share * (most - least)
        optimum = min(one.cost for one in every if one.p99_ms <= target)
        found = search.cheapest(target)
        assert found.p99_ms <= target
        gaps.append(found.cost / optimum)
    assert max(gaps) <= MAX_GAP + 1e-9
    assert sum(gaps) / len(gaps) <= MAX_MEAN_GAP + 1e-9


def test_nothing_can_be_given_back(search: Search) -> None:
    slowest = search.p99_ms(search.cheapest_start())
    found = search.cheapest(0.7 * slowest)
    assert found.p99_ms <= 0.7 * slowest
    for stage, size in enumerate(found.sizes):
        if size.replicas > 1:
            fewer = list(found.sizes)
            fewer[stage] = replace(size, replicas=size.replicas - 1)
            assert search.p99_ms(tuple(fewer)) > 0.7 * slowest


def search_at_prices(*memory_gb: float) -> Search:
    """Search over two stages whose replicas cost more the more memory they have; without copies."""
    profile = straggling_profile(seed=1)
    names = [stage.name for stage in profile.stages]
    needs = {name: StageNeed(memory_gb=one) for name, one in zip(names, memory_gb, strict=True)}
    supply = Supply(names, needs, nodes_from_toml(NODES, where="nodes.toml"))
    trials = StageTrials(load_model(profile), 20.0, supply, seed=0, requests=1000)
    return Search(trials, costs(profile), 0.0, SizeLevers(reissues=False, classes=False))


def test_gain_beyond_the_target_does_not_choose_a_move(monkeypatch: pytest.MonkeyPatch) -> None:
    """A replica of either stage meets the target; the first stage's would gain more, for more."""
    search = search_at_prices(1.75, 1.0)
    start = (StageSize(2), StageSize(2))

    def p99_ms(sizes: Sizes) -> float:
        first, second = sizes
        return 40.0 if first.replicas > 2 else 60.0 if second.replicas > 2 else 100.0

    monkeypatch.setattr(search, "p99_ms", p99_ms)
    monkeypatch.setattr(search, "gain_bounds", lambda found, target_ms: dict.fromkeys(range(2), 100.0))
    walked = search.walk(search.found(start), 60.0)
    assert [size.replicas for size in walked.sizes] == [2, 3]


def test_the_largest_saving_is_given_back_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """The target allows one replica less, and a replica of the second stage costs more."""
    search = search_at_prices(0.1, 4.0)
    start = (StageSize(3), StageSize(3))

    def p99_ms(sizes: Sizes) -> float:
        missing = sum(max(0, 3 - size.replicas) + 10 * size.node_class for size in sizes)
        return 10.0 + 10.0 * missing

    monkeypatch.setattr(search, "p99_ms", p99_ms)
    kept = search.trim(search.found(start), 20.0)
    assert [size.replicas for size in kept.sizes] == [3, 2]


def test_copies_stay_within_their_budget(search: Search) -> None:
    for most in (0.0, 0.01, 0.05):
        bound = Search(search.trials, costs(search.trials.model.profile), most)
        assert bound.spent(bound.cheapest(0.0).sizes) <= most + 1e-9


@pytest.mark.parametrize(("count", "max_reissue"), [(3, 0.01), (4, 0.02), (4, 0.05)])
def test_replicas_have_room_where_copies_go_from_one_stage_to_another(count: int, max_reissue: float) -> None:
    """A replica more also makes more copies. Where the budget has none left, another stage gives up its own."""
    nodes = f"""
[[classes]]
name = "single"
cores = 1
memory_gb = 16
speed = 1.0

[[nodes]]
name = "node"
class = "single"
count = {count}
"""
    tight = search_of(nodes=nodes, max_reissue=max_reissue, most=8, rate_per_s=80.0)
    found = tight.cheapest(0.0)  # as far as the nodes and the budget go
    assert tight.allowed(found.sizes)
    assert sum(size.replicas for size in found.sizes) == count


def test_stragglers_are_cheaper_to_help_by_copies_than_by_replicas(search: Search) -> None:
    alone = search.only(SizeLevers(reissues=False))
    target = alone.cheapest(0.0).p99_ms * 1.02
    assert search.cheapest(target).cost < alone.cheapest(target).cost


def test_p99_at_a_cost_is_no_worse_with_more_levers(search: Search) -> None:
    alone = search.only(SizeLevers(reissues=False))
    start = search.supply.cost(search.cheapest_start())
    for cost in (start + 1, start + 3):
        both, replicas = search.least_p99(cost), alone.least_p99(cost)
        assert both.cost <= cost
        assert replicas.cost <= cost
        assert both.p99_ms <= replicas.p99_ms


def test_replicas_are_never_busier_than_allowed(search: Search) -> None:
    for stage in range(2):
        fewest = search.trials.fewest(stage, 0)
        trial = search.trials.trial(stage, StageSize(fewest))
        assert trial is not None
        assert 0 < trial.utilisation <= MAX_BUSY + 1e-9
        if fewest > 1:
            assert search.trials.trial(stage, StageSize(fewest - 1)) is None


def test_background_work_takes_its_part_of_the_replicas() -> None:
    profile = queue_profile(rate_of(0.3), requests=3000)
    names = [stage.name for stage in profile.stages]
    stage = names.index("rank")
    used, fewest = [], []
    for settings in (QueueSettings(), QueueSettings(utilisation={"rank": 0.6})):
        model = load_model(profile, settings)
        trials = StageTrials(model, model.rate_per_s, Supply(names, {}), seed=0, requests=1000)
        replicas = model.stages["rank"].station.replicas
        assert replicas is not None
        trial = trials.trial(stage, StageSize(replicas))
        assert trial is not None
        used.append(trial.utilisation)
        fewest.append(trials.fewest(stage, 0))
    assert used[1] - used[0] == pytest.approx(0.3, abs=0.02)
    assert fewest[1] > fewest[0]


def test_copies_that_make_replicas_busier_than_allowed_are_no_size(search: Search) -> None:
    for stage in range(2):
        rate_per_s = RATE * 0.995 * 4 * MAX_BUSY / search.trials.busy_cores(stage, 0)
        tight = search_of(most=16, rate_per_s=rate_per_s).trials
        assert tight.trial(stage, StageSize(4)) is not None
        assert tight.trial(stage, StageSize(4, 0, len(LEVELS) - 1)) is None


def test_the_cheapest_start_is_by_price() -> None:
    """A core of the slow class costs less than half of one of the class that is twice as fast."""
    search = search_of(nodes=NODES, most=8, rate_per_s=60.0)
    for stage, size in enumerate(search.cheapest_start()):
        options = [
            (search.trials.fewest(stage, place) * search.supply.price[stage, place], place)
            for place in (0, 1)
        ]
        assert min(options)[1] == size.node_class
    assert {size.node_class for size in search.cheapest_start()} == {1}


def test_a_faster_node_works_less_long() -> None:
    search = search_of(nodes=NODES, most=8)
    fast = search.trials.trial(0, StageSize(4, 0))
    slow = search.trials.trial(0, StageSize(4, 1))
    assert fast is not None
    assert slow is not None
    assert slow.utilisation == pytest.approx(2 * fast.utilisation)


def test_a_faster_node_works_less_long_in_the_check_of_an_answer_too() -> None:
    trials = search_of(nodes=NODES, most=8).trials
    fast, slow = (verify(trials, (StageSize(4, place),) * 2, seed=1) for place in range(2))
    assert fast is not None
    assert slow is not None
    for stage in trials.names:
        assert slow.utilisation[stage] == pytest.approx(2 * fast.utilisation[stage], rel=1e-3)
    assert slow.latency_ms.mean() > fast.latency_ms.mean()


def test_a_copy_needs_a_second_replica(search: Search) -> None:
    assert search.trials.policy(0, StageSize(1, 0, 5)) is None
    policy = search.trials.policy(0, StageSize(3, 0, 5))
    assert policy is not None
    assert policy.fraction == pytest.approx(LEVELS[5], rel=0.05)


def test_nodes_that_cannot_serve_the_calls_are_named_with_the_stage() -> None:
    few = NODES.replace("count = 2", "count = 1").replace("count = 3", "count = 1")
    search = search_of(nodes=few.replace("cores = 4", "cores = 1").replace("cores = 2", "cores = 1"))
    with pytest.raises(InputError, match=r"nodes: have no room for stage '\w+', which needs"):
        search.cheapest_start()


def test_a_rate_that_no_number_of_replicas_serves_is_refused_as_such() -> None:
    with pytest.raises(InputError, match=r"rate: .* stage '\w+' needs \d+ or more .* and may have 4: lower"):
        search_of(rate_per_s=100 * RATE).cheapest_start()


def test_moves_that_are_not_simulated_could_not_be_the_best(
    search: Search, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same walks where no bound leaves any move out."""
    least, bounds = search.p99_ms(search.cheapest_start()), search.gain_bounds

    def walks() -> list[Sizes]:
        start = search.found(search.cheapest_start())
        return [search.walk(start, share * least).sizes for share in (0.8, 0.5, 0.3)]

    pruned = walks()
    monkeypatch.setattr(
        search, "gain_bounds", lambda found, target_ms: dict.fromkeys(bounds(found, 0.0), 1e9)
    )
    assert walks() == pruned


def test_no_move_at_a_stage_wins_more_than_its_bound(search: Search) -> None:
    for replicas in (1, 2, 3):
        sizes = (StageSize(replicas), StageSize(replicas))
        if search.p99_ms(sizes) == float("inf"):
            continue
        found = search.found(sizes)
        bounds = search.gain_bounds(found, 0.0)
        assert bounds
        for stage, bound in bounds.items():
            assert 0 < bound < found.p99_ms
            for size in itertools.product(range(replicas, 7), [0], range(len(LEVELS))):
                moved = list(sizes)
                moved[stage] = StageSize(*size)
                if (size[0] > 1 or not size[2]) and search.allowed(tuple(moved)):
                    assert found.p99_ms - search.p99_ms(tuple(moved)) <= bound * 1.05
        assert search.gain_bounds(found, found.p99_ms) == {}


@pytest.mark.parametrize("share", [0.8, 0.5, 0.35])
def test_no_single_step_back_keeps_the_target_at_less_cost(search: Search, share: float) -> None:
    target_ms = share * search.p99_ms(search.cheapest_start())
    found = search.cheapest(target_ms)
    assert found.p99_ms <= target_ms
    for stage, now in enumerate(found.sizes):
        for replicas in range(max(1, now.replicas - 2), now.replicas):
            for level in (now.level, now.level + 1, now.level + 2):
                if level >= len(LEVELS) or (replicas == 1 and level):
                    continue
                changed = list(found.sizes)
                changed[stage] = StageSize(replicas, 0, level)
                assert not search.allowed(tuple(changed)) or search.p99_ms(tuple(changed)) > target_ms
        if now.level:
            fewer = list(found.sizes)
            fewer[stage] = replace(now, level=now.level - 1)
            kept = search.p99_ms(tuple(fewer)) <= target_ms
            assert not kept or search.charged(tuple(fewer)) >= search.charged(found.sizes)


def test_copies_are_charged_by_the_processor_time_that_they_take(search: Search) -> None:
    sizes = (StageSize(3, 0, 5), StageSize(4, 0, 0))
    trial = search.trials.trial(0, sizes[0])
    assert trial is not None
    assert trial.extra_load > 0
    charged = search.charged(sizes)
    assert charged == pytest.approx(7.0 + trial.extra_load * search.trials.busy_cores(0, 0))
    policy = search.trials.policy(0, sizes[0])
    assert policy is not None
    shares = costs(search.trials.model.profile).stages
    assert search.spent(sizes) == pytest.approx(shares[search.trials.names[0]] * policy.fraction)
    assert search.min_gain_ms(sizes) == pytest.approx(search.p99_ms(sizes) / 2000)


def test_a_stage_that_only_slow_requests_wait_for_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second of two stages side by side is quick, but in 15 of 1,000 requests: these make the p99."""
    stations = (
        Station(name="steady", work=LogNormal(5.0, 0.5), replicas=3, dispatch="aged"),
        Station(name="rare", work=LogNormal(5.0, 0.5), replicas=3, dispatch="aged"),
    )
    profile = queue_profile(50.0, stations=stations, requests=1000)
    names = [stage.name for stage in profile.stages]
    trials = StageTrials(load_model(profile), 50.0, Supply(names, {}), seed=0, requests=500)
    search = Search(trials, costs(profile), 0.1)
    steady, rare = np.linspace(20.0, 21.0, 1000), np.ones(1000)
    rare[::67] = 200.0
    record(search, monkeypatch, [steady, rare])
    bounds = search.gain_bounds(search.found((StageSize(3), StageSize(3))), 30.0)
    assert bounds == {1: pytest.approx(170.0)}


@pytest.mark.parametrize("slow", [0, 1])
def test_of_many_stages_those_that_slow_requests_wait_for_most_are_tried(
    slow: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    search = search_of()
    monkeypatch.setattr(capacity_search, "MAX_STAGES_TRIED", 1)
    latencies = [np.linspace(1.0, 1.1, 1000), np.linspace(1.0, 1.1, 1000)]
    latencies[slow][::67] = 200.0
    latencies[1 - slow][::67] = 100.0
    record(search, monkeypatch, latencies)
    bounds = search.gain_bounds(search.found((StageSize(3), StageSize(3))), 30.0)
    # On nodes of the same class, its slow calls would take no less than its quick ones.
    assert bounds == {slow: pytest.approx(300.0 - (100.0 + 1.01), abs=0.1)}


def test_at_most_twelve_stages_are_tried_and_a_gain_is_bounded_by_the_quickest_tenth_of_calls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of 14 stages in a row, slow requests wait longest for the last; at best it takes as long as quick calls."""
    names = [f"s{number}" for number in range(14)]
    stations = [
        Station(name=name, after=tuple(names[:number][-1:]), work=LogNormal(1.0, 0.5), replicas=2)
        for number, name in enumerate(names)
    ]
    profile = queue_profile(50.0, stations=stations, requests=200)
    trials = StageTrials(load_model(profile), 50.0, Supply(names, {}), seed=0, requests=100)
    search = Search(trials, costs(profile), 0.1)
    usual = np.linspace(1.0, 2.0, 1001)  # a tenth takes at most 1.1 ms
    slow = np.arange(1001) % 50 == 0
    latencies = [np.where(slow, 10.0 * (number + 1), usual) for number in range(14)]
    latencies[0] = latencies[0] + 100.0  # long, and in slow requests hardly longer than in others
    record(search, monkeypatch, latencies)
    sizes = tuple(StageSize(2) for _ in names)
    found = search.found(sizes)
    bounds = search.gain_bounds(found, 0.0)
    assert list(bounds) == list(range(13, 1, -1))
    whole = np.sum(latencies, axis=0)
    for stage, bound in bounds.items():
        at_best = whole - latencies[stage] + np.minimum(latencies[stage], np.quantile(latencies[stage], 0.1))
        assert bound == pytest.approx(smooth_p99(whole) - smooth_p99(at_best))
    assert np.quantile(latencies[1], 0.1) == pytest.approx(1.1, rel=0.01)
    capped = search.gain_bounds(found, found.p99_ms - 1.0)
    assert capped == dict.fromkeys(bounds, pytest.approx(1.0))
    assert search.gain_bounds(found, found.p99_ms * (1 - 0.0004)) == {}


def test_a_stage_is_chosen_by_the_slowest_requests_and_not_by_the_slower_half(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of two stages side by side, one makes three tenths of the requests slow, the other the slowest."""
    stations = (
        Station(name="often", work=LogNormal(5.0, 0.5), replicas=3, dispatch="aged"),
        Station(name="rare", work=LogNormal(5.0, 0.5), replicas=3, dispatch="aged"),
    )
    profile = queue_profile(50.0, stations=stations, requests=300)
    trials = StageTrials(load_model(profile), 50.0, Supply(["often", "rare"], {}), seed=0, requests=200)
    search = Search(trials, costs(profile), 0.1)
    number = np.arange(1000)
    often, rare = np.where(number % 10 < 3, 150.0, 1.0), np.where(number % 33 == 5, 200.0, 1.0)
    record(search, monkeypatch, [often, rare])
    monkeypatch.setattr(capacity_search, "MAX_STAGES_TRIED", 1)
    assert list(search.gain_bounds(search.found((StageSize(3), StageSize(3))), 30.0)) == [1]


def test_what_cannot_be_the_best_move_is_not_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    """A replica of the first stage wins 60 ms; one of the second wins 2 ms at the most, for as much."""
    search = search_of().only(SizeLevers(reissues=False))
    start, asked = (StageSize(2), StageSize(2)), []

    def p99_ms(sizes: Sizes) -> float:
        asked.append(sizes)
        return 40.0 if sizes[0].replicas > 2 else 98.0 if sizes[1].replicas > 2 else 100.0

    monkeypatch.setattr(search, "p99_ms", p99_ms)
    monkeypatch.setattr(search, "gain_bounds", lambda found, target_ms: {1: 2.0, 0: 60.0})
    monkeypatch.setattr(capacity_search, "MAX_STEPS", 1)
    best = search.walk(search.found(start), 10.0)
    assert [size.replicas for size in best.sizes] == [3, 2]
    assert all(sizes[1] == StageSize(2) for sizes in asked)


def test_the_more_calls_a_request_makes_the_fewer_requests_are_verified(
    search: Search, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert search.trials.model.calls_per_request == pytest.approx(2.0)
    for calls, requests in ((30_000, 15_000), (8_000, 5_000), (100_000, 40_000)):
        monkeypatch.setattr(verification, "MAX_VERIFIED_CALLS", calls)
        found = verify(search.trials, (StageSize(3), StageSize(3)), seed=1)
        assert found is not None
        assert len(found.latency_ms) == requests


def test_a_stage_that_may_not_be_repeated_still_gets_replicas() -> None:
    profile = straggling_profile(seed=1)
    first, second = profile.stages
    changed = replace(profile, stages=(replace(first, reissuable=False), second))
    names = [stage.name for stage in profile.stages]
    trials = StageTrials(load_model(changed), RATE, Supply(names, {}), seed=0, requests=1000)
    search = Search(trials, costs(changed), 0.1)
    assert 0 in search.gain_bounds(search.found(search.cheapest_start()), 1.0)


def test_what_the_walk_bought_too_early_is_exchanged_for_something_cheaper(
    search: Search, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first replica more wins most for its cost, and leads to five replicas; four others are enough."""
    alone = search.only(SizeLevers(reissues=False))
    known = {(1, 1): 100.0, (2, 1): 70.0, (1, 2): 95.0, (3, 1): 55.0, (3, 2): 50.0, (1, 3): 50.0}

    monkeypatch.setattr(
        alone, "p99_ms", lambda sizes: known.get(tuple(min(3, size.replicas) for size in sizes), 69.0)
    )
    monkeypatch.setattr(alone, "gain_bounds", lambda found, target_ms: dict.fromkeys(range(2), 100.0))
    start = (StageSize(1), StageSize(1))
    walked = alone.trim(alone.walk(alone.found(start), 50.0), 50.0)
    assert walked.sizes == (StageSize(3), StageSize(2))
    below: list[float] = []
    walk = alone.walk

    def walked_below(found: FoundSizes, target_ms: float, cost: float = math.inf) -> FoundSizes:
        below.append(cost)
        return walk(found, target_ms, cost)

    with monkeypatch.context() as patch:
        patch.setattr(
            alone, "walk", lambda found, target_ms, below=math.inf: walked_below(found, target_ms, below)
        )
        assert alone.cheapest(50.0, start).sizes == (StageSize(1), StageSize(3))
    assert below[0] == math.inf
    assert all(cost < 5.0 for cost in below[1:])
    assert below[-1] < 4.0
    # Where the walk misses the target, its sizes are the answer: nothing is exchanged, or given back.
    known[3, 2] = 52.0
    missed = alone.cheapest(50.0, start)
    assert (missed.sizes, missed.p99_ms) == ((StageSize(3), StageSize(2)), 52.0)


@pytest.mark.parametrize("scale", [1.0, 1e-3])
def test_the_least_p99_at_a_cost_is_improved_by_exchanges_too(
    scale: float, search: Search, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of at most five replicas, three and two are come to first, with 52 ms; one and three have 50 ms."""
    alone = search.only(SizeLevers(reissues=False))
    known = {(1, 1): 100.0, (2, 1): 70.0, (1, 2): 95.0, (3, 1): 55.0, (3, 2): 52.0, (1, 3): 50.0}

    def p99_ms(sizes: Sizes) -> float:
        first, second = (min(3, size.replicas) for size in sizes)
        return scale * known.get((first, second), 69.0)

    monkeypatch.setattr(alone, "p99_ms", p99_ms)
    monkeypatch.setattr(alone, "gain_bounds", lambda found, target_ms: dict.fromkeys(range(2), 100.0))
    start = (StageSize(1), StageSize(1))
    assert alone.walk(alone.found(start), 0.0, below=5.5).sizes == (StageSize(3), StageSize(2))
    found = alone.least_p99(5.0, start)
    assert (found.sizes, found.p99_ms, found.cost) == ((StageSize(1), StageSize(3)), scale * 50.0, 4.0)
    monkeypatch.setattr(alone, "cheapest_start", lambda: start)
    assert alone.reach(5.0).sizes == (StageSize(3), StageSize(2))
    assert alone.reach(4.0).sizes == (StageSize(3), StageSize(1))


@pytest.mark.parametrize(("share", "better"), [(0.9994, True), (0.9996, False), (1.0, False)])
def test_less_than_a_two_thousandth_is_no_reason_to_exchange(
    share: float, better: bool, search: Search, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = search.only(SizeLevers(reissues=False))
    start = (StageSize(2), StageSize(2))
    monkeypatch.setattr(alone, "p99_ms", lambda sizes: 50.0 if sizes == start else 50.0 * share)
    monkeypatch.setattr(alone, "walk", lambda found, target_ms, below: found)
    assert (alone.least_p99(4.0, start).sizes != start) == better


def test_a_walk_ends_after_400_moves_where_each_one_helps_a_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """A replica more lowers the p99 by a thousandth."""
    search = search_of(most=1000).only(SizeLevers(reissues=False))
    monkeypatch.setattr(search, "p99_ms", lambda sizes: 1000.0 * 0.999 ** sum(one.replicas for one in sizes))
    monkeypatch.setattr(search, "gain_bounds", lambda found, target_ms: {0: 1000.0})
    assert search.walk(search.found((StageSize(1), StageSize(1))), 10.0).sizes[0] == StageSize(401)


def test_the_effect_of_sizes_is_computed_once_for_all_kinds_of_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cache is bounded: when it is full it is cleared, and p99s are computed again."""
    search, asked = search_of(), []

    def counted(latency_ms: np.ndarray) -> float:
        asked.append(1)
        return smooth_p99(latency_ms)

    monkeypatch.setattr(capacity_search, "smooth_p99", counted)
    some = [(StageSize(count), StageSize(2)) for count in (1, 2, 3, 4)]
    first = [search.p99_ms(sizes) for sizes in some]
    assert [search.p99_ms(sizes) for sizes in some] == first
    assert [search.only(SizeLevers(replicas=False)).p99_ms(sizes) for sizes in some] == first
    assert len(asked) == 4
    monkeypatch.setattr(capacity_search, "MAX_KNOWN", 5)
    other = (StageSize(4), StageSize(3))
    assert search.p99_ms(other) == search.p99_ms(other)
    assert [search.p99_ms(sizes) for sizes in some] == first
    assert len(asked) == 5
    assert search.p99_ms((StageSize(3), StageSize(3))) > 0.0  # the sixth
    assert [search.p99_ms(sizes) for sizes in some] == first
    assert len(asked) == 10


def test_a_class_without_nodes_is_no_place_for_replicas_and_costs_nothing() -> None:
    unused = NODES.replace('[[nodes]]\nname = "large"\nclass = "large"\nzone = "a"\ncount = 2\n', "")
    assert unused != NODES
    search = search_of(nodes=unused, rate_per_s=20.0)
    assert search.supply.limit.tolist() == [[0, MOST]] * 2
    start = search.cheapest_start()
    found = search.cheapest(0.7 * search.p99_ms(start))
    assert found.p99_ms <= 0.7 * search.p99_ms(start)
    assert {size.node_class for size in found.sizes} == {1}
