"""Joint improvement and priced choices: cheaper than one workload after another, and harmful to nobody."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.placement.joint.instances import FAMILIES, TRIAL_SEEDS, cluster_of, instance
from kwiken.allocator.placement.node_ledger import NodeLedger
from kwiken.allocator.placement.order import Newcomer, admit_all
from kwiken.allocator.placement.quality import contention_on
from kwiken.allocator.placement.sizing import Sizing
from kwiken.allocator.schedulers.default_scheduler import improve, put
from kwiken.allocator.schedulers.priced_choice import (
    PRICE_RANGE,
    PRICES,
    _bearable,
    _candidates,
    _first_of_groups,
    _Options,
    _options,
    priced_choices,
)
from kwiken.allocator.workloads.workload import Spread
from kwiken.base.arrays import Floats
from papers.worlds.schedulers.exact import solve
from papers.worlds.schedulers.names import scheduler
from tests.support.allocation.filled_ledger import fill
from tests.support.runtime.clusters import cluster, over_sources, profile, requested


def placed_one_by_one(family: str, seed: int) -> tuple[NodeLedger, list[Newcomer]]:
    ledger = NodeLedger(cluster_of(FAMILIES[family], seed))
    newcomers = []
    for request in instance(FAMILIES[family], seed):
        sizing = Sizing(request, ledger)
        scheduler("quasar").place(sizing)
        newcomers.append(Newcomer(sizing, 0))
    return ledger, newcomers


def first_choice(sizing: Sizing, dearer: Floats) -> None:
    for choice in priced_choices(sizing, contention_on(sizing.request, sizing.ledger), dearer):
        put(sizing, choice)
        if sizing.meets():
            return
        sizing.clear()


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("seed", [3, 4])
def test_it_costs_less_and_every_met_target_stays_met(family: str, seed: int) -> None:
    ledger, newcomers = placed_one_by_one(family, seed)
    met = [one.sizing.meets() for one in newcomers]
    cost = sum(one.sizing.cost for one in newcomers)
    improve(newcomers, first_choice)
    for one in newcomers:
        one.sizing.refresh()
    assert all(
        new or not old for new, old in zip([one.sizing.meets() for one in newcomers], met, strict=True)
    )
    if all(met):
        assert sum(one.sizing.cost for one in newcomers) <= cost
    assert (ledger.free_cores >= -1e-6).all()
    assert (ledger.slack >= -1e-6).all()


def test_a_cheaper_place_beside_a_workload_that_does_not_bear_it_is_not_taken() -> None:
    """The choice looks at costs alone, and the workload that it harms did not move."""
    nodes = cluster({"top": 2})
    rates: dict[float, float] = {2: 6e3, 8: 20e3}
    loud = profile(rates, {"top": 1.0}, name="loud", caused=over_sources(0.0, disk=0.9))
    quiet = profile(rates, {"top": 1.0}, name="quiet", tolerated=over_sources(1.0, disk=0.2))
    ledger = NodeLedger(nodes)
    sizings = [Sizing(requested(5.9e3, one, nodes), ledger) for one in (loud, quiet)]
    sizings[0].add(0, 1)
    sizings[1].add(1, 0)

    def choose(sizing: Sizing, dearer: Floats) -> None:
        del dearer
        put(sizing, [(1, 0)])

    improve([Newcomer(one, 0) for one in sizings], choose)
    for one in sizings:
        one.refresh()
    assert [one.meets() for one in sizings] == [True, True]
    assert [(one.node, one.size) for one in sizings[0].replicas] == [(0, 1)]


def test_a_choice_that_only_does_harm_is_undone() -> None:
    ledger, newcomers = placed_one_by_one("mixed", 5)
    before = [[(one.node, one.size) for one in each.sizing.replicas] for each in newcomers]
    free = ledger.free_cores.copy()
    improve(newcomers, lambda sizing, dearer: None)
    assert [[(one.node, one.size) for one in each.sizing.replicas] for each in newcomers] == before
    assert np.array_equal(ledger.free_cores, free)


def test_what_runs_already_stays_where_it_is() -> None:
    requests = instance(FAMILIES["unequal nodes"], 2)
    ledger = NodeLedger(cluster_of(FAMILIES["unequal nodes"], 2))
    running = Sizing(requests[0], ledger)
    running.add(0, 0)
    there = running.replicas[0]
    found = admit_all(requests, ledger, scheduler("thrifty"), [running])
    assert found[0].sizing is running
    assert running.replicas[0] is there


def test_a_workload_that_waited_is_placed_where_others_can_give_way() -> None:
    """Sized one by one some workload has no room; together all have."""
    helped = 0
    for seed in TRIAL_SEEDS:
        requests = instance(FAMILIES["nearly full"], seed)
        alone, together = (
            admit_all(requests, NodeLedger(cluster_of(FAMILIES["nearly full"], seed)), scheduler(name))
            for name in ("quasar", "thrifty")
        )
        unmet = [sum(not one.sizing.meets() for one in found) for found in (alone, together)]
        assert unmet[1] <= unmet[0]
        helped += unmet[1] < unmet[0]
    assert helped


@pytest.mark.parametrize("seed", range(4))
def test_no_replica_of_a_priced_choice_can_be_exchanged_for_a_cheaper_one(seed: int) -> None:
    cluster = cluster_of(FAMILIES["unequal nodes"], seed)
    request = instance(FAMILIES["unequal nodes"], seed)[0]  # at most one replica on a node
    sizing = Sizing(request, NodeLedger(cluster))

    def met(choice: list[tuple[int, int]]) -> bool:
        sizing.clear()
        for node, size in choice:
            sizing.add(node, size)
        return sizing.meets()

    cost = request.cost[:, cluster.class_of]  # by size and node
    fits = request.all_cores[:, None] <= cluster.cores
    fits &= request.memory_gb[:, None] <= cluster.memory_gb
    choices = priced_choices(sizing, contention_on(request, sizing.ledger))
    assert choices
    for choice in choices:
        assert met(choice)
        for place, (node, size) in enumerate(choice):
            others = choice[:place] + choice[place + 1 :]
            cheaper = fits & (cost < cost[size, node] * (1 - 1e-9))
            cheaper[:, [taken for taken, _ in others]] = False
            for new_size, new_node in np.argwhere(cheaper).tolist():
                assert not met([*others, (new_node, new_size)])


@pytest.mark.parametrize("family", ["mixed", "zones", "contended"])
def test_a_priced_choice_is_near_the_optimum_of_one_workload(family: str) -> None:
    over = []
    for seed in range(6):
        cluster = cluster_of(FAMILIES[family], seed)
        for request in instance(FAMILIES[family], seed)[:2]:
            sizing = Sizing(request, NodeLedger(cluster))
            first_choice(sizing, np.ones(len(cluster.nodes)))
            best = solve([request], NodeLedger(cluster)).cost
            if sizing.meets() and np.isfinite(best):
                over.append(sizing.cost / best - 1)
    assert len(over) >= 10
    assert min(over) > -1e-6
    assert np.mean(over) < 0.05


def test_no_choice_without_a_target_room_or_replicas_left() -> None:
    family = FAMILIES["mixed"]
    cluster = cluster_of(family, 0)
    request = instance(family, 0)[0]
    ledger = NodeLedger(cluster)
    sizing = Sizing(request, ledger)
    fill(ledger, free_cores=0.0)
    assert priced_choices(sizing, contention_on(request, ledger)) == []


@pytest.mark.parametrize(("count", "tries"), [(1, 12), (2, 12), (4, 72), (9, 400)])
def test_one_two_and_three_workloads_move_by_turns_twelve_times_a_pair(count: int, tries: int) -> None:
    nodes = cluster({"top": count})
    ledger = NodeLedger(nodes)
    newcomers = []
    for place in range(count):
        sizing = Sizing(requested(1e3, profile({2: 6e3}, {"top": 1.0}, name=f"w{place}"), nodes), ledger)
        sizing.add(place, 0)
        newcomers.append(Newcomer(sizing, 0))
    asked: list[float] = []

    def choose(sizing: Sizing, dearer: Floats) -> None:
        assert dearer.shape == (count,)
        asked.append(float(np.abs(np.log(dearer)).max()))

    improve(newcomers, choose)
    sizes = [min(count, 1 + number % 3) for number in range(tries)]
    assert len(asked) == sum(sizes)
    plain = sum(sizes[:count])
    assert set(asked[:plain]) == {0.0}  # each has a try at the prices as they are
    spread = asked[plain:]
    assert all(value > 0 for value in spread)
    if count == 9:
        deviations = np.array(spread) / 1.485  # the largest of nine standard normal deviates, in the median
        assert np.median(deviations) == pytest.approx(0.25, abs=0.05)
    improve([], choose)


def test_choices_of_equal_cost_come_in_the_order_of_their_nodes() -> None:
    """One large replica costs as much as two small ones, and performs as much."""
    nodes = cluster({"top": 4})
    request = requested(10e3, profile({2: 5e3, 4: 10e3}, {"top": 1.0}), nodes)
    request.cost[:] = [[1.0], [2.0]]
    choices = priced_choices(Sizing(request, NodeLedger(nodes)), contention_on(request, NodeLedger(nodes)))
    costs = [sum(float(request.cost[size, 0]) for _, size in choice) for choice in choices]
    assert costs.count(2.0) >= 2
    ordered = sorted(zip(costs, choices, strict=True))
    assert choices == [choice for _, choice in ordered]
    assert all(choice == sorted(choice) for choice in choices)


@pytest.mark.parametrize("seed", range(5))
def test_the_candidates_of_a_priced_choice_are_the_cheapest_at_some_price(seed: int) -> None:
    """At a price every node has one best size, and the nodes of the least cost beyond it are taken."""
    rng = np.random.default_rng(seed)
    worth = np.cumsum(rng.uniform(1.0, 5.0, (12, 3)), axis=1)
    cost = np.cumsum(rng.uniform(1.0, 5.0, (12, 3)), axis=1)
    some = np.arange(12)
    options = _Options(some, some, some, cost, worth, np.full(8, 30.0), repeats_groups=False)
    found = _candidates(options)
    assert found
    per = cost / worth
    prices = np.geomspace(PRICE_RANGE[0] * per.min(), PRICE_RANGE[1] * per.max(), PRICES)
    sets = []
    for price in prices:
        beyond = cost - price * worth
        size = beyond.argmin(axis=1)
        order = np.argsort(beyond.min(axis=1))
        sets += [(set(zip(order[:m].tolist(), size[order[:m]].tolist(), strict=True))) for m in range(1, 9)]
    enough = [one for one in sets if sum(worth[at] for at in one) >= 30.0]
    assert cost[found[0]].sum() == pytest.approx(min(sum(cost[at] for at in one) for one in enough))
    for places, sizes in found:
        assert worth[places, sizes].sum() >= 30.0 * (1 - 1e-6)
        assert set(zip(places, sizes, strict=True)) in sets


def test_a_priced_choice_stands_on_as_many_nodes_as_are_asked_for() -> None:
    nodes = cluster({"top": 4})
    request = requested(1e3, profile({1: 1e3, 2: 2e3}, {"top": 1.0}), nodes, min_nodes=3)
    sizing = Sizing(request, NodeLedger(nodes))
    choices = priced_choices(sizing, contention_on(request, sizing.ledger))
    assert choices
    assert all(len({node for node, _ in choice}) >= 3 for choice in choices)


def test_no_more_replicas_share_a_node_than_bear_one_another_at_any_source() -> None:
    """Each causes 0.3 at one source, and tolerates 0.5 there; so two may stand together, and not three.

    A resident bears 0.35 there, which is one of them.
    """
    nodes = cluster({"top": 2})
    about = profile(
        {1: 1e3},
        {"top": 1.0},
        caused=over_sources(0.0, disk=0.3, network=0.1),
        tolerated=over_sources(1.0, disk=0.5, network=0.9),
    )
    request = requested(4e3, about, nodes, spread=Spread.NONE)
    ledger = NodeLedger(nodes)
    delicate = profile({1: 1e3}, {"top": 1.0}, name="there", tolerated=over_sources(1.0, disk=0.35))
    Sizing(requested(1e3, delicate, nodes), ledger).add(1, 0)
    assert _bearable(Sizing(request, ledger), np.arange(2)).tolist() == [[2.0], [1.0]]


def test_of_each_group_the_node_that_comes_first_stays_in_its_place() -> None:
    order, groups = np.array([3, 1, 0, 2, 4]), np.array([0, 0, 1, 1, 2])
    assert _first_of_groups(order, groups).tolist() == [3, 1, 4]


def test_a_node_is_listed_for_as_many_replicas_of_the_smallest_size_as_it_takes() -> None:
    nodes = cluster({"top": 1}, cores=8)
    request = requested(8e3, profile({1: 1e3, 8: 9e3}, {"top": 1.0}), nodes, spread=Spread.NONE)
    sizing = Sizing(request, NodeLedger(nodes))
    assert _options(sizing, contention_on(request, sizing.ledger), None).nodes.tolist() == [0] * 8


def test_nothing_is_priced_for_best_effort_work_or_beyond_the_most_replicas() -> None:
    nodes = cluster({"top": 3})
    for rate, most in ((None, 2), (3e3, 1)):
        request = requested(rate, profile({1: 1e3}, {"top": 1.0}), nodes, max_replicas=most)
        sizing = Sizing(request, NodeLedger(nodes))
        sizing.add(0, 0)
        assert priced_choices(sizing, contention_on(request, sizing.ledger)) == []


def moved(kept: int, there: list[tuple[int, int]], choice: list[tuple[int, int]], need: float) -> list[int]:
    """Nodes of one workload after every try to place the workload somewhere else; the last node costs most."""
    nodes = cluster({"a": 1, "b": 1, "c": 1, "d": 1})
    request = requested(need, profile({2: 1e3}, dict.fromkeys("abcd", 1.0)), nodes)
    request.cost[:] = [[1.0, 2.0, 3.0, 4.0]]
    sizing = Sizing(request, NodeLedger(nodes))
    for node, size in there:
        sizing.add(node, size)
    improve([Newcomer(sizing, kept)], lambda one, dearer: one.add_all(choice))
    return [one.node for one in sizing.replicas]


@pytest.mark.parametrize(
    ("kept", "there", "choice", "need", "nodes"),
    [
        (0, [1], [0], 1e3, [0]),  # costs less
        (0, [0], [1], 1e3, [0]),  # costs more
        (0, [0], [1, 2], 2e3, [1, 2]),  # costs more, and meets the target that was missed
        (0, [2], [0], 2e3, [0]),  # costs less, and misses the target no more than before
        (0, [1, 2], [0], 2e3, [1, 2]),  # costs less, and misses the target that was met
        (1, [3, 2], [0], 2e3, [3, 0]),  # what ran before stays
        (1, [3, 0], [1], 2e3, [3, 0]),
    ],
)
def test_a_workload_moves_where_it_costs_less_or_meets_its_target_only_so(
    kept: int, there: list[int], choice: list[int], need: float, nodes: list[int]
) -> None:
    assert moved(kept, [(node, 0) for node in there], [(node, 0) for node in choice], need) == nodes


def test_a_move_that_takes_from_a_workload_that_stays_is_undone_whatever_it_saves() -> None:
    """Both miss their targets; the one on the dear node would press on the other one."""
    nodes = cluster({"near": 1, "far": 1})
    speeds = {"near": 1.0, "far": 1.0}
    loud = profile({2: 1e3}, speeds, name="loud", caused=over_sources(0.0, disk=0.9))
    quiet = profile({2: 1e3}, speeds, name="quiet", tolerated=over_sources(1.0, disk=0.2))
    for one, other, expected in ((loud, quiet, 1), (quiet, loud, 1), (quiet, quiet, 0)):
        ledger = NodeLedger(nodes)
        stays, moves = (Sizing(requested(9e3, each, nodes), ledger) for each in (one, other))
        for sizing, node in ((stays, 0), (moves, 1)):
            sizing.request.cost[:] = [[1.0, 2.0]]
            sizing.add(node, 0)

        def choose(sizing: Sizing, dearer: Floats, moves: Sizing = moves) -> None:
            del dearer
            put(sizing, [(0, 0)])

        improve([Newcomer(stays, 0), Newcomer(moves, 0)], choose)
        assert [each.node for each in moves.replicas] == [expected]


def test_what_is_put_is_trimmed_only_where_it_meets_the_target() -> None:
    nodes = cluster({"top": 4})
    request = requested(2e3, profile({2: 1e3}, {"top": 1.0}), nodes)
    for kept, choice, placed in (
        ([], [3, 0, 1], [3, 0]),  # the last one is not needed
        ([], [3], [3]),
        ([2, 3], [0], [2, 3]),
        ([2, 3, 1], [0], [2, 3, 1]),  # what was there is not trimmed
        ([2], [2, 2], [2, 2]),
    ):
        sizing = Sizing(request, NodeLedger(nodes))
        for node in kept:
            sizing.add(node, 0)
        put(sizing, [(node, 0) for node in choice])
        assert [one.node for one in sizing.replicas] == placed


@pytest.mark.parametrize(("saved", "node"), [(1.5e-6, 0), (0.7e-6, 1), (0.0, 1)])
def test_a_move_saves_a_millionth_of_the_cost_at_least(saved: float, node: int) -> None:
    nodes = cluster({"a": 1, "b": 1})
    request = requested(1e3, profile({2: 1e3}, {"a": 1.0, "b": 1.0}), nodes)
    request.cost[:] = [[1.0 - saved, 1.0]]
    sizing = Sizing(request, NodeLedger(nodes))
    sizing.add(1, 0)
    improve([Newcomer(sizing, 0)], lambda one, dearer: one.add(0, 0))
    assert [one.node for one in sizing.replicas] == [node]
