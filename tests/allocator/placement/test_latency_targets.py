"""Latency targets of workloads that were measured while never idle: capacity is kept idle for waiting."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from kwiken.allocator.placement.headroom import SOURCE_CAUTION, Caution
from kwiken.allocator.placement.node_ledger import NodeLedger
from kwiken.allocator.placement.order import admit_all
from kwiken.allocator.placement.request import PlacementRequest, request_for
from kwiken.allocator.workloads.latency_limit import spare_within
from kwiken.allocator.workloads.workload import Measure, Target, Workload
from kwiken.base.errors import InputError
from kwiken.model.nodes.nodes import Cluster, Node, NodeClass
from kwiken.model.nodes.placement import PlacingStatus
from papers.worlds.schedulers.names import scheduler
from tests.support.runtime.clusters import cluster, profile

RATES = {1.0: 100.0, 2.0: 190.0}
NODES = cluster({"top": 8}, cores=4)


def request(
    measure: Measure,
    p99_ms: float,
    variation: float | None = None,
    rate_per_s: float = 250.0,
    *,
    rates: Mapping[float, float] = RATES,
    deviation: float = 0.05,
) -> PlacementRequest:
    found = profile(rates, {"top": 1.0}, deviation=deviation)
    found = replace(found, measure=measure, work_variation=variation)
    target = Target(p99_ms=p99_ms, rate_per_s=rate_per_s)
    return request_for(Workload(name="w", memory_gb=1.0, target=target), found, NODES, SOURCE_CAUTION)


def test_a_capacity_leaves_room_for_waiting_and_a_rate_is_taken_as_it_is() -> None:
    assert request(Measure.RATE, 100.0).rate[:, 0].tolist() == [100.0, 190.0]
    found = request(Measure.CAPACITY, 100.0)
    calls_s = np.array([[1 / 100.0], [2 / 190.0]])  # two cores serve two calls at the same time
    spare = float(spare_within(calls_s, 250.0, 100.0, 1.0).max())
    assert found.rate[:, 0] == pytest.approx(np.array([100.0, 190.0]) * 250.0 / (250.0 + spare))
    assert found.capacity[:, 0].tolist() == [100.0, 190.0]
    assert found.spare == pytest.approx(spare)
    steady = request(Measure.CAPACITY, 100.0, variation=0.0)
    assert (steady.rate > found.rate).all()


def test_the_spare_capacity_is_that_of_all_replicas_together() -> None:
    """Twice the rate needs twice the replicas less what one load has in common."""
    found = request(Measure.CAPACITY, 100.0)
    twice = found.at_load(500.0)
    assert twice.required == 500.0
    assert (500.0 / twice.rate < 2 * 250.0 / found.rate).all()
    assert 500.0 / twice.rate[0, 0] * 100.0 == pytest.approx(500.0 + found.spare)
    plain = request(Measure.RATE, 100.0)
    assert (plain.at_load(500.0).rate == plain.rate).all()


def test_replicas_that_are_too_slow_for_the_latency_are_as_good_as_left_out() -> None:
    """On the slow class a call takes 40 of 60 ms, which leaves others too little time to wait."""
    nodes = cluster({"top": 4, "low": 4}, cores=4)
    found = replace(profile(RATES, {"top": 1.0, "low": 0.25}), measure=Measure.CAPACITY, work_variation=0.3)
    target = Target(p99_ms=60.0, rate_per_s=150.0)
    one = request_for(Workload(name="w", memory_gb=1.0, target=target), found, nodes, SOURCE_CAUTION)
    top, low = (place.name for place in nodes.classes)
    assert (top, low) == ("top", "low")
    assert (one.rate[:, 1] < 1e-3 * one.rate[:, 0]).all()
    (placed,) = admit_all([one], NodeLedger(nodes), scheduler("thrifty"))
    assert placed.status is PlacingStatus.MET
    assert all(nodes.class_of[replica.node] == 0 for replica in placed.sizing.replicas)
    loose = Target(p99_ms=400.0, rate_per_s=150.0)
    both = request_for(Workload(name="w", memory_gb=1.0, target=loose), found, nodes, SOURCE_CAUTION)
    assert both.rate[:, 1] == pytest.approx(0.25 * both.rate[:, 0])


def test_more_replicas_are_placed_for_a_tighter_latency() -> None:
    counts = []
    for p99_ms in (1e4, 100.0, 60.0):
        (placed,) = admit_all([request(Measure.CAPACITY, p99_ms)], NodeLedger(NODES), scheduler("thrifty"))
        counts.append(sum(float(placed.request.cores[one.size]) for one in placed.sizing.replicas))
    assert counts == sorted(counts)
    assert counts[0] < counts[-1]


def test_other_targets_refuse_a_capacity() -> None:
    found = replace(profile(RATES, {"top": 1.0}), measure=Measure.CAPACITY)
    workload = Workload(name="w", memory_gb=1.0, target=Target(completion_s=10.0))
    with pytest.raises(InputError, match="its target is in completions and its profile in capacity"):
        request_for(workload, found, NODES, SOURCE_CAUTION)


def test_sizes_are_in_order_of_the_rate_that_keeps_the_latency() -> None:
    """Four cores of half the speed serve more calls than two, and each call takes too long for the target."""
    rates = {1.0: 100.0, 2.0: 190.0, 4.0: 200.0}
    one = request(Measure.CAPACITY, 80.0, 1.0, 60.0, rates=rates, deviation=0.0)
    assert one.cores.tolist() == [1.0, 2.0]
    assert (np.diff(one.rate[:, 0]) > 0).all()
    assert (np.diff(one.capacity[:, 0]) > 0).all()
    for name in ("quasar", "thrifty"):
        (placed,) = admit_all([one], NodeLedger(NODES), scheduler(name))
        assert placed.status is PlacingStatus.MET, name


@pytest.mark.parametrize("name", ["thrifty", "quasar", "sampled", "hashed", "least-loaded", "reservation"])
def test_a_latency_that_no_replica_keeps_waits_under_every_scheduler(name: str) -> None:
    """A call of exponential work takes 46 ms at p99 even alone, so 20 ms is out of reach at any rate."""
    one = request(Measure.CAPACITY, 20.0, rate_per_s=1e-6)
    assert not one.keeps_latency
    assert request(Measure.CAPACITY, 60.0).keeps_latency
    share = one.rate / one.capacity  # the same tiny share for all, so that ranks stay
    assert 0.0 < share.min() <= share.max() * (1 + 1e-9) < 1e-5
    assert share.min() == pytest.approx(share.max())
    (placed,) = admit_all([one], NodeLedger(NODES), scheduler(name))
    assert placed.status is PlacingStatus.QUEUED
    assert not placed.sizing.replicas


def test_where_no_replica_keeps_the_latency_a_millionth_of_the_capacity_is_in_use() -> None:
    one = request(Measure.CAPACITY, 20.0)
    assert not one.keeps_latency
    assert one.rate == pytest.approx(1e-6 * one.capacity, rel=1e-12)
    assert one.capacity[:, 0].tolist() == [100.0, 190.0]


def test_sizes_that_fit_on_no_node_are_left_out() -> None:
    nodes = cluster({"top": 2}, cores=1)
    found = profile({1.0: 100.0, 2.0: 190.0, 4.0: 350.0}, {"top": 1.0})
    target = Target(p99_ms=1e4, rate_per_s=150.0)
    sized = request_for(Workload(name="w", memory_gb=1.0, target=target), found, nodes, SOURCE_CAUTION)
    assert sized.cores.tolist() == [1.0]
    (placed,) = admit_all([sized], NodeLedger(nodes), scheduler("least-loaded"))
    assert len(placed.sizing.replicas) == 2  # and not a replica that no node could take


def test_as_many_calls_are_served_at_a_time_as_there_are_whole_cores_and_one_at_least() -> None:
    """The slowest calls are those of half a core; with two calls at a time, 1.5 cores would be slower."""
    rates = {0.5: 100.0, 1.5: 140.0, 2.5: 230.0}
    one = request(Measure.CAPACITY, 400.0, 1.0, rates=rates, deviation=0.0)
    spares = [
        float(spare_within(np.array([[calls / rate]]), 250.0, 400.0, 1.0)[0, 0])
        for calls, rate in ((1, 100.0), (1, 140.0), (2, 230.0))
    ]
    assert one.spare == pytest.approx(max(spares))
    assert max(spares) == spares[0]


def test_replicas_with_which_more_than_15_percent_more_capacity_is_needed_count_for_almost_nothing() -> None:
    speeds = {f"class-{number}": 0.1 * 1.06**number for number in range(40)}
    classes = tuple(NodeClass(name=name, cores=4, memory_gb=64.0) for name in speeds)
    nodes = Cluster(classes, (Node("n", "class-0"),))
    found = replace(profile({1.0: 100.0}, speeds), measure=Measure.CAPACITY, work_variation=0.5)
    target = Target(p99_ms=120.0, rate_per_s=150.0)
    one = request_for(Workload(name="w", memory_gb=1.0, target=target), found, nodes, SOURCE_CAUTION)
    needed = 150.0 + spare_within(1.0 / (100.0 * np.array([[*speeds.values()]])), 150.0, 120.0, 0.5)[0]
    slow = needed > 1.15 * needed.min()
    kept = one.rate[0] / one.capacity[0]
    assert kept[~slow] == pytest.approx(150.0 / needed[~slow].max())
    assert (kept[slow] < 1e-5).all()
    finite = needed[slow & np.isfinite(needed)]
    assert finite.min() < 1.3 * needed.min()  # and one below twice as much
    assert needed[~slow].max() > 1.05 * needed.min()


def test_a_class_of_which_only_the_speed_is_known_needs_more_headroom() -> None:
    """At a confidence of 90%, 1.2816 deviations of a quarter."""
    nodes = Cluster((NodeClass(name="new", cores=4, memory_gb=64.0, speed=2.0),), (Node("n", "new"),))
    needed = 190.0 * 2.0 / math.exp(1.2815515655446004 * 0.25)
    for rate_per_s, status in ((0.999 * needed, PlacingStatus.MET), (1.001 * needed, PlacingStatus.SHORT)):
        target = Target(p99_ms=100.0, rate_per_s=rate_per_s)
        one = request_for(
            Workload(name="w", memory_gb=1.0, target=target, max_replicas=1),
            profile(RATES, {"top": 1.0}),
            nodes,
            Caution(confidence=0.9, later_loss=0.0),
        )
        (placed,) = admit_all([one], NodeLedger(nodes), scheduler("quasar"))
        assert placed.status is status


def test_a_workload_that_keeps_no_latency_is_the_same_at_any_load() -> None:
    one = request(Measure.CAPACITY, 20.0, rate_per_s=1e-6)
    more = one.at_load(1.0)
    assert more.required == 1.0
    assert more.rate.tolist() == one.rate.tolist()
    assert not more.keeps_latency
