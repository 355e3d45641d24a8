"""Priced choices that look at kinds of nodes are those of every node alone, to the last bit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, strategies as st

from kwiken.allocator.placement.headroom import Caution
from kwiken.allocator.placement.node_ledger import DrawKind, NodeLedger
from kwiken.allocator.placement.quality import contention_on
from kwiken.allocator.placement.request import PlacementRequest
from kwiken.allocator.placement.sizing import Sizing
from kwiken.allocator.schedulers.priced_choice import (
    PRICES,
    _candidates,
    _Options,
    _prices,
    _Swaps,
    priced_choices,
)
from kwiken.allocator.workloads.sources import SOURCES
from kwiken.allocator.workloads.workload import Spread
from kwiken.model.nodes.nodes import Cluster
from tests.support.allocation import plain_choices
from tests.support.allocation.filled_ledger import fill
from tests.support.runtime.clusters import cluster, known, profile, requested

SPEEDS = {"top": 1.0, "even": 1.0, "low": 0.6}


def drawn(rng: np.random.Generator, nodes: Cluster, name: str) -> PlacementRequest:
    """Workload with random curves and scores; some sizes draw less than worse ones, some cost the same."""
    about = profile(
        {1: 3e3, 2: 5.5e3 if rng.random() < 0.7 else 6e3, 4: 10e3, 3: float(rng.uniform(5e3, 11e3))},
        SPEEDS,
        name=name,
        efficiency=[1 / (1 + 0.05 * rng.random() * n) for n in range(int(rng.integers(3, 14)))],
        tolerated=known(rng.uniform(0.3, 1.2, len(SOURCES))),
        caused=known(rng.uniform(0, 0.2, len(SOURCES))),
    )
    caution = Caution(later_loss=float(rng.choice([0.0, 0.02, 0.05, 0.2])))
    spread = list(Spread)[int(rng.integers(3))]
    memory_gb = float(rng.choice([1.0, 16.0, 32.0]))  # of 64 that a node has
    need = float(rng.uniform(2e3, 60e3))
    request = requested(need, about, nodes, caution=caution, spread=spread, memory_gb=memory_gb)
    return replace(request, shares={DrawKind.REISSUES: 0.1}) if rng.random() < 0.2 else request


@given(st.integers(0, 2**32 - 1))
def test_choices_are_those_of_the_long_way(seed: int) -> None:
    rng = np.random.default_rng(seed)
    nodes = cluster({"top": 9, "even": 4, "low": 12}, zones=6)
    ledger = NodeLedger(nodes)
    for number in range(5):
        resident = Sizing(drawn(rng, nodes, f"r{number}"), ledger)
        for node in np.flatnonzero(rng.random(25) < 0.4).tolist():
            size = int(rng.integers(len(resident.request.cores)))
            if resident.takes(node, size) and ledger.bears(
                node, resident.request.pressure_on(node, size, nodes)
            ):
                resident.add(node, size)
    sizing = Sizing(drawn(rng, nodes, "placed"), ledger)
    for node in rng.choice(25, int(rng.integers(3)), replace=False).tolist():
        if sizing.takes(node, 0) and sizing.open_nodes()[node]:
            sizing.add(node, 0)
    contention = contention_on(sizing.request, ledger)
    for dearer in (None, np.exp(0.3 * rng.standard_normal(25)), np.ones(25)):
        expected = plain_choices.priced_choices(sizing, contention, dearer)
        assert priced_choices(sizing, contention, dearer) == expected


@given(st.floats(1e-9, 1e9), st.floats(1.0, 1e9))
def test_prices_are_evenly_spaced_in_their_logarithm(low: float, ratio: float) -> None:
    assert _prices(low, low * ratio).tolist() == np.geomspace(low, low * ratio, PRICES).tolist()


def options_of(rng: np.random.Generator, *, repeats: bool) -> tuple[_Options, plain_choices.PlainOptions]:
    """Nodes of a few kinds, whose costs and performance are small whole numbers, so that many are equal."""
    sizes, nodes = int(rng.integers(1, 4)), int(rng.integers(2, 10))
    drawn_kinds = np.concatenate(([0], rng.integers(0, rng.integers(1, 5), nodes - 1)))
    kinds, kind_of = np.unique(drawn_kinds, return_inverse=True)  # each kind has a node
    fits = rng.random((len(kinds), sizes)) < 0.85
    fits[0, 0] = True
    cost = np.where(fits, rng.integers(1, 6, fits.shape), np.inf)
    worth = np.where(fits, rng.integers(1, 6, fits.shape), 0.0)
    groups = rng.integers(0, max(2, nodes // 2), nodes) if repeats else np.arange(nodes)
    needed = np.sort(rng.integers(1, 3 * nodes, int(rng.integers(1, nodes + 1)))).astype(np.float64)
    one = _Options(np.arange(nodes), groups, kind_of, cost, worth, needed, repeats_groups=repeats)
    other = plain_choices.PlainOptions(
        np.arange(nodes), groups, fits[kind_of], cost[kind_of], worth[kind_of], needed
    )
    return one, other


@given(st.integers(0, 2**32 - 1), st.booleans())
def test_candidates_are_those_of_every_node_alone(seed: int, repeats: bool) -> None:
    one, other = options_of(np.random.default_rng(seed), repeats=repeats)
    expected = [(places.tolist(), sizes.tolist()) for places, sizes in plain_choices.plain_candidates(other)]
    assert _candidates(one) == expected


@given(st.integers(0, 2**32 - 1), st.booleans())
def test_swaps_are_the_best_of_all_swaps_each_time(seed: int, repeats: bool) -> None:
    """From any choice, whether or not prices would have led to it."""
    rng = np.random.default_rng(seed)
    one, other = options_of(rng, repeats=repeats)
    places: list[int] = []
    for place in rng.permutation(len(one.nodes)).tolist():
        taken = {int(one.groups[there]) for there in places}
        if other.fits[place].any() and int(one.groups[place]) not in taken:
            places.append(place)
    places = places[: len(one.needed)]
    sizes = [int(rng.choice(np.flatnonzero(other.fits[place]))) for place in places]
    expected = plain_choices.plain_swapped(other, np.array(places), np.array(sizes))
    cost = _Swaps(one).swap(places, sizes)
    assert (places, sizes) == tuple(each.tolist() for each in expected)
    assert cost == other.cost[expected].sum()


def test_of_equal_swaps_for_other_nodes_the_first_replica_has_the_first() -> None:
    """Each of two equal replicas could move to the cheaper node of its zone; the surplus allows one move."""
    kinds, groups = np.array([1, 1, 0, 0]), np.array([1, 0, 0, 1])
    cost, worth = np.array([[2.0], [1.0]]), np.array([[2.0], [1.0]])
    options = _Options(np.arange(4), groups, kinds, cost, worth, np.array([1.0, 3.0]), repeats_groups=True)
    places, sizes = [2, 3], [0, 0]
    assert _Swaps(options).swap(places, sizes) == 3.0
    assert places == [1, 3]


def test_a_choice_is_swapped_forty_times_at_most() -> None:
    some = np.arange(90)
    cost, worth = np.tile([3.0, 1.0], (90, 1)), np.tile([1.0, 1.0], (90, 1))
    options = _Options(some, some, some, cost, worth, np.full(90, 1.0), repeats_groups=False)
    sizes = [0] * 90
    assert _Swaps(options).swap(list(range(90)), sizes) == 40 * 1.0 + 50 * 3.0
    assert sizes == [1] * 40 + [0] * 50


def test_six_numbers_of_replicas_are_candidates_at_most() -> None:
    some = np.arange(20)
    cost = worth = np.ones((20, 1))
    options = _Options(some, some, some, cost, worth, np.full(20, 5.0), repeats_groups=False)
    assert [len(places) for places, _ in _candidates(options)] == [5, 6, 7, 8, 9, 10]


@pytest.mark.parametrize("sizes", [31, 32, 33, 40])
def test_choices_are_the_same_for_any_number_of_sizes(sizes: int) -> None:
    """Nodes are told apart by up to 32 sizes that fit."""
    nodes = cluster({"top": 3, "low": 3}, cores=64.0)
    about = profile({float(cores): 10.0 * cores for cores in range(1, sizes + 1)}, {"top": 1.0, "low": 0.6})
    request = requested(500.0, about, nodes)
    assert len(request.cores) == sizes
    sizing = Sizing(request, NodeLedger(nodes))
    fill(sizing.ledger, free_cores=[64.0, 20.0, 2.5, 64.0, 31.0, 7.0])
    contention = contention_on(request, sizing.ledger)
    found = priced_choices(sizing, contention)
    assert found
    assert found == plain_choices.priced_choices(sizing, contention, None)
