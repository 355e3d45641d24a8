"""Moves of a search: which sizes a step may go to, up and down, and what decides between them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from kwiken.allocator.capacity import outcomes, search as capacity_search, study
from kwiken.allocator.capacity.marginals import Marginal
from kwiken.allocator.capacity.outcomes import SizeOutcome, cheapest_of, start_with_given
from kwiken.allocator.capacity.search import FoundSizes, Search, SizeLevers
from kwiken.allocator.capacity.settings import SizeSettings
from kwiken.allocator.capacity.study import UnmetTargetError
from kwiken.allocator.capacity.supply import Sizes, StageNeed, StageSize, Supply
from kwiken.allocator.capacity.trials import FIXED_LEVEL, LEVELS, StageTrials
from kwiken.base.errors import InputError
from kwiken.model.nodes.document import nodes_from_toml
from kwiken.model.profile.cost_models import costs
from kwiken.tail.queueing.load.decompose import load_model
from tests.support.models.stragglers import straggling_profile

NODES = """
[[classes]]
name = "large"
cores = 64
memory_gb = 256
speed = 1.0
cost_per_hour = 3.2

[[classes]]
name = "small"
cores = 64
memory_gb = 256
speed = 0.5
cost_per_hour = 1.0

[[nodes]]
name = "large"
class = "large"

[[nodes]]
name = "small"
class = "small"
"""
PROFILE = straggling_profile(requests=1000)
MODEL = load_model(PROFILE)
NAMES = tuple(MODEL.stages)
LARGE, SMALL = 0, 1


def search_of(
    *, most: int = 40, max_reissue: float = 0.5, rate_per_s: float = 20.0, nodes: str = NODES
) -> Search:
    cluster = nodes_from_toml(nodes, where="nodes.toml")
    supply = Supply(NAMES, {name: StageNeed(max_replicas=most) for name in NAMES}, cluster)
    trials = StageTrials(MODEL, rate_per_s, supply, seed=0, requests=500)
    return Search(trials, costs(PROFILE), max_reissue)


OTHER = StageSize(4, LARGE)


@pytest.fixture(scope="module")
def found_by() -> Callable[[StageSize, str], set[StageSize]]:
    """Sizes of the first stage that one step from a size may go to, up or down."""
    search = search_of()

    def reached(now: StageSize, way: str) -> set[StageSize]:
        """Those sizes that a walk, or a trim, goes to where they alone are any good."""
        found = set()
        counts = range(1, 2 * now.replicas + 9)
        for size in (
            StageSize(count, place, level) for count in counts for place in (0, 1) for level in range(8)
        ):
            if size != now and goes(search, now, size, way):
                found.add(size)
        return found

    return reached


def goes(search: Search, now: StageSize, good: StageSize, way: str) -> bool:
    """Whether one step goes to a size where the p99 is 40 ms there, and 100 ms elsewhere."""
    start = (now, OTHER)

    def p99_ms(sizes: Sizes) -> float:
        first, second = sizes
        here = first in {good, now} if way == "down" else first == good
        return 40.0 if here and second == OTHER else 100.0

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "p99_ms", p99_ms)
        patch.setattr(search, "gain_bounds", lambda found, target_ms: {0: 60.0})
        if way == "down":
            return search.trim(search.found(start), 50.0).sizes == (good, OTHER)
        return search.walk(search.found(start), 50.0).sizes == (good, OTHER)


def step(search: Search, start: Sizes, target_ms: float, below: float = math.inf) -> Sizes | None:
    """Sizes that a walk of one move goes to; None for no move."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(capacity_search, "MAX_STEPS", 1)
        moved = search.walk(search.found(start), target_ms, below).sizes
    return None if moved == start else moved


