"""Virtual clusters in a tree: the worked example, feasibility against brute force, and the choice of a tuple."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from papers.corral.tuples.rack_tree import RackTree, TreeReservation
from papers.corral.tuples.tuple_selection import TupleOffer, select_tuple


def one_rack() -> RackTree:
    return RackTree(2, np.zeros(4, dtype=np.int64), np.zeros(1, dtype=np.int64), 1000.0, 1e9, 1e9)


def test_the_worked_example() -> None:
    tree = one_rack()
    few, many = tree.reserve(3, 500.0), tree.reserve(6, 200.0)
    assert few is not None
    assert many is not None
    assert (few.machines.tolist(), few.counts.tolist()) == ([0, 1], [2, 1])
    assert tree.demands(few)[0][1].tolist() == [500.0, 500.0]
    assert tree.demands(many)[0][1].tolist() == [400.0] * 3
    rack_slots = [(5 / 8) ** 2, (2 / 8) ** 2]
    # One rack is its own pod and core here: its slots count once in the example.
    assert tree.imbalance(few) - rack_slots[0] == pytest.approx(1.140625)
    assert tree.imbalance(many) - rack_slots[1] == pytest.approx(1.1425)
    assert tree.imbalance(few, "machines") == pytest.approx(0.75)
    assert tree.imbalance(many, "machines") == pytest.approx(1.08)
    unused_links = 2.0  # uplinks of the rack and of the pod, which the example has not
    assert tree.imbalance(few, "all") - rack_slots[0] - unused_links == pytest.approx(5.140625)
    assert tree.imbalance(many, "all") - rack_slots[1] - unused_links == pytest.approx(3.1425)


def test_links_carry_the_smaller_part() -> None:
    tree = RackTree(4, np.zeros(2, dtype=np.int64), np.zeros(1, dtype=np.int64), 1000.0, 1e9, 1e9)
    whole = tree.reserve(4, 200.0)
    assert whole is not None
    assert tree.demands(whole)[0][1].tolist() == [0.0]
    split = TreeReservation(4, 200.0, np.array([0, 1]), np.array([2, 2]))
    assert tree.demands(split)[0][1].tolist() == [400.0, 400.0]


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 10_000))
def test_a_reservation_is_found_exactly_where_there_is_one(seed: int) -> None:
    chance = np.random.default_rng(seed)
    racks = int(chance.integers(1, 4))
    rack_of = np.sort(chance.integers(0, racks, int(chance.integers(racks, 7))))
    rack_of = np.unique(rack_of, return_inverse=True)[1]
    pods = np.sort(chance.integers(0, 2, int(rack_of.max()) + 1))
    pods = np.unique(pods, return_inverse=True)[1]
    tree = RackTree(3, rack_of, pods, 100.0, float(chance.uniform(50, 300)), float(chance.uniform(50, 300)))
    tree.free = chance.integers(0, 4, len(rack_of))
    tree.links[0] = chance.uniform(0, 100, len(rack_of))
    size, bandwidth = int(chance.integers(1, 9)), float(chance.uniform(1, 80))
    found = tree.reserve(size, bandwidth)
    possible = any(
        sum(counts) == size and tree.has_room(_reservation(size, bandwidth, counts))
        for counts in itertools.product(*(range(int(free) + 1) for free in tree.free))
    )
    assert (found is not None) == possible
    if found is not None:
        assert found.counts.sum() == size
        assert tree.has_room(found)


def _reservation(size: int, bandwidth: float, counts: tuple[int, ...]) -> TreeReservation:
    numbers = np.array(counts, dtype=np.int64)
    return TreeReservation(size, bandwidth, np.flatnonzero(numbers), numbers[numbers > 0])


def test_what_is_given_back_restores_everything() -> None:
    chance = np.random.default_rng(3)
    tree = RackTree(4, np.repeat(np.arange(4), 5), np.array([0, 0, 1, 1]), 1000.0, 2000.0, 3000.0)
    taken = []
    for _ in range(30):
        found = tree.reserve(int(chance.integers(1, 12)), float(chance.integers(1, 400)))
        if found is not None:
            tree.take(found)
            taken.append(found)
        assert (tree.free >= 0).all()
        assert all((link >= -1e-6).all() for link in tree.links)
    assert 80 - tree.free.sum() == sum(one.size for one in taken)
    for found in taken:
        tree.take(found, -1)
    assert (tree.free == 4).all()
    assert [float(link.min()) for link in tree.links] == pytest.approx([1000.0, 2000.0, 3000.0])


def test_choices() -> None:
    chance = np.random.default_rng(0)
    offers = [TupleOffer(6, 200.0, 50.0), TupleOffer(3, 500.0, 100.0)]
    assert select_tuple(one_rack(), offers[:1], "balanced", chance).offer == offers[0]  # type: ignore[union-attr]
    assert select_tuple(one_rack(), offers, "base", chance).offer == offers[0]  # type: ignore[union-attr]
    assert select_tuple(one_rack(), offers, "fastest", chance).offer == offers[0]  # type: ignore[union-attr]
    assert select_tuple(one_rack(), offers, "time", chance).offer == offers[0]  # type: ignore[union-attr]
    full = one_rack()
    before = [link.copy() for link in full.links]
    assert select_tuple(full, [TupleOffer(9, 1.0, 1.0)], "balanced", chance) is None
    assert all((link == old).all() for link, old in zip(full.links, before, strict=True))
    same_time = [TupleOffer(6, 200.0, 50.0), TupleOffer(3, 500.0, 50.0)]
    balanced = select_tuple(one_rack(), same_time, "balanced", chance)
    timed = select_tuple(one_rack(), same_time, "time", chance)
    assert balanced is not None
    assert timed is not None
    assert balanced.offer == timed.offer
