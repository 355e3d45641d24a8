"""Nearby placement: calls go less far, at no more cost, no target lost, and what ran before stays."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from benchmarks.placement.joint.instances import FAMILIES, Family, cluster_of, instance
from kwiken.allocator.distance.crossing import Crossings
from kwiken.allocator.distance.demand import TrafficDemand
from kwiken.allocator.distance.improvement import NearbyScheduler
from kwiken.allocator.placement.node_ledger import NodeLedger
from kwiken.allocator.placement.order import PlacedOrNot, admit_all
from kwiken.allocator.schedulers.names import scheduler
from kwiken.allocator.workloads.workload import Spread
from kwiken.traffic.flows import TrafficUnit

ZONED = Family(nodes=18, workloads=9, zones=3, spreads=(Spread.NONE, Spread.NODE), load=0.35)


def demand(names: tuple[str, ...], seed: int) -> TrafficDemand:
    rng = np.random.default_rng(seed)
    per_s = rng.pareto(1.0, (len(names), len(names))) * (rng.random((len(names), len(names))) < 0.3)
    np.fill_diagonal(per_s, 0.0)
    return TrafficDemand(names, per_s, TrafficUnit.CALLS, 0.0)


def placed(family: Family, seed: int, *, near: bool) -> tuple[NodeLedger, list[PlacedOrNot], TrafficDemand]:
    requests = instance(family, seed)
    wanted = demand(tuple(one.name for one in requests), seed)
    inner = scheduler("thrifty")
    ledger = NodeLedger(cluster_of(family, seed))
    outcomes = admit_all(requests, ledger, NearbyScheduler(inner, wanted) if near else inner)
    return ledger, outcomes, wanted


def between_zones(ledger: NodeLedger, outcomes: list[PlacedOrNot], wanted: TrafficDemand) -> float:
    crossings = Crossings(ledger.cluster, wanted)
    crossings.take([one.sizing for one in outcomes])
    return crossings.told().between_zones


@pytest.mark.parametrize("seed", range(4, 8))
def test_no_one_bears_more_contention_than_it_tolerates(seed: int) -> None:
    ledger, *_ = placed(ZONED, seed, near=True)
    assert (ledger.slack >= -1e-6).all()


@pytest.mark.parametrize("seed", [3, 4])
def test_a_third_fewer_calls_cross_zones_at_no_more_cost_and_no_target_is_lost(seed: int) -> None:
    before = placed(ZONED, seed, near=False)
    after = placed(ZONED, seed, near=True)
    assert between_zones(*after) <= 0.7 * between_zones(*before)
    cost = [sum(one.sizing.cost for one in outcomes) for _, outcomes, _ in (before, after)]
    assert cost[1] <= cost[0] * (1 + 1e-6)
    for old, new in zip(before[1], after[1], strict=True):
        assert new.status is old.status
    assert (after[0].free_cores >= -1e-6).all()
    assert (after[0].slack >= -1e-6).all()
    for one in after[1]:
        nodes = [replica.node for replica in one.sizing.replicas]
        if one.request.workload.spread is Spread.NODE:
            assert len(set(nodes)) == len(nodes)


def test_distance_is_the_sum_over_pairs_of_replicas() -> None:
    ledger, outcomes, wanted = placed(ZONED, 3, near=False)
    crossings = Crossings(ledger.cluster, wanted)
    crossings.take([one.sizing for one in outcomes])
    by_hand = 0.0
    for (row, one), (column, other) in itertools.product(enumerate(outcomes), repeat=2):
        rates = [
            np.array([each.sizing.rate(k) for k in range(len(each.sizing.replicas))]) for each in (one, other)
        ]
        for k, caller in enumerate(one.sizing.replicas):
            for m, callee in enumerate(other.sizing.replicas):
                share = rates[0][k] / rates[0].sum() * rates[1][m] / rates[1].sum()
                zones = ledger.cluster.zones[[caller.node, callee.node]]
                far = 0 if caller.node == callee.node else 1 if zones[0] == zones[1] else 3
                by_hand += wanted.per_s[row, column] * share * far
    assert crossings.distance == pytest.approx(by_hand, rel=1e-9)


def test_replicas_that_ran_before_stay() -> None:
    requests = instance(FAMILIES["unequal nodes"], 2)
    from kwiken.allocator.placement.sizing import Sizing

    ledger = NodeLedger(cluster_of(FAMILIES["unequal nodes"], 2))
    running = Sizing(requests[0], ledger)
    running.add(0, 0)
    there = running.replicas[0]
    wanted = demand(tuple(one.name for one in requests), 2)
    found = admit_all(requests, ledger, NearbyScheduler(scheduler("thrifty"), wanted), [running])
    assert found[0].sizing.replicas[0] is there
