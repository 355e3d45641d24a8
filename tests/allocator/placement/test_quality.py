"""Contention of newcomers and residents at the limit of what each tolerates."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kwiken.allocator.placement.node_ledger import Draw, DrawKind, NodeLedger
from kwiken.allocator.placement.own_nodes_trial import OwnNodesTrial
from kwiken.allocator.placement.quality import NO_SIZE, contention_on, loss_within, worst_loss
from kwiken.allocator.placement.request import PlacementRequest
from kwiken.allocator.placement.shared_trial import SharedNodesTrial
from kwiken.allocator.placement.sizing import Sizing
from kwiken.allocator.workloads.profile import Estimate, Size
from kwiken.allocator.workloads.workload import Spread
from kwiken.model.nodes.nodes import Cluster, Node, NodeClass
from tests.support.runtime.clusters import CORES, MEMORY_GB, cluster, over_sources, profile, requested

NODES = cluster({"top": 1})


def newcomer(tolerated: Estimate, caused: Estimate) -> PlacementRequest:
    about = profile({1: 1e3}, {"top": 1.0}, tolerated=tolerated, caused=caused)
    return requested(1e3, about, NODES, spread=Spread.NONE)


def resident(ledger: NodeLedger, caused: Estimate, tolerated: Estimate | None) -> None:
    limits = None if tolerated is None else tolerated.mean
    ledger.take(Draw(DrawKind.REPLICA, "resident", 0, 1.0, 1.0, caused.mean, limits))


def refusals(request: PlacementRequest, ledger: NodeLedger) -> set[bool]:
    """Whether the only node is refused, by each of the three ways to ask: one value where they agree."""
    sizing = Sizing(request, ledger)
    return {
        bool(contention_on(request, ledger).refused[0, 0]),
        *(one.next_on(0, None)[0] == NO_SIZE for one in (sizing, SharedNodesTrial(sizing))),
    }


@pytest.mark.parametrize(
    ("pressed", "caused", "refused"),
    [(0.5, 0.5, False), (0.500001, 0.5, True), (0.5, 0.500001, True)],
)
def test_a_node_is_refused_beyond_what_newcomer_and_resident_tolerate(
    pressed: float, caused: float, refused: bool
) -> None:
    ledger = NodeLedger(NODES)
    resident(ledger, over_sources(0.0, disk=pressed), over_sources(1.0, disk=0.5))
    request = newcomer(over_sources(1.0, disk=0.5), over_sources(0.0, disk=caused))
    assert refusals(request, ledger) == {refused}
    assert ledger.bears(0, request.pressure_on(0, 0, NODES)) == (caused == 0.5)


@pytest.mark.parametrize(("caused", "refused"), [(0.0, False), (0.01, True)])
def test_a_resident_under_too_much_pressure_refuses_only_work_that_adds_to_that_pressure(
    caused: float, refused: bool
) -> None:
    ledger = NodeLedger(NODES)
    resident(ledger, over_sources(0.0), over_sources(1.0, network=0.2))
    resident(ledger, over_sources(0.0, network=0.8), None)
    assert ledger.slack.min() < -0.5
    request = newcomer(over_sources(1.0), over_sources(0.0, disk=0.1, network=caused))
    assert refusals(request, ledger) == {refused}
    assert ledger.bears(0, request.pressure_on(0, 0, NODES)) == (not refused)


@pytest.mark.parametrize(("tolerated", "refused"), [(0.32, True), (0.36, False)])
def test_a_replica_bears_the_next_one_of_its_workload_with_its_copies(
    tolerated: float, refused: bool
) -> None:
    """Each exerts 0.25 and its copies 0.05; the first would be exposed to 0.35 with its own copies."""
    request = newcomer(over_sources(1.0, disk=tolerated), over_sources(0.0, disk=0.25))
    sizing = Sizing(replace(request, shares={DrawKind.REISSUES: 0.2}), NodeLedger(NODES))
    for one in (SharedNodesTrial(sizing), sizing):
        one.add(0, 0)
        assert (one.next_on(0, None)[0] == NO_SIZE) == refused


def test_pressure_beyond_that_of_a_probe_is_tolerated_by_work_that_tolerates_a_probe() -> None:
    ledger = NodeLedger(NODES)
    for _ in range(2):
        resident(ledger, over_sources(0.0, network=0.8), None)
    assert refusals(newcomer(over_sources(1.0, disk=0.5), over_sources(0.0)), ledger) == {False}


def test_pressure_beyond_what_is_tolerated_by_rounding_alone_costs_what_is_tolerated() -> None:
    ledger = NodeLedger(NODES)
    resident(ledger, over_sources(0.0, disk=0.5 * (1 + 0.5e-9)), None)
    request = newcomer(over_sources(1.0, disk=0.5), over_sources(0.0))
    assert contention_on(request, ledger).loss[0, 0] == 0.05
    sizing = Sizing(request, ledger)
    for one in (sizing, SharedNodesTrial(sizing)):
        assert one.next_on(0, None) == (0, 1e3 * (1 - 0.05))


@pytest.mark.parametrize("over", [(0.0, 0.0), (1e-6, 0.0), (0.0, 1e-6)])
def test_a_node_takes_what_just_fits(over: tuple[float, float]) -> None:
    """A whole node, at once or from half of one."""
    sizes = (Size(CORES / 2, MEMORY_GB / 2), Size(CORES + over[0], MEMORY_GB + over[1]))
    about = replace(profile({1: 1e3, 2: 2e3}, {"top": 1.0}), sizes=sizes)
    large = Cluster((NodeClass(name="top", cores=2 * CORES, memory_gb=2 * MEMORY_GB),), (Node("n", "top"),))
    request = requested(1e3, about, large, spread=Spread.NONE)
    sizing = Sizing(request, NodeLedger(NODES))
    for one in (SharedNodesTrial(sizing), sizing):
        assert one.takes(0, 1) == (over == (0.0, 0.0))
        one.add(0, 0)
        assert one.has_room(0, 1) == (over == (0.0, 0.0))


def test_negative_pressure_costs_nothing() -> None:
    assert loss_within(-0.5) == 0.0
    assert worst_loss(np.array([-0.5, -0.1]), np.array([0.5, 1.0])) == 0.0
    assert worst_loss(np.array([0.6, -1.0]), np.array([0.5, 0.5])) == pytest.approx(0.05 + 0.1)


@pytest.mark.parametrize("spread", [Spread.NONE, Spread.NODE])
def test_replicas_that_lose_everything_meet_no_target(spread: Spread) -> None:
    ledger = NodeLedger(NODES)
    resident(ledger, over_sources(0.0, disk=1.0), None)
    about = profile({1: 1e3}, {"top": 1.0}, tolerated=over_sources(1.0, disk=0.0))
    request = requested(1e3, about, NODES, spread=spread)
    sizing = Sizing(request, ledger)
    trial = SharedNodesTrial(sizing) if spread is Spread.NONE else OwnNodesTrial(sizing, np.arange(1))
    for one in (trial, sizing):
        one.add(0, 0)
        assert not one.meets()
        assert one.forecast().performance == 0.0
        assert one.first_that_meets(0, [None]) is None
