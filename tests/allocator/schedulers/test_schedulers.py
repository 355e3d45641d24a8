"""Schedulers: Paragon's choice and its statistical variant, baselines, and greedy beside exact."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st

from kwiken.allocator.placement.headroom import Caution
from kwiken.allocator.placement.node_ledger import NodeLedger
from kwiken.allocator.placement.order import admit_all
from kwiken.allocator.placement.request import PlacementRequest
from kwiken.allocator.placement.sizing import Sizing
from kwiken.allocator.sampling.sample_size import draws_for
from kwiken.allocator.schedulers.baselines import reservation
from kwiken.allocator.workloads.sources import SOURCES
from kwiken.allocator.workloads.workload import Spread
from kwiken.base.errors import InputError
from kwiken.model.nodes.nodes import Cluster
from papers.worlds.schedulers.exact import solve
from papers.worlds.schedulers.names import SCHEDULERS, scheduler
from papers.worlds.schedulers.statistical import StatisticalScheduler, colocation_quality
from tests.support.allocation.filled_ledger import fill, on_source
from tests.support.runtime.clusters import cluster, known, over_sources, profile, requested

SPEEDS = {"top": 1.0, "low": 0.6}
EXACT_CAUTION = Caution(confidence=0.5, later_loss=0.05)


def random_request(rng: np.random.Generator, nodes: Cluster, number: int = 0) -> PlacementRequest:
    about = profile(
        {1: 3e3, 2: 5.5e3, 4: 10e3},
        SPEEDS,
        name=f"w{number}",
        efficiency=[1 / (1 + 0.02 * n) for n in range(8)],
        tolerated=known(rng.uniform(0.2, 1, len(SOURCES))),
        caused=known(rng.uniform(0, 0.3, len(SOURCES))),
    )
    spread = list(Spread)[int(rng.integers(3))]
    return requested(float(rng.uniform(2e3, 18e3)), about, nodes, caution=EXACT_CAUTION, spread=spread)


@settings(max_examples=15)
@given(st.integers(0, 2**32 - 1))
@example(10912)  # two replicas on one node press on each other more than they tolerate
@pytest.mark.slow
def test_exact_placement_keeps_every_rule_and_costs_no_more_than_greed(seed: int) -> None:
    rng = np.random.default_rng(seed)
    nodes = cluster({"top": 2, "low": 3}, zones=3)
    requests = [random_request(rng, nodes, number) for number in range(2)]
    best = solve(requests, NodeLedger(nodes), time_limit_s=20)
    greedy = [
        admit_all(requests, NodeLedger(nodes), scheduler(name)) for name in ("quasar", "thrifty", "exact")
    ]
    for found in greedy:
        if all(one.sizing.forecast().met for one in found):
            assert best.cost <= sum(one.sizing.cost for one in found) * (1 + 1e-6)
    if not np.isfinite(best.cost):
        return
    ledger = NodeLedger(nodes)
    sizings = [Sizing(request, ledger) for request in requests]
    for sizing, counts in zip(sizings, best.counts, strict=True):
        for node, size in np.argwhere(counts > 0).tolist():
            for _ in range(int(counts[node, size])):
                sizing.add(node, size)
        if sizing.request.workload.spread is not Spread.NONE:
            assert len({one.node for one in sizing.replicas}) == len(sizing.replicas)
    assert np.all(ledger.slack > -1e-6)
    for sizing in sizings:
        sizing.refresh()
        assert sizing.forecast().performance >= sizing.request.required * (1 - 1e-6)
    assert sum(sizing.cost for sizing in sizings) == pytest.approx(best.cost)


def test_exact_placement_refuses_large_clusters() -> None:
    nodes = cluster({"top": 20_000})
    request = requested(1e3, profile({8: 20e3}, SPEEDS), nodes)
    with pytest.raises(InputError, match="at most 20000 variables"):
        solve([request], NodeLedger(nodes))


@pytest.mark.parametrize("name", SCHEDULERS)
def test_every_scheduler_keeps_room_and_anti_affinity(name: str) -> None:
    nodes = cluster({"top": 3, "low": 3}, zones=3)
    ledger = NodeLedger(nodes)
    rng = np.random.default_rng(4)
    requests = [random_request(rng, nodes, number) for number in range(5)]
    filler = requested(None, profile({2: 1e3}, SPEEDS, name="filler"), nodes, spread=Spread.NONE)
    found = admit_all([*requests, filler], ledger, scheduler(name, seed=1))
    assert (ledger.free_cores > -1e-9).all()
    assert (ledger.free_memory_gb > -1e-9).all()
    assert any(one.sizing.replicas for one in found)
    for one in found:
        where = [replica.node for replica in one.sizing.replicas]
        if one.request.workload.spread is Spread.NODE:
            assert len(set(where)) == len(where)
        if one.request.workload.spread is Spread.ZONE:
            assert len({nodes.zone_of(node) for node in where}) == len(where)


def test_an_unreachable_target_is_no_error_with_any_scheduler() -> None:
    nodes = cluster({"top": 3})
    for name in SCHEDULERS:
        request = requested(1e9, profile({8: 20e3}, {"top": 1.0}), nodes)
        (found,) = admit_all([request], NodeLedger(nodes), scheduler(name))
        assert found.queued or not found.sizing.forecast().met


class TestParagon:
    def place(self, request: PlacementRequest, ledger: NodeLedger) -> int:
        sizing = Sizing(request, ledger)
        scheduler("paragon").place(sizing)
        (replica,) = sizing.replicas
        return replica.node

    def resident(self, ledger: NodeLedger, node: int, **scores: float) -> None:
        about = profile(
            {1: 1e3}, SPEEDS, name=f"r{node}", tolerated=over_sources(0.9), caused=over_sources(0.0, **scores)
        )
        Sizing(requested(1e3, about, ledger.cluster), ledger).add(node, 0)

    def test_the_best_class_among_tolerable_nodes(self) -> None:
        ledger = NodeLedger(cluster({"low": 2, "top": 2}))
        delicate = profile({1: 1e3}, SPEEDS, tolerated=over_sources(1.0, disk=0.3))
        self.resident(ledger, 2, disk=0.5)
        self.resident(ledger, 3, disk=0.5)
        assert self.place(requested(500, delicate, ledger.cluster), ledger) in {0, 1}

    def test_the_tightest_fit_within_a_class(self) -> None:
        ledger = NodeLedger(cluster({"top": 3}))
        self.resident(ledger, 1, network=0.4)
        about = profile({1: 1e3}, SPEEDS, tolerated=over_sources(0.5))
        assert self.place(requested(500, about, ledger.cluster), ledger) == 1

    def test_a_node_with_room_is_found_when_none_is_tolerable(self) -> None:
        ledger = NodeLedger(cluster({"top": 2}))
        self.resident(ledger, 0, disk=0.9)
        self.resident(ledger, 1, disk=0.4)
        delicate = profile({1: 1e3}, SPEEDS, tolerated=over_sources(1.0, disk=0.1))
        assert self.place(requested(500, delicate, ledger.cluster), ledger) == 1

    def test_the_order_of_sources_does_not_matter(self) -> None:
        rng = np.random.default_rng(8)
        for _ in range(20):
            order = rng.permutation(len(SOURCES))
            tolerated, caused = rng.uniform(0.3, 1, len(SOURCES)), rng.uniform(0, 0.5, len(SOURCES))
            loads = rng.uniform(0, 0.6, (4, len(SOURCES)))
            chosen = []
            for shuffle in (np.arange(len(SOURCES)), order):
                ledger = NodeLedger(cluster({"top": 4}))
                for node, load in enumerate(loads):
                    about = profile({1: 1e3}, SPEEDS, name=f"r{node}", caused=known(load[shuffle]))
                    Sizing(requested(1e3, about, ledger.cluster), ledger).add(node, 0)
                new = profile(
                    {1: 1e3}, SPEEDS, tolerated=known(tolerated[shuffle]), caused=known(caused[shuffle])
                )
                chosen.append(self.place(requested(500, new, ledger.cluster), ledger))
            assert chosen[0] == chosen[1]


class TestStatistical:
    @pytest.mark.parametrize(
        ("quality", "failure", "number"),
        [
            (0.6, 1e-2, 10),
            (0.7, 1e-3, 20),
            (0.8, 1e-6, 62),
            (0.9, 1e-2, 44),
            (0.9, 1e-6, 132),
            (0.95, 1e-3, 135),
        ],
    )
    def test_candidates_of_the_source(self, quality: float, failure: float, number: int) -> None:
        assert draws_for(quality, failure) == number

    def test_the_best_of_16_is_in_the_best_tenth_as_often_as_chance_says(self) -> None:
        rng = np.random.default_rng(11)
        pressure = rng.permutation(1000) / 1000  # the fuller a node, the tighter the fit
        ledger = fill(NodeLedger(cluster({"top": 1000})), pressure=on_source(pressure))
        request = requested(500, profile({1: 1e3}, SPEEDS), ledger.cluster)
        chooser, trials, missed = StatisticalScheduler(rng, candidates=16), 2000, 0
        for _ in range(trials):
            sizing = Sizing(request, ledger)
            chooser.place(sizing)
            node = sizing.replicas[0].node
            missed += pressure[node] < 0.9
            sizing.clear()
        chance = 0.9**16
        assert abs(missed / trials - chance) < 3 * np.sqrt(chance * (1 - chance) / trials)

    def test_quality_falls_with_violations_and_with_distance(self) -> None:
        ledger = NodeLedger(cluster({"top": 5}))
        for node, disk in enumerate((0.0, 0.25, 0.5, 0.51, 0.9)):
            about = profile({1: 1e3}, SPEEDS, name=f"r{node}", caused=over_sources(0.0, disk=disk))
            Sizing(requested(1e3, about, ledger.cluster), ledger).add(node, 0)
        new = profile({1: 1e3}, SPEEDS, tolerated=over_sources(0.5))
        sizing = Sizing(requested(500, new, ledger.cluster), ledger)
        free, some, full, little, much = colocation_quality(sizing, np.arange(5))
        assert 0 < free < some < full <= 1
        assert 0 > little > much >= -1


@given(st.integers(0, 2**32 - 1))
def test_the_quality_of_a_fit_is_by_its_distance_and_its_violation(seed: int) -> None:
    rng = np.random.default_rng(seed)
    pressure = rng.uniform(0, 1.2, (len(SOURCES), 4))
    slack = np.maximum(rng.uniform(-0.1, 1.5, pressure.shape), -pressure)
    ledger = fill(NodeLedger(cluster({"top": 4})), pressure=pressure, slack=slack)
    about = profile(
        {1: 1e3},
        SPEEDS,
        tolerated=known(rng.uniform(0.4, 1.0, len(SOURCES))),
        caused=known(rng.uniform(0, 0.2, len(SOURCES))),
    )
    sizing = Sizing(requested(500, about, ledger.cluster), ledger)
    found = colocation_quality(sizing, np.arange(4))
    for node in range(4):
        distance, violation = 0.0, 0.0
        for source in range(len(SOURCES)):
            spare = min(ledger.slack[source, node], 1.0) - sizing.request.caused[source]
            margin = sizing.request.tolerated[source] - min(ledger.pressure[source, node], 1.0)
            distance += (abs(spare) + abs(margin)) / 2 / len(SOURCES)
            violation = max(violation, -spare, -margin)
        expected = -(violation + distance) / 2 if violation > 0 else 1 - distance
        assert found[node] == pytest.approx(expected)


def test_least_loaded_takes_the_emptiest_node() -> None:
    ledger = NodeLedger(cluster({"low": 2, "top": 2}))
    about = profile({2: 6e3}, SPEEDS)
    Sizing(requested(1e3, about, ledger.cluster), ledger).add(0, 0)
    sizing = Sizing(requested(12e3, about, ledger.cluster), ledger)
    scheduler("least-loaded").place(sizing)
    assert [replica.node for replica in sizing.replicas] == [1, 2, 3]
    assert reservation(sizing.request).count == 3
    reserved = Sizing(sizing.request, NodeLedger(cluster({"low": 9, "top": 9})))
    scheduler("reservation").place(reserved)
    assert len(reserved.replicas) == 9  # 2.94 times 3, rounded up


@pytest.mark.parametrize(("need", "most", "size", "count"), [(5e3, 1, 1, 1), (5e3, 2, 0, 2), (30e3, 1, 0, 1)])
def test_a_reservation_takes_a_size_that_meets_the_target(
    need: float, most: int, size: int, count: int
) -> None:
    nodes = cluster({"top": 2})
    about = profile({1: 3e3, 2: 5.5e3, 4: 10e3}, {"top": 1.0})
    found = reservation(requested(need, about, nodes, max_replicas=most))
    assert (found.size, found.count) == (size, count)


@pytest.mark.parametrize("name", ["paragon", "interference-only", "heterogeneity-only", "least-loaded"])
def test_a_workload_whose_need_has_fallen_keeps_its_replicas_on_a_full_cluster(name: str) -> None:
    nodes = cluster({"top": 3}, cores=1.0)
    about = profile({1: 1e3}, {"top": 1.0})
    sizing = Sizing(requested(3e3, about, nodes), NodeLedger(nodes))
    scheduler(name).place(sizing)
    assert len(sizing.replicas) == 3
    sizing.renew(requested(1e3, about, nodes))
    scheduler(name).place(sizing)
    assert len(sizing.replicas) == 3


def test_a_reservation_of_a_user_is_at_most_what_the_workload_may_have() -> None:
    about = profile({1: 1e3}, {"top": 1.0})
    request = requested(5e3, about, cluster({"top": 4}), max_replicas=2)
    for reserved, count in ((1, 1), (2, 2), (5, 2)):
        assert reservation(replace(request, reserved=reserved)).count == count


def test_best_effort_work_reserves_as_many_replicas_as_it_may_have() -> None:
    about = profile({1: 1e3}, {"top": 1.0})
    assert reservation(requested(None, about, cluster({"top": 4}), max_replicas=3)).count == 3