def savings_of(search: Search, start: Sizes) -> list[Sizes]:
    """Sizes that an exchange gives something back to, in the order in which they are tried."""
    tried: list[Sizes] = []

    def walk(found: FoundSizes, target_ms: float, below: float = math.inf) -> FoundSizes:
        del target_ms, below
        tried.append(found.sizes)
        return replace(found, p99_ms=1.0 if len(tried) == 1 else 2.0)  # an exchange wins nothing

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "walk", walk)
        patch.setattr(capacity_search, "MAX_EXCHANGES", 1000)
        search.least_p99(1000.0, start)
    return tried[1:]


def sizes(*some: tuple[int, int, int]) -> set[StageSize]:
    return {StageSize(*one) for one in some}


def test_a_walk_goes_to_some_replicas_more_to_other_nodes_and_to_more_copies(
    found_by: Callable[[StageSize, str], set[StageSize]],
) -> None:
    assert found_by(StageSize(4, LARGE, 0), "up") == sizes(
        *((4, LARGE, level) for level in (1, 2, 4)),  # copies alone
        *((count, LARGE, 0) for count in (5, 6, 7)),
        *((5, LARGE, level) for level in (1, 3)),
        *((count, SMALL, 0) for count in (3, 4, 8, 9)),  # as many, or as much capacity, or a little more
    )
    assert found_by(StageSize(12, SMALL, 3), "up") == sizes(
        *((12, SMALL, level) for level in (2, 4, 5, 7)),
        *((count, SMALL, 3) for count in (13, 14, 18)),  # half as many again
        *((13, SMALL, level) for level in (4, 6)),
        *((count, LARGE, 3) for count in (6, 7, 11, 12)),
    )


def test_a_trim_goes_to_fewer_replicas_with_as_many_copies_or_some_more_and_to_fewer_copies(
    found_by: Callable[[StageSize, str], set[StageSize]],
) -> None:
    assert found_by(StageSize(5, SMALL, 2), "down") == sizes(
        *((count, SMALL, level) for count in (3, 4) for level in (2, 3, 4)),
        (5, SMALL, 1),
    )  # the fewest large nodes that serve the calls cost more


def test_a_single_replica_has_no_copies() -> None:
    search = search_of()
    assert goes(search, StageSize(2, LARGE, 2), StageSize(1, LARGE, 0), "down")
    assert not goes(search, StageSize(1, LARGE, 0), StageSize(1, LARGE, 1), "up")
    assert goes(search, StageSize(1, LARGE, 0), StageSize(1, SMALL, 0), "up")


@pytest.mark.parametrize(
    ("levers", "move", "goes_there"),
    [
        (SizeLevers(replicas=False), StageSize(5, LARGE, 0), False),
        (SizeLevers(replicas=False), StageSize(4, SMALL, 0), True),
        (SizeLevers(replicas=False), StageSize(8, SMALL, 0), False),
        (SizeLevers(classes=False), StageSize(8, SMALL, 0), False),
        (SizeLevers(classes=False), StageSize(5, LARGE, 0), True),
        (SizeLevers(reissues=False), StageSize(4, LARGE, 1), False),
        (SizeLevers(reissues=False), StageSize(5, LARGE, 1), False),
        (SizeLevers(reissues=False), StageSize(5, LARGE, 0), True),
    ],
)
def test_levers_leave_out_moves(levers: SizeLevers, move: StageSize, goes_there: bool) -> None:
    assert goes(search_of().only(levers), StageSize(4, LARGE, 0), move, "up") == goes_there


def test_no_step_goes_beyond_the_most_replicas_or_below_what_serves_the_calls() -> None:
    search = search_of(most=5)
    assert goes(search, StageSize(4, LARGE, 0), StageSize(5, LARGE, 0), "up")
    assert not goes(search, StageSize(4, LARGE, 0), StageSize(6, LARGE, 0), "up")
    busy = search_of(rate_per_s=400.0)
    fewest = busy.trials.fewest(0, SMALL)
    assert fewest == 4
    assert goes(busy, StageSize(2, LARGE, 0), StageSize(4, SMALL, 0), "up")
    assert not goes(busy, StageSize(2, LARGE, 0), StageSize(3, SMALL, 0), "up")
    assert not goes(busy, StageSize(2, LARGE, 0), StageSize(2, SMALL, 0), "up")


