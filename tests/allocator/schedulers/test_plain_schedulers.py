"""Schedulers that rank nodes once decide as plain ones that look at every node for every replica."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from kwiken.allocator.placement.node_ledger import DrawKind, NodeLedger
from kwiken.allocator.placement.request import PlacementRequest
from kwiken.allocator.placement.sizing import Sizing
from kwiken.allocator.schedulers.node_queue import first_places
from kwiken.allocator.workloads.sources import SOURCES
from kwiken.allocator.workloads.workload import Spread
from kwiken.model.nodes.nodes import Cluster
from papers.worlds.schedulers.names import MARGIN, scheduler
from tests.support.models import plain_schedulers as plain
from tests.support.runtime.clusters import cluster, known, profile, requested

SPEEDS = {"top": 1.0, "even": 1.0, "low": 0.6}
PLAIN = {
    "least-loaded": plain.least_loaded,
    "heterogeneity-only": plain.heterogeneity_only,
    "paragon": plain.paragon,
    "interference-only": lambda sizing: plain.paragon(sizing, by_class=False),
    "paragon-margin": lambda sizing: plain.paragon(sizing, kept=MARGIN),
    "thrifty": plain.thrifty,
}


def drawn(rng: np.random.Generator, nodes: Cluster, number: int, delicacy: float) -> PlacementRequest:
    """Workload with random curves and scores; a higher delicacy leaves fewer nodes without a violation."""
    about = profile(
        {1: 3e3, 2: 5.5e3, 4: 10e3},
        SPEEDS,
        name=f"w{number}",
        efficiency=[1 / (1 + 0.05 * rng.random() * n) for n in range(12)],
        tolerated=known(rng.uniform(0.3, 1.2 - delicacy, len(SOURCES))),
        caused=known(rng.uniform(0, 0.5 * delicacy, len(SOURCES))),
    )
    need = None if rng.random() < 0.15 else float(rng.uniform(2e3, 40e3) * rng.choice([1, 1, 1, 10]))
    spread = list(Spread)[int(rng.integers(3))]
    memory_gb = float(rng.choice([1.0, 16.0, 32.0]))  # of 64 that a node has
    request = requested(need, about, nodes, spread=spread, memory_gb=memory_gb)
    return replace(request, shares={DrawKind.REISSUES: 0.1}) if rng.random() < 0.2 else request


@pytest.mark.parametrize("name", PLAIN)
@given(st.integers(0, 2**32 - 1), st.floats(0.1, 0.8))
def test_the_same_nodes_as_by_looking_at_every_node_each_time(name: str, seed: int, delicacy: float) -> None:
    rng = np.random.default_rng(seed)
    nodes = cluster({"top": 6, "even": 3, "low": 9}, zones=5)
    fast, slow = NodeLedger(nodes), NodeLedger(nodes)
    there: list[tuple[Sizing, Sizing]] = []
    for number in range(8):
        request = drawn(rng, nodes, number, delicacy)
        one, other = Sizing(request, fast), Sizing(request, slow)
        scheduler(name).place(one)
        PLAIN[name](other)
        assert [(r.node, r.size) for r in one.replicas] == [(r.node, r.size) for r in other.replicas]
        there.append((one, other))
        if rng.random() < 0.3:
            for sizing in there.pop(int(rng.integers(len(there)))):
                sizing.clear()
    for one, other in there:
        one.refresh()
        assert one.forecast().performance == pytest.approx(plain.performance(other))


@given(st.integers(0, 2**32 - 1), st.floats(0.1, 0.8))
def test_samples_are_those_of_a_list_of_the_nodes_with_room(seed: int, delicacy: float) -> None:
    rng, draws = np.random.default_rng(seed), np.random.default_rng(7)
    nodes = cluster({"top": 60, "even": 30, "low": 90}, zones=9)
    fast, slow = NodeLedger(nodes), NodeLedger(nodes)
    chosen, there = scheduler("sampled", seed=7), []
    for number in range(20):
        request = drawn(rng, nodes, number, delicacy)
        one, other = Sizing(request, fast), Sizing(request, slow)
        chosen.place(one)
        plain.sampled(other, draws)
        assert [(r.node, r.size) for r in one.replicas] == [(r.node, r.size) for r in other.replicas]
        there.append((one, other))
        if rng.random() < 0.3:
            for sizing in there.pop(int(rng.integers(len(there)))):
                sizing.clear()


@given(st.integers(0, 2**32 - 1), st.floats(0.1, 0.8), st.integers(1, 20))
@settings(max_examples=25)
def test_one_hashed_scheduler_follows_every_change_of_a_ledger(
    seed: int, delicacy: float, moves: int
) -> None:
    rng = np.random.default_rng(seed)
    nodes = cluster({"top": 6, "even": 3, "low": 9}, zones=5)
    fast, slow = NodeLedger(nodes), NodeLedger(nodes)
    hashed, there = scheduler("hashed"), []
    for number in range(moves):
        request = drawn(rng, nodes, number, delicacy)
        one, other = Sizing(request, fast), Sizing(request, slow)
        if rng.random() < 0.3:  # replicas that another scheduler places are known too
            PLAIN["least-loaded"](one)
            PLAIN["least-loaded"](other)
        else:
            hashed.place(one)
            plain.hashed(other)
        assert [(r.node, r.size) for r in one.replicas] == [(r.node, r.size) for r in other.replicas]
        there.append((one, other))
        if rng.random() < 0.5:
            for sizing in there.pop(int(rng.integers(len(there)))):
                sizing.clear()


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=40),
    st.integers(0, 45),
)
def test_the_first_places_are_those_of_a_full_sort(rows: list[tuple[int, int, int]], count: int) -> None:
    keys = tuple(np.array(column, dtype=np.float64) for column in zip(*rows, strict=True))
    expected = sorted(range(len(rows)), key=lambda place: (*rows[place], place))
    assert first_places(keys, count).tolist() == expected[:count]


@given(st.integers(0, 2**32 - 1))
def test_forecasts_follow_every_change_of_the_replicas(seed: int) -> None:
    rng = np.random.default_rng(seed)
    nodes = cluster({"top": 3, "even": 1, "low": 2})
    ledger = NodeLedger(nodes)
    request = drawn(rng, nodes, 0, 0.4)
    sizing = Sizing(request, ledger)
    for _ in range(12):
        sizes = [one.size for one in sizing.replicas]
        place = int(rng.integers(len(sizes))) if sizes else 0
        move = rng.random()
        alone = not sizes or [one.node for one in sizing.replicas].count(sizing.replicas[place].node) == 1
        if sizes and move < 0.25:
            without = sizing.supposed(place, None).performance
            sizing.remove(place)
            if alone:  # replicas on one node gain by each other's leaving
                assert sizing.forecast().performance == pytest.approx(without)
        elif sizes and move < 0.5:
            supposed = sizing.supposed(place, 0).performance
            sizing.resize(place, 0)
            if alone:
                assert sizing.forecast().performance == pytest.approx(supposed)
        else:
            node, size = int(rng.integers(6)), int(rng.integers(len(request.cores)))
            if ledger.fits(node, float(request.all_cores[size]), float(request.memory_gb[size])) and len(
                sizes
            ) < len(request.efficiency):
                sizing.add(node, size)
        assert sizing.forecast().performance == pytest.approx(plain.performance(sizing))


@pytest.mark.parametrize("name", ["sampled", "paragon-statistical", "hashed"])
def test_a_scheduler_without_a_seed_draws_as_with_seed_0(name: str) -> None:
    nodes = cluster({"top": 400, "low": 400})
    request = drawn(np.random.default_rng(1), nodes, 0, 0.5)
    chosen = []
    for one in (scheduler(name), scheduler(name, seed=0), scheduler(name, seed=1)):
        sizing = Sizing(request, NodeLedger(nodes))
        one.place(sizing)
        chosen.append([(replica.node, replica.size) for replica in sizing.replicas])
    assert chosen[0] == chosen[1]
    assert chosen[0] != chosen[2] or name == "hashed"  # which looks among all nodes in the end


RESERVING = ("sampled", "hashed", "paragon", "paragon-statistical", "least-loaded", "reservation")


@pytest.mark.parametrize("name", RESERVING)
def test_a_reservation_is_satisfied_by_as_many_replicas_as_it_has(name: str) -> None:
    for count, satisfied in ((6, True), (1, False)):
        nodes = cluster({"top": count})
        request = replace(requested(3e3, profile({1: 1e3}, {"top": 1.0}), nodes), reserved=3)
        one, sizing = scheduler(name), Sizing(request, NodeLedger(nodes))
        one.place(sizing)
        assert len(sizing.replicas) == min(3, count) or name == "reservation"
        assert one.satisfied(sizing) is satisfied


def test_the_first_none_of_some_places_are_none() -> None:
    assert first_places((np.array([3.0, 1.0, 2.0]),), 0).tolist() == []
    assert first_places((np.array([3.0, 1.0, 2.0]),), 5).tolist() == [1, 2, 0]


@given(st.integers(0, 2**32 - 1), st.integers(1, 300))
def test_the_first_places_among_many_are_those_of_a_full_sort(seed: int, count: int) -> None:
    values = np.random.default_rng(seed).permutation(400) / 400
    assert first_places((values,), count).tolist() == np.argsort(values)[:count].tolist()
