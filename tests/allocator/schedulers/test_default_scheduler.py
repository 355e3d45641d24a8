"""Default scheduler: which nodes are looked at where there are many, and a choice by prices alone."""

from __future__ import annotations

import numpy as np
import pytest

from kwiken.allocator.placement.node_ledger import NodeLedger
from kwiken.allocator.placement.request import PlacementRequest
from kwiken.allocator.placement.sizing import Sizing
from kwiken.allocator.schedulers.default_scheduler import choose_by_price
from kwiken.allocator.schedulers.names import scheduler
from kwiken.allocator.workloads.workload import Spread
from kwiken.base.arrays import Floats
from kwiken.model.nodes.nodes import Cluster, Node, NodeClass
from tests.support.allocation.filled_ledger import fill, on_source
from tests.support.runtime.clusters import cluster, profile, requested

SPEEDS = {"top": 1.0, "low": 0.6}


def chosen(request: PlacementRequest, nodes: Cluster, dearer: Floats | None = None) -> list[tuple[int, int]]:
    sizing = Sizing(request, NodeLedger(nodes))
    choose_by_price(sizing, np.ones(len(nodes.nodes)) if dearer is None else dearer)
    return [(one.node, one.size) for one in sizing.replicas]


def cheap_at(count: int, *places: int) -> Floats:
    """Factors of the costs of nodes: 0.01 at some places, and 100 at all others."""
    dearer = np.full(count, 100.0)
    dearer[[*places]] = 0.01
    return dearer


@pytest.mark.parametrize(("most", "listed"), [(3, 64), (32, 64), (40, 80)])
def test_as_many_nodes_are_listed_as_the_replicas_need_twice_and_64_at_least(most: int, listed: int) -> None:
    """The last node performs least, also for its cost, and it alone is made cheap."""
    for others, last in ((listed - 1, True), (listed, False)):
        nodes = cluster({"top": others, "low": 1})
        request = requested(500, profile({2: 1e3}, SPEEDS), nodes, max_replicas=most)
        assert chosen(request, nodes, cheap_at(others + 1, others)) == [(others if last else 0, 0)]


def test_every_zone_is_looked_at_where_the_best_nodes_are_in_one() -> None:
    """A hundred nodes of one zone perform most, also for their cost; two replicas need two zones."""
    classes = tuple(NodeClass(name=name, cores=8.0, memory_gb=64.0) for name in SPEEDS)
    nodes = Cluster(classes, (*(Node(f"a{n}", "top", "a") for n in range(100)), Node("b0", "low", "b")))
    request = requested(1.5e3, profile({2: 1e3}, SPEEDS), nodes, spread=Spread.ZONE, max_replicas=2)
    assert chosen(request, nodes) == [(0, 0), (100, 0)]


def test_the_best_of_each_class_in_each_zone_are_listed() -> None:
    """In each of two zones are a hundred nodes of either class; one of the low ones alone is made cheap."""
    classes = tuple(NodeClass(name=name, cores=8.0, memory_gb=64.0) for name in SPEEDS)
    names = [(name, zone) for zone in "ab" for name in SPEEDS for _ in range(100)]
    nodes = Cluster(classes, tuple(Node(f"n{at}", *pair) for at, pair in enumerate(names)))
    request = requested(500, profile({2: 1e3}, SPEEDS), nodes, spread=Spread.ZONE, max_replicas=2)
    for cheap, listed in ((100, True), (115, True), (116, False), (315, True), (316, False)):
        assert (chosen(request, nodes, cheap_at(400, cheap)) == [(cheap, 0)]) is listed


def test_of_equal_nodes_the_first_ones_are_listed() -> None:
    """Of 100 nodes that are alike, the first 64 are; the cheapest of these come first."""
    nodes = cluster({"top": 100})
    request = requested(1e3, profile({2: 1e3}, {"top": 1.0}), nodes, max_replicas=2)
    for cheap, expected in (([63, 64], 63), ([64, 99], 0), ([0, 1], 0)):
        assert chosen(request, nodes, cheap_at(100, *cheap)) == [(expected, 0)]


def test_nodes_are_listed_by_performance_and_by_performance_for_cost() -> None:
    """70 nodes perform more and 70 cost less; one of either kind that is made cheap is found."""
    nodes = cluster({"top": 70, "low": 70})
    request = requested(500, profile({2: 1e3}, SPEEDS), nodes, max_replicas=2)
    request.cost[:] = [[9.0, 1.0]]
    for cheap in (63, 70 + 63):
        assert chosen(request, nodes, cheap_at(140, cheap)) == [(cheap, 0)]


def test_a_choice_by_prices_places_all_that_the_target_needs_or_nothing() -> None:
    nodes = cluster({"top": 3})
    for rate, count in ((2.5e3, 3), (3.5e3, 0)):
        assert len(chosen(requested(rate, profile({2: 1e3}, {"top": 1.0}), nodes), nodes)) == count


def test_a_list_of_64_ends_among_the_nodes_that_come_next() -> None:
    """63 nodes perform more than two others, of which the first is listed."""
    nodes = cluster({"top": 63, "low": 2})
    request = requested(500, profile({2: 1e3}, SPEEDS), nodes, max_replicas=2)
    for cheap, expected in ((63, 63), (64, 0)):
        assert chosen(request, nodes, cheap_at(65, cheap)) == [(expected, 0)]


def test_best_effort_work_is_placed_however_little_it_performs() -> None:
    nodes = cluster({"top": 2})
    request = requested(None, profile({2: 0.1}, {"top": 1.0}), nodes, max_replicas=2)
    sizing = Sizing(request, NodeLedger(nodes))
    scheduler("thrifty").place(sizing)
    assert [one.node for one in sizing.replicas] == [0, 1]


@pytest.mark.parametrize(("place", "listed"), [(0, True), (62, True), (63, True), (64, False), (65, False)])
def test_of_many_nodes_that_differ_the_best_64_are_listed(place: int, listed: bool) -> None:
    nodes = cluster({"top": 400})
    request = requested(500, profile({2: 1e3}, {"top": 1.0}), nodes, max_replicas=2)
    pressure = on_source(np.random.default_rng(place).permutation(400) / 400)
    ledger = fill(NodeLedger(nodes), pressure=pressure)
    cheap = int(ledger.pressure[0].argsort()[place])
    sizing = Sizing(request, ledger)
    choose_by_price(sizing, cheap_at(400, cheap))
    assert ([one.node for one in sizing.replicas] == [cheap]) is listed
