"""Packing on the published fixture, its exact answers, and what every packing must keep."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from kwiken.base.arrays import Floats
from kwiken.base.errors import InputError
from kwiken.storage.consolidation.bound import least_nodes
from kwiken.storage.consolidation.interference import packing_order
from kwiken.storage.consolidation.moves import MoveRules, update_placement
from kwiken.storage.consolidation.packing import (
    DiskNodes,
    NodeLoads,
    PackObjects,
    PackRules,
    consolidate,
    placing_order,
)
from kwiken.storage.consolidation.search import searched
from papers.bloc.exact import fewest_nodes
from papers.bloc.packings import next_fit

NAMES = "ABCDE"
PAIRS = {
    "AB": 0.01, "BE": 0.01, "AE": 0.02, "BC": 0.03, "AC": 0.04,
    "CE": 0.05, "BD": 0.06, "DE": 0.08, "CD": 0.09, "AD": 0.20,
}  # fmt: skip


def fixture() -> tuple[PackObjects, DiskNodes, Floats]:
    limit = np.array([30.0, 70, 40, 60, 30])
    scores = np.zeros((5, 5))
    for pair, score in PAIRS.items():
        one, two = NAMES.index(pair[0]), NAMES.index(pair[1])
        scores[one, two] = scores[two, one] = score
    objects = PackObjects(
        tuple(NAMES),
        np.array([10.0, 8, 12, 20, 5]),
        np.array([100.0, 200, 150, 300, 50]),
        limit[:, None],
        np.full((5, 1), 800.0),
        np.arange(5),
        np.ones(5),
        np.arange(5),
    )
    nodes = DiskNodes(
        tuple("12345"), np.zeros(5, dtype=np.int64), np.full(5, 800.0), np.full(5, 100.0), np.arange(5)
    )
    return objects, nodes, scores


def groups(place: np.ndarray[tuple[int], np.dtype[np.int64]]) -> list[str]:
    return [
        "".join(name for name, node in zip(NAMES, place, strict=True) if node == each)
        for each in np.unique(place)
    ]


def test_the_order_is_that_of_first_appearance() -> None:
    objects, _, scores = fixture()
    order = packing_order(scores, objects.bandwidth_limit[:, 0])
    assert "".join(NAMES[which] for which in order) == "ABECD"


@pytest.mark.parametrize(
    ("reserve", "wanted"), [(0.02, ["ABE", "CD"]), (0.08, ["AB", "CE", "D"])], ids=["2", "8"]
)
def test_the_published_example(reserve: float, wanted: list[str]) -> None:
    objects, nodes, scores = fixture()
    order = packing_order(scores, objects.bandwidth_limit[:, 0])
    found = next_fit(objects, nodes, scores, PackRules(reserve_share=reserve), order)
    assert groups(found.place) == wanted


def without_limits(objects: PackObjects) -> PackObjects:
    return replace(objects, bandwidth_limit=np.full_like(objects.bandwidth_limit, np.inf))


def test_capacity_alone_fills_to_below_the_brim() -> None:
    objects, nodes, scores = fixture()
    order = packing_order(scores, objects.bandwidth_limit[:, 0])
    free = without_limits(objects)
    assert consolidate(free, nodes, scores, PackRules(most_interference=np.inf), order=order).nodes_used == 2


def test_an_object_above_its_own_limit_stands_alone() -> None:
    objects, nodes, scores = fixture()
    objects.bandwidth[3] = 90.0
    found = consolidate(objects, nodes, scores, PackRules(), order=np.arange(5))
    assert found.oversized == (3,)
    assert (found.place == found.place[3]).sum() == 1


@st.composite
def drawn(draw: st.DrawFn) -> tuple[PackObjects, DiskNodes, Floats]:
    count = draw(st.integers(1, 9))
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    limit = rng.uniform(20, 90, count)
    scores = rng.uniform(0, 0.12, (count, count))
    scores = (scores + scores.T) / 2
    datum = np.sort(rng.integers(0, max(1, count // 2), count))
    return (
        PackObjects(
            tuple(map(str, range(count))), limit * rng.uniform(0.05, 0.5, count), rng.uniform(10, 300, count),
            limit[:, None], np.full((count, 1), 900.0), np.arange(count), np.ones(count), datum,
        ),
        DiskNodes(
            tuple(map(str, range(12))), np.zeros(12, dtype=np.int64), np.full(12, 900.0), np.full(12, 100.0),
            np.arange(12) // 2,
        ),
        scores,
    )  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(drawn(), st.sampled_from([None, PackRules(apart=False), PackRules(fit="best", apart=False)]))
def test_every_packing_keeps_its_bounds(
    case: tuple[PackObjects, DiskNodes, Floats], given_rules: PackRules | None
) -> None:
    objects, nodes, scores = case
    order, rules = np.arange(len(objects)), given_rules or PackRules(apart=False)
    if given_rules is None:
        found = next_fit(objects, nodes, scores, rules, order)
    else:
        found = consolidate(objects, nodes, scores, rules, order=order)
    loads = NodeLoads(objects, nodes, scores, found.place)
    assert not found.unplaced
    shared = loads.count > 1
    assert (loads.bandwidth[shared] < loads.bandwidth_limit[shared] - 2).all()
    assert (loads.size[shared] < 900).all()
    assert (loads.interference[shared] < 0.10).all()
    for datum in np.unique(objects.datum):
        held = found.place[objects.datum == datum]
        assert len(np.unique(held)) == len(held)
    if not found.oversized:
        exact = fewest_nodes(objects, nodes, scores, rules)
        assert least_nodes(objects, nodes, scores, rules) <= exact <= found.nodes_used


@settings(max_examples=40, deadline=None)
@given(drawn())
def test_a_search_keeps_all_bounds_and_needs_no_more_nodes(
    case: tuple[PackObjects, DiskNodes, Floats],
) -> None:
    objects, nodes, scores = case
    rules = PackRules(apart=False)
    found = searched(objects, nodes, scores, rules, np.random.default_rng(0))
    loads = NodeLoads(objects, nodes, scores, found.place)
    shared = loads.count > 1
    assert not found.unplaced
    assert (loads.bandwidth[shared] < loads.bandwidth_limit[shared] - 2).all()
    assert (loads.size[shared] < 900).all()
    assert (loads.interference[shared] < 0.10).all()
    for datum in np.unique(objects.datum):
        held = found.place[objects.datum == datum]
        assert len(np.unique(held)) == len(held)
    order = placing_order(objects, scores)
    for each in (rules, PackRules(fit="best", apart=False)):
        rival = consolidate(objects, nodes, scores, each, order=order)
        assert found.nodes_used <= rival.nodes_used
    if not found.oversized:
        assert fewest_nodes(objects, nodes, scores, rules) <= found.nodes_used


def test_what_takes_most_of_the_largest_node_is_placed_first() -> None:
    """Six nodes hold all only if each takes one large, one middle and many small objects.

    The small ones stand first in the list and state a limit of their own; what the others state is beyond any node.
    Four nodes hold too many objects to be filled anew, so the first order decides.
    """
    sizes = np.repeat([1.0, 30.0, 50.5], [6 * 19, 6, 6])
    limits = np.where(sizes == 1.0, 100.0, 1e6)
    count = len(sizes)
    objects = PackObjects(
        tuple(f"o{number}" for number in range(count)),
        np.ones(count),
        sizes,
        np.full((count, 1), 1e3),
        limits[:, None],
        np.zeros(count, dtype=np.int64),
        np.ones(count),
        np.arange(count),
    )
    kinds = np.zeros(12, dtype=np.int64)
    names = tuple(f"n{number}" for number in range(12))
    nodes = DiskNodes(names, kinds, np.full(12, 100.0), np.full(12, 100.0), np.arange(12))
    rules = PackRules(most_interference=np.inf, apart=False)
    found = searched(without_limits(objects), nodes, np.zeros((1, 1)), rules, np.random.default_rng(0))
    assert not found.unplaced
    assert found.nodes_used == 6


def test_sums_after_moves_are_those_of_the_placement() -> None:
    objects, nodes, scores = fixture()
    loads = NodeLoads(objects, nodes, scores, np.array([0, 0, 1, 1, 0]))
    assert not loads.moved(1, np.array([3, 2]), np.array([0]), PackRules())  # D does not fit: undone
    loads.take(0, np.array([4]))
    loads.put(4, 2)
    fresh = NodeLoads(objects, nodes, scores, np.array([0, 0, 1, 1, 2]))
    for name in ("bandwidth", "size", "interference", "pressure", "bandwidth_limit", "size_limit", "count"):
        np.testing.assert_allclose(getattr(loads, name), getattr(fresh, name), atol=1e-12)


def test_replicas_keep_to_zones_of_their_own() -> None:
    objects, nodes, scores = fixture()
    objects = PackObjects(
        objects.names, objects.bandwidth, objects.size, objects.bandwidth_limit, objects.size_limit,
        objects.app, objects.load, np.array([0, 0, 1, 1, 2]),
    )  # fmt: skip
    nodes = DiskNodes(nodes.names, nodes.class_of, nodes.capacity, nodes.rated, np.array([0, 0, 0, 1, 1]))
    place = consolidate(objects, nodes, scores, PackRules(), order=np.arange(5)).place
    for one, two in ((0, 1), (2, 3)):
        assert nodes.zone[place[one]] != nodes.zone[place[two]]


def test_the_smallest_leave_an_overloaded_node_and_no_more_than_needed() -> None:
    objects, nodes, scores = fixture()
    place = np.array([0, 0, 1, 2, 0])
    objects.bandwidth[1] = 25.0  # A, B and E together are above A's limit of 30
    plan = update_placement(
        objects, nodes, scores, place, PackRules(), MoveRules(interval_s=1e5, drain=False), order=np.arange(5)
    )
    assert [move.which for move in plan.moves] == [4, 0]
    assert NodeLoads(objects, nodes, scores, plan.place).bandwidth[0] == 25.0


def test_moves_that_do_not_fit_the_interval_stay() -> None:
    objects, nodes, scores = fixture()
    objects.bandwidth[1] = 25.0
    plan = update_placement(
        objects, nodes, scores, np.array([0, 0, 1, 2, 0]), PackRules(), MoveRules(interval_s=10, drain=False),
        order=np.arange(5),
    )  # fmt: skip
    assert not plan.moves
    assert plan.late
    assert plan.place.tolist() == [0, 0, 1, 2, 0]


def test_calm_nodes_are_emptied() -> None:
    objects, nodes, scores = fixture()
    objects.bandwidth[:] /= 10
    plan = update_placement(
        objects, nodes, scores / 10, np.arange(5), PackRules(), MoveRules(interval_s=1e5), order=np.arange(5)
    )
    assert plan.asleep.sum() >= 2
    assert {move.which for move in plan.moves} == set(np.flatnonzero(plan.place != np.arange(5)).tolist())


def test_too_many_objects_for_the_exact_packing() -> None:
    objects, nodes, scores = fixture()
    many = PackObjects(
        tuple(map(str, range(13))), np.ones(13), np.ones(13), np.ones((13, 1)), np.ones((13, 1)),
        np.zeros(13, dtype=np.int64), np.ones(13), np.arange(13),
    )  # fmt: skip
    del objects
    with pytest.raises(InputError, match="12 at most"):
        fewest_nodes(many, nodes, scores, PackRules())


def test_without_a_cap_size_and_bandwidth_alone_bound_a_node() -> None:
    objects, nodes, scores = fixture()
    place = [
        consolidate(objects, nodes, 10 * scores, rules, order=np.arange(5)).place
        for rules in (PackRules(reserve_share=0), PackRules(most_interference=np.inf, reserve_share=0))
    ]
    assert len(np.unique(place[1])) < len(np.unique(place[0]))
    assert NodeLoads(objects, nodes, 10 * scores, place[1]).interference.max() > 0.1