UNUSED = """
[[classes]]
name = "unused"
cores = 64
memory_gb = 256
speed = 2.0
cost_per_hour = 0.1
"""


CHEAP = NODES.replace("cost_per_hour = 3.2", "cost_per_hour = 3.2e-6").replace(
    "cost_per_hour = 1.0", "cost_per_hour = 1e-6"
)


@pytest.mark.parametrize("nodes", [NODES, NODES + UNUSED, CHEAP])
def test_the_move_of_most_gain_for_its_cost_is_made(nodes: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A replica more wins 30 ms for 0.04, two win 50 ms for 0.08, and small nodes win 5 ms and cost less.

    A class of which there is no node changes nothing, and so does another currency.
    """
    search = search_of(nodes=nodes).only(SizeLevers(reissues=False))
    start = (StageSize(4, LARGE), OTHER)
    told = {StageSize(5, LARGE): 70.0, StageSize(6, LARGE): 50.0, StageSize(4, SMALL): 99.99}
    monkeypatch.setattr(search, "p99_ms", lambda sizes: told.get(sizes[0], 100.0))
    monkeypatch.setattr(search, "gain_bounds", lambda found, target_ms: {0: 100.0})
    # Less than a two-thousandth is no gain.
    assert step(search, start, 10.0) == (StageSize(5, LARGE), OTHER)
    told[StageSize(4, SMALL)] = 95.0
    assert step(search, start, 10.0) == (StageSize(4, SMALL), OTHER)
    assert step(search, start, 99.999) is None  # nothing beyond the target counts
    below = search.supply.cost(start) * (1 + 1e-6)
    told[StageSize(4, SMALL)] = 100.0
    assert step(search, start, 10.0, below) is None


def test_copies_are_not_given_where_the_fewest_replicas_cannot_serve_them_too() -> None:
    """Two replicas that calls alone keep nearly as busy as allowed, or half as busy."""
    supply = Supply(NAMES, {})
    busy = StageTrials(MODEL, 100.0, supply, seed=0, requests=500).busy_cores(0, 0) / 100.0
    for share, copied in ((0.999, False), (0.6, True)):
        trials = StageTrials(MODEL, share * 1.8 / busy, supply, seed=0, requests=1000)
        search = Search(trials, costs(PROFILE), 0.2)
        given = start_with_given(search)
        assert given is not None
        assert given[0] == StageSize(2, 0, FIXED_LEVEL if copied else 0)
        assert trials.given_level(0) > 0
        assert math.isfinite(search.p99_ms(given))


def test_the_cheapest_that_meets_a_goal_is_chosen_and_else_the_least_p99() -> None:
    def found(p99_ms: float, cost: float) -> FoundSizes:
        return FoundSizes((), p99_ms, cost)

    some = [found(90.0, 3.0), found(100.0, 2.0), found(95.0, 2.0), found(101.0, 1.0)]
    assert cheapest_of(some, 100.0) is some[2]
    assert cheapest_of(some, 100.5) is some[2]
    assert cheapest_of(some, 101.0) is some[3]
    assert cheapest_of(some, 80.0) is some[0]


@pytest.mark.parametrize(
    ("rate_per_s", "most", "fits"), [(160.0, 5, True), (160.0, 4, False), (100.0, 3, True), (101.0, 3, False)]
)
def test_recorded_replicas_rise_with_the_rate(rate_per_s: float, most: int, fits: bool) -> None:
    """Three replicas were recorded for about 100 requests a second."""
    search = search_of(most=most, rate_per_s=rate_per_s / 100.0 * MODEL.rate_per_s)
    given = start_with_given(search)
    assert (given is not None) == fits
    for size in given or ():
        assert size.level in {0, FIXED_LEVEL}
        assert size.level == 0 or size.replicas > 1


def settings(**changed: object) -> SizeSettings:
    made = SizeSettings(target_p99_ms=80.0, rate_per_s=150.0, created="2026-01-01T00:00:00Z")
    return replace(made, **changed)  # type: ignore[arg-type]


def test_settings_that_are_left_out_are_the_usual_ones() -> None:
    usual = settings()
    assert (usual.max_reissue, usual.seed, usual.frontier, usual.copy_correlation) == (0.05, 0, False, None)
    assert (StageNeed().memory_gb, StageNeed().max_replicas) == (1.0, 64)
    assert settings(max_reissue=0.0).max_reissue == 0.0
    assert settings(max_reissue=1.0).max_reissue == 1.0
    assert settings(rate_per_s=1e9).rate_per_s == 1e9


def unmet(
    monkeypatch: pytest.MonkeyPatch,
    on_the_way_ms: float | None,
    at_the_end_ms: float | None,
    *,
    helpful: Sequence[Marginal] = (),
    **changed: object,
) -> UnmetTargetError:
    """Error of a sizing that verified sizes of these p99 on its way and at its end; None for none."""

    def outcome(p99_ms: float | None) -> SizeOutcome | None:
        return None if p99_ms is None else cast("SizeOutcome", SimpleNamespace(p99_ms=p99_ms, cost=3.25))

    least = FoundSizes((), 80.0, 1.0)
    monkeypatch.setattr(study, "load_model", lambda *_, **__: MODEL)
    monkeypatch.setattr(study, "start_with_given", lambda search: None)
    monkeypatch.setattr(study, "in_two_steps", lambda search, given: lambda goal_ms: least)
    monkeypatch.setattr(study, "reached", lambda *_, seed: (None, outcome(on_the_way_ms)))
    monkeypatch.setattr(study, "checked", lambda *_, seed: outcome(at_the_end_ms))
    monkeypatch.setattr(study, "marginals", lambda search, sizes: helpful)
    monkeypatch.setattr(study, "slowest_stage", lambda search, sizes: ("a", 123.456))
    monkeypatch.setattr(Search, "min_gain_ms", lambda search, sizes: 1.0)
    with pytest.raises(UnmetTargetError) as caught:
        study.study_size(PROFILE, settings(**changed))
    return caught.value


@pytest.mark.parametrize(
    ("forbidden", "change_ms", "told"),
    [
        (("nodes", "reissues"), -10.0, "the nodes have no room for more or faster replicas that would help"),
        (("reissues", ""), -10.0, "the budget of copies, 0.05 of all work, is used up"),
        (("", ""), -10.0, "by calls that are slow of themselves"),
        (("nodes", "reissues"), -1.0, "by calls that are slow of themselves"),
        (("nodes", "reissues"), 10.0, "by calls that are slow of themselves"),
    ],
)
def test_what_stands_against_a_lower_p99_is_told(
    forbidden: tuple[str, str], change_ms: float, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [Marginal("a", "replica more", change_ms, 1.0, one) for one in forbidden]
    text = str(unmet(monkeypatch, None, None, helpful=found))
    assert told in text
    assert "at stage 'a', 123.5 ms beyond its median" in text


@pytest.mark.parametrize(("value_ms", "text"), [(9999.4, "9999"), (10_000.0, "10,000"), (0.12345, "0.1235")])
def test_times_are_told_without_an_exponent(
    value_ms: float, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert f"the nearest is {text} ms at" in str(unmet(monkeypatch, value_ms, None))


@pytest.mark.parametrize(("on_the_way_ms", "at_the_end_ms"), [(97.0, 90.0), (90.0, 97.0)])
def test_the_nearest_is_the_least_p99_that_was_verified(
    on_the_way_ms: float, at_the_end_ms: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert unmet(monkeypatch, on_the_way_ms, at_the_end_ms).nearest_ms == 90.0


def test_the_nearest_is_told_with_its_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    free = nodes_from_toml(
        NODES.replace("cost_per_hour = 3.2\n", "").replace("cost_per_hour = 1.0\n", ""), where="n"
    )
    priced = nodes_from_toml(NODES, where="n")
    single = replace(priced, classes=priced.classes[:1], nodes=priced.nodes[:1])
    for cluster, unit in ((None, "cores"), (free, "cores"), (priced, "an hour"), (single, "an hour")):
        told = str(unmet(monkeypatch, 97.0, None, cluster=cluster))
        assert f"the nearest is 97 ms at a cost of 3.25 {unit}; the slowest requests lose most" in told
    nothing = unmet(monkeypatch, None, None)
    assert math.isinf(nothing.nearest_ms)
    assert "nearest" not in str(nothing)


def test_copies_go_where_they_help_when_their_budget_is_used_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies of the first stage help, and the second stage has all that the budget allows."""
    search = search_of()
    start = (StageSize(4, LARGE, 0), StageSize(4, LARGE, 5))
    monkeypatch.setattr(search, "spent", lambda sizes: 0.1 * sum(size.level for size in sizes))
    monkeypatch.setattr(search, "p99_ms", lambda sizes: 40.0 if sizes[0].level else 100.0)
    monkeypatch.setattr(search, "gain_bounds", lambda found, target_ms: {0: 60.0})
    found = step(search, start, 10.0)
    assert found is not None
    assert found[0].level > 0
    assert found[1] == StageSize(4, LARGE, 5 - found[0].level)


def test_a_stage_does_not_give_up_copies_for_its_own_move(monkeypatch: pytest.MonkeyPatch) -> None:
    """A replica with copies of three levels more is beyond the budget; the copies of other stages would pay."""
    search = search_of()
    monkeypatch.setattr(search, "spent", lambda sizes: 0.1 * sum(size.level for size in sizes))
    fast = [StageSize(5, LARGE, level) for level in (5, 6)]
    monkeypatch.setattr(search, "p99_ms", lambda sizes: 40.0 if sizes[0] in fast else 100.0)
    monkeypatch.setattr(search, "gain_bounds", lambda found, target_ms: {0: 60.0})
    start = (StageSize(4, LARGE, 3), StageSize(4, LARGE, 0))
    assert step(search, start, 10.0) is None
    start = (StageSize(4, LARGE, 3), StageSize(4, LARGE, 2))
    assert step(search, start, 10.0) is None  # six levels of the first stage alone are more than five
    unit = 0.5 / 6  # of a level, so that six are paid for
    monkeypatch.setattr(search, "spent", lambda sizes: unit * sum(size.level for size in sizes))
    assert step(search, start, 10.0) == (fast[1], StageSize(4, LARGE, 0))


def test_what_costs_least_p99_is_given_back_first(monkeypatch: pytest.MonkeyPatch) -> None:
    search = search_of().only(SizeLevers(reissues=False, classes=False))
    start = (StageSize(4, LARGE), StageSize(4, LARGE))
    monkeypatch.setattr(
        search, "p99_ms", lambda sizes: 100.0 + 20.0 * (4 - sizes[0].replicas) + 5.0 * (4 - sizes[1].replicas)
    )
    savings = [tuple(size.replicas for size in sizes) for sizes in savings_of(search, start)]
    assert savings == [(4, 3), (4, 2), (3, 4), (2, 4)]


def test_what_costs_as_much_is_no_saving(monkeypatch: pytest.MonkeyPatch) -> None:
    search = search_of(nodes=NODES.replace("cost_per_hour = 1.0", "cost_per_hour = 3.2"))
    monkeypatch.setattr(search, "p99_ms", lambda sizes: 50.0)
    found = search.found((StageSize(4, LARGE), OTHER))
    savings = savings_of(search, found.sizes)
    assert (StageSize(3, SMALL), OTHER) in savings
    assert all(search.supply.cost(sizes) < found.cost - 0.01 for sizes in savings)


@pytest.mark.parametrize(("count", "reached"), [(5, False), (6, True), (7, True), (8, True), (9, False)])
def test_on_other_nodes_about_as_much_capacity_is_tried(count: int, reached: bool) -> None:
    """Four replicas do as much as six and two thirds at a speed of 0.6."""
    search = search_of(nodes=NODES.replace("speed = 0.5", "speed = 0.6"))
    assert goes(search, StageSize(4, LARGE), StageSize(count, SMALL), "up") == reached


def test_an_error_names_the_fewest_replicas_on_any_class() -> None:
    search = search_of(most=1, rate_per_s=400.0)
    assert [search.trials.fewest(0, place) for place in (LARGE, SMALL)] == [2, 4]
    with pytest.raises(InputError, match="stage 'fetch' needs 2 or more replicas of one core"):
        search.cheapest_start()


@pytest.mark.parametrize("name", ["target_p99_ms", "rate_per_s"])
@pytest.mark.parametrize("value", [0.0, -1.0, math.inf, math.nan])
def test_a_target_and_a_rate_are_finite_and_above_0(name: str, value: float) -> None:
    with pytest.raises(InputError, match=f"{name}: must be a finite number above 0"):
        settings(**{name: value})


@pytest.mark.parametrize(
    ("given", "near"), [(1, {1, 2}), (4, {3, 4, 5}), (len(LEVELS) - 1, {len(LEVELS) - 2, len(LEVELS) - 1})]
)
def test_beside_a_given_policy_none_and_those_of_about_as_many_copies_are_tried(
    given: int, near: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    search = search_of()
    monkeypatch.setattr(search.trials, "given_level", lambda stage: given)
    now = StageSize(3, LARGE, FIXED_LEVEL)
    reached = {level for level in range(len(LEVELS)) if goes(search, now, replace(now, level=level), "up")}
    assert reached == {0, *near}


def test_what_just_meets_the_target_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    search = search_of().only(SizeLevers(reissues=False, classes=False))
    monkeypatch.setattr(search, "p99_ms", lambda sizes: 50.0)
    found = search.trim(search.found((StageSize(4), StageSize(4))), 50.0)
    assert found.sizes == (StageSize(1), StageSize(1))


def test_the_second_order_is_tried_where_policies_were_given(monkeypatch: pytest.MonkeyPatch) -> None:
    dear, cheap = FoundSizes((StageSize(4),), 90.0, 4.0), FoundSizes((StageSize(3),), 95.0, 3.0)
    monkeypatch.setattr(outcomes, "replicas_then_reissues", lambda search, goal_ms: dear)
    monkeypatch.setattr(outcomes, "reissues_then_replicas", lambda search, given, goal_ms: cheap)
    search = search_of()
    assert outcomes.in_two_steps(search, None)(100.0) is dear
    assert outcomes.in_two_steps(search, (StageSize(2),))(100.0) is cheap
    assert outcomes.in_two_steps(search, (StageSize(2),))(92.0) is dear


def test_each_exchange_is_tried_once_and_the_best_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second saving leads to a lower p99; what was tried before it is not tried again from there."""
    search = search_of().only(SizeLevers(reissues=False, classes=False))
    start = (StageSize(4, LARGE), OTHER)
    tried: list[Sizes] = []
    monkeypatch.setattr(search, "p99_ms", lambda sizes: 50.0)

    def walk(found: FoundSizes, target_ms: float, below: float = math.inf) -> FoundSizes:
        del target_ms, below
        tried.append(found.sizes)
        # From there the walk goes on to the sizes that it began with.
        return replace(search.found(start), p99_ms=40.0) if len(tried) == 3 else found

    monkeypatch.setattr(search, "walk", walk)
    found = search.least_p99(1000.0, start)
    assert (found.sizes, found.p99_ms) == (start, 40.0)
    assert tried[0] == start
    assert len(set(tried[1:])) == len(tried[1:]) == 4  # one and two replicas less of each stage
