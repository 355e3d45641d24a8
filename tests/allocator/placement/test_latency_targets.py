"""Latency targets of workloads that were measured while never idle: room for waiting is left on each replica."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from kwiken.allocator.placement import (
    SOURCE_CAUTION,
    NodeLedger,
    PlacementRequest,
    PlacingStatus,
    admit_all,
    request_for,
)
from kwiken.allocator.schedulers import scheduler
from kwiken.allocator.workloads import Measure, Target, Workload
from kwiken.base.errors import InputError
from tests.support.runtime.clusters import cluster, profile

RATES = {1.0: 100.0, 2.0: 190.0}
NODES = cluster({"top": 8}, cores=4)


def request(measure: Measure, p99_ms: float, variation: float | None = None) -> PlacementRequest:
    found = replace(profile(RATES, {"top": 1.0}, deviation=0.05), measure=measure, work_variation=variation)
    target = Target(p99_ms=p99_ms, rate_per_s=250.0)
    return request_for(Workload(name="w", memory_gb=1.0, target=target), found, NODES, SOURCE_CAUTION)


def test_a_capacity_leaves_room_for_waiting_and_a_rate_is_taken_as_it_is() -> None:
    assert request(Measure.RATE, 100.0).rate[:, 0].tolist() == [100.0, 190.0]
    found = request(Measure.CAPACITY, 100.0)
    lost = math.log(100.0) / 0.1
    assert found.rate[:, 0] == pytest.approx([100.0 - lost, 190.0 - 2 * lost])
    assert found.capacity[:, 0].tolist() == [100.0, 190.0]
    steady = request(Measure.CAPACITY, 100.0, variation=0.0)
    assert (steady.rate > found.rate).all()


def test_an_error_of_the_capacity_weighs_more_where_little_is_left() -> None:
    plain = request(Measure.RATE, 100.0).size_deviation
    tight, loose = (request(Measure.CAPACITY, p99_ms).size_deviation for p99_ms in (60.0, 1e4))
    assert (tight > loose).all()
    assert loose == pytest.approx(plain, abs=0.01)


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
    found = replace(
        profile({1.0: 100.0, 2.0: 190.0, 4.0: 200.0}, {"top": 1.0}),
        measure=Measure.CAPACITY,
        work_variation=1.0,
    )
    target = Target(p99_ms=60.0, rate_per_s=60.0)
    one = request_for(Workload(name="w", memory_gb=1.0, target=target), found, NODES, SOURCE_CAUTION)
    assert one.cores.tolist() == [1.0, 2.0]
    assert (np.diff(one.rate[:, 0]) > 0).all()
    assert (np.diff(one.capacity[:, 0]) > 0).all()
    for name in ("quasar", "thrifty"):
        (placed,) = admit_all([one], NodeLedger(NODES), scheduler(name))
        assert placed.status is PlacingStatus.MET, name


@pytest.mark.parametrize("name", ["thrifty", "quasar", "sampled", "hashed", "least-loaded", "reservation"])
def test_a_latency_that_no_replica_keeps_waits_under_every_scheduler(name: str) -> None:
    """A call of exponential work takes 46 ms at p99 even alone, so 20 ms is out of reach at any rate."""
    one = replace(request(Measure.CAPACITY, 20.0), required=1e-6)
    assert not one.keeps_latency
    assert request(Measure.CAPACITY, 60.0).keeps_latency
    (placed,) = admit_all([one], NodeLedger(NODES), scheduler(name))
    assert placed.status is PlacingStatus.QUEUED
    assert not placed.sizing.replicas


def test_sizes_that_fit_on_no_node_are_left_out() -> None:
    nodes = cluster({"top": 2}, cores=1)
    found = profile({1.0: 100.0, 2.0: 190.0, 4.0: 350.0}, {"top": 1.0})
    target = Target(p99_ms=1e4, rate_per_s=150.0)
    sized = request_for(Workload(name="w", memory_gb=1.0, target=target), found, nodes, SOURCE_CAUTION)
    assert sized.cores.tolist() == [1.0]
    (placed,) = admit_all([sized], NodeLedger(nodes), scheduler("least-loaded"))
    assert len(placed.sizing.replicas) == 2  # and not a replica that no node could take
