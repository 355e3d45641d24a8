"""One step of a search for sizes: the move that is chosen, the copies given up for it, and moves left out."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from kwiken.allocator.capacity.marginals import marginals
from kwiken.allocator.capacity.search import MAX_STAGES_TRIED, FoundSizes, Search, SizeLevers
from kwiken.allocator.capacity.supply import Sizes, StageNeed, StageSize, Supply
from kwiken.allocator.capacity.trials import StageTrials
from kwiken.base.errors import InputError
from kwiken.base.jobs import Job, one_by_one
from kwiken.model.nodes.document import nodes_from_toml
from kwiken.model.profile.cost_models import costs
from kwiken.model.profile.profile import Profile
from kwiken.tail.queueing.load.decompose import load_model
from kwiken.tail.queueing.simulator.service_times import LogNormal
from kwiken.tail.queueing.simulator.station import Station
from tests.allocator.capacity.test_moves import (
    LARGE,
    MODEL,
    NAMES,
    NODES,
    OTHER,
    PROFILE,
    SMALL,
    goes,
    savings_of,
    search_of,
    step,
)
from tests.allocator.capacity.test_search import record
from tests.support.models.queue_profiles import queue_profile
from tests.support.models.stragglers import straggling_profile

FOUR = (StageSize(4), StageSize(4))


@pytest.fixture(scope="module")
def search() -> Search:
    """Search for cores at a price of 1, without copies."""
    trials = StageTrials(MODEL, 20.0, Supply(NAMES, {}), seed=0, requests=500)
    return Search(trials, costs(PROFILE), 0.0)


def best_move(
    search: Search, told: Mapping[tuple[int, int], float], bounds: Mapping[int, float]
) -> Sizes | None:
    """The move that is made from four replicas each, where the p99 of some numbers is below 100 ms."""

    def p99_ms(sizes: Sizes) -> float:
        first, second = sizes
        return told.get((first.replicas, second.replicas), 100.0)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "p99_ms", p99_ms)
        patch.setattr(search, "gain_bounds", lambda found, target_ms: bounds)
        return step(search, FOUR, 10.0)


@pytest.mark.parametrize(
    ("told", "bounds", "chosen"),
    [
        ({(5, 4): 99.5}, {0: 0.6}, (5, 4)),  # a small gain, where nothing wins more
        # Of moves that win as much for a core, the one that wins more; of moves that win as much, one.
        ({(4, 5): 90.0, (4, 6): 80.0, (4, 7): 70.0}, {0: 60.0, 1: 60.0}, (4, 7)),
        ({(5, 4): 90.0, (4, 5): 90.0}, {0: 60.0, 1: 60.0}, (5, 4)),
        ({(5, 4): 80.0, (6, 4): 81.0, (7, 4): 40.0}, {0: 60.0}, (7, 4)),  # no more than its bound
        ({(5, 4): 80.0, (4, 5): 55.0}, {0: 60.0, 1: 50.0}, (4, 5)),
    ],
)
def test_the_move_that_wins_most_for_a_core_is_made(
    told: dict[tuple[int, int], float], bounds: dict[int, float], chosen: tuple[int, int], search: Search
) -> None:
    found = best_move(search, told, bounds)
    assert found is not None
    first, second = found
    assert (first.replicas, second.replicas) == chosen


def test_nodes_that_cost_as_much_are_a_move_too() -> None:
    """Four large nodes cost as much as eight small ones, to the last bit."""
    search = search_of(nodes=NODES.replace("cost_per_hour = 1.0", "cost_per_hour = 1.6"))
    assert search.supply.cost((StageSize(4, LARGE),)) == search.supply.cost((StageSize(8, SMALL),))
    assert goes(search, StageSize(4, LARGE), StageSize(8, SMALL), "up")


def test_all_room_of_a_class_may_be_used() -> None:
    search = search_of(most=5)
    assert goes(search, StageSize(5, LARGE), StageSize(5, SMALL), "up")
    tight = search_of(most=3, rate_per_s=400.0)
    assert tight.supply.limit.tolist() == [[3, 3]] * 2
    assert tight.cheapest_start() == (StageSize(2, LARGE), StageSize(3, LARGE))


def test_a_lack_of_nodes_is_told_where_the_most_replicas_would_be_enough() -> None:
    one_core = NODES.replace("cores = 64", "cores = 1")
    with pytest.raises(InputError, match="nodes: have no room for stage 'fetch', which needs 2 or more"):
        search_of(nodes=one_core, most=2, rate_per_s=400.0).cheapest_start()


def test_the_last_level_of_copies_is_given_back_too() -> None:
    assert goes(search_of(), StageSize(5, SMALL, 1), StageSize(5, SMALL, 0), "down")


def test_copies_that_save_work_are_charged_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy that answers first may take a call from a queue before its work begins."""
    search = search_of()
    sizes = (StageSize(4, LARGE, 3), OTHER)
    monkeypatch.setattr(search.trials, "trial", lambda stage, size: SimpleNamespace(extra_load=-0.5))
    assert search.charged(sizes) == search.supply.cost(sizes)


def test_the_gain_of_other_nodes_is_bounded_by_all_the_time_of_a_stage(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The p99 cannot fall below that of the other stage alone, and below the target nothing counts."""
    search = search_of()
    slow = np.arange(1000) % 50 == 0
    fetch, rank = np.where(slow, 100.0, 5.0), np.where(slow, 10.0, 7.0)
    record(search, monkeypatch, [fetch, rank])
    bounds = search.gain_bounds(search.found((OTHER, OTHER)), 0.0)
    assert bounds == {0: pytest.approx(100.0), 1: pytest.approx(10.0)}
    bounds = search.gain_bounds(search.found((OTHER, OTHER)), 60.0)
    assert bounds == {0: pytest.approx(50.0), 1: pytest.approx(10.0)}


def test_copies_that_cost_nothing_are_not_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    search = search_of().only(SizeLevers(replicas=False, classes=False))
    monkeypatch.setattr(search, "p99_ms", lambda sizes: 50.0)
    charged = {(3, 2): 5.0, (2, 2): 5.0, (3, 1): 4.0, (3, 0): 4.0}
    monkeypatch.setattr(search, "charged", lambda sizes: charged.get(tuple(one.level for one in sizes), 6.0))
    found = search.trim(search.found((StageSize(4, level=3), StageSize(4, level=2))), 50.0)
    assert found.sizes == (StageSize(4, level=3), StageSize(4, level=1))


def test_for_six_moves_beyond_the_budget_copies_elsewhere_are_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of ten moves to more copies each, ever fewer win much; the copies of the second stage would pay for them."""
    search = search_of().only(SizeLevers(classes=False))
    monkeypatch.setattr(search, "gain_bounds", lambda found, target_ms: {0: 100.0})
    monkeypatch.setattr(search, "charged", lambda sizes: 1.0)  # so that moves are tried by what they win
    start = (StageSize(4, LARGE, 1), StageSize(4, LARGE, 1))
    moves = [StageSize(4, LARGE, level) for level in (2, 3, 5)]
    moves += [StageSize(5, LARGE, level) for level in (1, 2, 4)]
    moves += [StageSize(count, LARGE, 1) for count in (6, 7)]
    rank = {move: place for place, move in enumerate(moves)}

    def spent(sizes: Sizes) -> float:
        return 0.6 if sizes[0] != start[0] and sizes[1].level else 0.1

    monkeypatch.setattr(search, "spent", spent)
    for good, p99_ms, helps in ((5, 40.0, True), (6, 40.0, False), (5, 99.96, False)):

        def told(sizes: Sizes, good: int = good, p99_ms: float = p99_ms) -> float:
            place = rank.get(sizes[0])
            if place is None:
                return 100.0
            if sizes[1].level:  # what decides the order in which moves are tried
                return 50.0 + place
            return p99_ms if place == good else 100.0

        monkeypatch.setattr(search, "p99_ms", told)
        found = step(search, start, 10.0)
        assert found == ((moves[good], replace(start[1], level=0)) if helps else None)
    monkeypatch.setattr(
        search,
        "p99_ms",
        lambda sizes: 40.0 + (rank[sizes[0]] if sizes[1].level else 0) if sizes[0] in rank else 100.0,
    )
    assert step(search, start, 10.0) == (moves[0], replace(start[1], level=0))  # of equal ones the first


@pytest.mark.parametrize(("level", "left"), [(2, 3), (3, 2), (4, 1), (5, 0), (6, None)])
def test_no_more_copies_are_given_up_than_the_budget_asks_for(
    level: int, left: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five levels in all are paid for; the second stage has four."""
    search = search_of()
    monkeypatch.setattr(search, "spent", lambda sizes: 0.1 * sum(size.level for size in sizes))
    monkeypatch.setattr(search, "gain_bounds", lambda found, target_ms: {0: 60.0})
    moved = StageSize(4, LARGE, level)
    monkeypatch.setattr(search, "p99_ms", lambda sizes: 40.0 if sizes[0] == moved else 100.0)
    found = step(search, (StageSize(4, LARGE, level - 1), StageSize(4, LARGE, 4)), 10.0)
    assert (None if found is None else found[1].level) == left


def test_an_engine_tries_the_sizes_of_a_step_at_once_and_finds_the_same() -> None:
    ran: list[int] = []

    def counted(jobs: Sequence[Job]) -> Iterator[object]:
        ran.append(len(jobs))
        return one_by_one(jobs)

    found = []
    for spread in (None, counted):
        supply = Supply(NAMES, {name: StageNeed(max_replicas=9) for name in NAMES})
        trials = StageTrials(MODEL, 200.0, supply, seed=0, requests=300)
        search = Search(trials, costs(PROFILE), 0.1, SizeLevers(reissues=False), spread)
        together: list[object] = []
        start = search.found((StageSize(4), StageSize(4)))
        together.append(step(search, start.sizes, 0.0))
        ran_by_step = [sum(ran)]
        together.append(savings_of(search, start.sizes))
        ran_by_step.append(sum(ran))
        together.append(marginals(search, (StageSize(8), StageSize(8))))
        ran_by_step.append(sum(ran))
        found.append(together)
    assert found[0] == found[1]
    moves, savings, more = ran_by_step
    assert moves == 6  # one, two and three replicas more of each stage
    assert savings - moves == 4  # one and two less
    assert more - savings == 4  # one more and one less


def fixed(profile: Profile, *names: str) -> Profile:
    """A profile in which nothing is known of the replicas of some stages, so that these are not sized."""
    return replace(
        profile,
        stages=tuple(
            replace(stage, replicas=None, busy_ms=None, busy_variation=None) if stage.name in names else stage
            for stage in profile.stages
        ),
    )


def search_in(profile: Profile, rate_per_s: float, *, most: int, max_reissue: float) -> Search:
    """Search for cores at a price of 1 for the stages of a profile."""
    names = [stage.name for stage in profile.stages]
    supply = Supply(names, {name: StageNeed(max_replicas=most) for name in names})
    trials = StageTrials(load_model(profile), rate_per_s, supply, seed=0, requests=1000)
    return Search(trials, costs(profile), max_reissue)


def test_of_copies_that_cost_and_win_as_much_the_fewest_are_made() -> None:
    """Copies of a stage whose replicas are not sized cost nothing, and several shares meet the target."""
    search = search_in(fixed(straggling_profile(), NAMES[0]), 50.0, most=4, max_reissue=0.5)
    first, *others = search.cheapest_start()
    by_level = {level: search.p99_ms((replace(first, level=level), *others)) for level in (1, 2, 4)}
    target_ms = max(by_level.values())
    assert target_ms < search.p99_ms((first, *others)) - search.min_gain_ms((first, *others))
    found = search.cheapest(target_ms)
    assert found.sizes[0].level == min(by_level)
    assert search.spent(found.sizes) == min(
        search.spent((replace(first, level=level), *others)) for level in by_level
    )


def test_of_replicas_elsewhere_that_win_as_much_for_less_the_fewest_are_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Four or five large nodes, which are twice as fast, cost less than eight small ones."""
    search = search_of(nodes=NODES.replace("cost_per_hour = 3.2", "cost_per_hour = 1.5"))
    start = (StageSize(8, SMALL), OTHER)
    faster = [(StageSize(count, LARGE), OTHER) for count in (4, 5)]
    assert search.supply.cost(faster[1]) < search.supply.cost(start)
    monkeypatch.setattr(search, "p99_ms", lambda sizes: 40.0 if sizes in faster else 100.0)
    monkeypatch.setattr(search, "gain_bounds", lambda found, target_ms: {0: 60.0})
    assert search.least_p99(search.supply.cost(start), start).sizes == faster[0]


def test_stages_that_cannot_move_take_no_place_of_those_that_are_tried() -> None:
    """Requests wait longer for twice as many stages as are tried, of which none can be changed."""
    names = [f"fixed-{number}" for number in range(2 * MAX_STAGES_TRIED)]
    stations = [
        Station(
            name=name, after=tuple(names[:place][-1:]), work=LogNormal(1.0, 0.1), rest=LogNormal(10.0, 2.0)
        )
        for place, name in enumerate(names)
    ]
    last = Station(name="last", after=(names[-1],), work=LogNormal(6.0, 0.3), replicas=3, dispatch="aged")
    profile = fixed(queue_profile(60.0, stations=[*stations, last], requests=1000), *names)
    profile = replace(profile, stages=tuple(replace(stage, reissuable=False) for stage in profile.stages))
    search = search_in(profile, 100.0, most=6, max_reissue=0.0)
    *others, one = search.cheapest_start()
    target_ms = search.p99_ms((*others, replace(one, replicas=one.replicas + 1)))
    assert target_ms < search.p99_ms((*others, one)) - search.min_gain_ms((*others, one))
    assert search.cheapest(target_ms).p99_ms <= target_ms


def test_the_price_of_nodes_that_are_not_used_changes_no_choice() -> None:
    """At a low rate copies cost millionths of the price of a replica."""
    profile = straggling_profile()
    model, start = load_model(profile), (StageSize(2, SMALL), StageSize(2, SMALL))
    found = []
    for price in (3.2, 40.0):
        nodes = NODES.replace("cost_per_hour = 3.2", f"cost_per_hour = {price}")
        supply = Supply(NAMES, {}, nodes_from_toml(nodes, where="nodes.toml"))
        trials = StageTrials(model, 0.3, supply, seed=0, requests=1000)
        search = Search(trials, costs(profile), 0.2, SizeLevers(classes=False))
        met = search.cheapest(0.85 * search.p99_ms(start), start)
        found.append((met.sizes, search.least_p99(search.supply.cost(start), start).sizes))
    assert found[0] == found[1]


@pytest.mark.parametrize(("charges", "level"), [((0.5, 1.0), 2), ((1.0, 2.0), 1)])
def test_what_costs_up_to_a_millionth_of_the_least_price_counts_as_much(
    charges: tuple[float, float], level: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Copies of the first level win 10 ms, those of the second 15 ms."""
    search = search_of()
    millionth = 1e-6 * search.supply.price.min()
    charged = {0: 0.0, 1: charges[0] * millionth, 2: charges[1] * millionth}
    p99_ms = {1: 90.0, 2: 85.0}
    monkeypatch.setattr(search, "p99_ms", lambda sizes: p99_ms.get(sizes[0].level, 100.0))
    monkeypatch.setattr(search, "charged", lambda sizes: charged.get(sizes[0].level, 1.0))
    monkeypatch.setattr(search, "gain_bounds", lambda found, target_ms: {0: 60.0})
    assert step(search, (OTHER, OTHER), 10.0) == (replace(OTHER, level=level), OTHER)


@pytest.mark.parametrize(("good", "tried"), [(None, 12), (0, 13), (10, 23), (11, 24), (12, 12)])
def test_exchanges_end_when_twelve_in_a_row_have_failed(
    good: int | None, tried: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    search = search_of()
    monkeypatch.setattr(search, "spent", lambda sizes: 0.0)
    monkeypatch.setattr(search, "p99_ms", lambda sizes: 50.0)
    asked: list[Sizes] = []

    def walk(found: FoundSizes, target_ms: float, below: float = math.inf) -> FoundSizes:
        del target_ms, below
        asked.append(found.sizes)
        return replace(found, p99_ms=40.0) if len(asked) - 2 == good else found

    monkeypatch.setattr(search, "walk", walk)
    start = (StageSize(20), StageSize(20))
    found = search.least_p99(1000.0, start)
    assert len(asked) == 1 + tried  # the first is the walk before all exchanges
    assert found.sizes == (start if good is None or good >= 12 else asked[1 + good])
