"""Explanations of a placement: the factors of each prediction, and what neighbours cost one another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kwiken.allocator.placement.node_ledger import NodeLedger
from kwiken.allocator.placement.order import PlacedOrNot
from kwiken.allocator.placement.quality import contention_loss, contention_on
from kwiken.allocator.placement.request import PlacementRequest
from kwiken.allocator.placement.sizing import SizedReplica
from kwiken.allocator.workloads.sources import SOURCES


@dataclass(frozen=True)
class NeighbourCost:
    """What one workload costs another one on the same node.

    Attributes:
        by: name of the workload that exerts the pressure.
        to: name of the workload that loses performance.
        loss: share of a replica's performance that is lost more than without `by`, 0 to 1.
        source: source of contention at which the most is lost.
    """

    node: str
    by: str
    to: str
    loss: float
    source: str


@dataclass(frozen=True)
class ReplicaFactors:
    """The factors of one replica's predicted performance (Quasar section 3.5).

    `rate` is the product of `base`, `size`, `node_class`, `latency`, `contention` and `efficiency`.

    Attributes:
        cores: number of cores.
        memory_gb: memory, in units of GB.
        base: performance of a replica of the reference size on the reference class, work per second.
        size: factor of the size.
        node_class: factor of the node's class.
        latency: share of the capacity that is left when requests may wait no longer than the target allows; 1
            where performance was measured at the latency.
        contention: factor of the neighbours: 1 less the loss that the prediction accounts for.
        source: source of contention at which the most is lost now; empty where nothing is.
        efficiency: factor of there being as many replicas.
        rate: performance that the replica adds to the workload, work per second.
    """

    workload: str
    node: str
    cores: float
    memory_gb: float
    base: float
    size: float
    node_class: float
    latency: float
    contention: float
    source: str
    efficiency: float
    rate: float


@dataclass(frozen=True)
class PlacementExplanation:
    """Why a placement is as it is.

    Attributes:
        factors: factors of every replica.
        neighbours: costs among neighbours, the largest first.
        refused: by workload: number of nodes that have room for one more replica of its smallest size, and
            cannot take one because of contention.
    """

    factors: tuple[ReplicaFactors, ...]
    neighbours: tuple[NeighbourCost, ...]
    refused: dict[str, int]


def explain_placement(admissions: Sequence[PlacedOrNot], ledger: NodeLedger) -> PlacementExplanation:
    """Explain the outcome of a placement.

    Args:
        admissions: outcomes of all workloads.
        ledger: state of the nodes after the last of them.
    """
    requests = {admission.request.name: admission.request for admission in admissions}
    factors = [
        found
        for admission in admissions
        for found in _factors(admission, ledger, len(admission.sizing.replicas))
    ]
    here: list[dict[str, SizedReplica]] = [{} for _ in ledger.cluster.nodes]
    for admission in admissions:
        for replica in admission.sizing.replicas:
            here[replica.node].setdefault(admission.request.name, replica)
    costs = [cost for node, own in enumerate(here) for cost in _costs(node, own, requests, ledger)]
    costs.sort(key=lambda cost: -cost.loss)
    refused = {name: _refused(request, ledger) for name, request in requests.items()}
    return PlacementExplanation(tuple(factors), tuple(costs), refused)


def _factors(admission: PlacedOrNot, ledger: NodeLedger, count: int) -> list[ReplicaFactors]:
    request, found = admission.request, []
    for place, replica in enumerate(admission.sizing.replicas):
        node_class = ledger.cluster.class_of[replica.node]
        alone = float(request.rate[replica.size, node_class])
        by_class = float(request.class_factor[node_class])
        capacity = float(request.capacity[replica.size, node_class])
        rate, efficiency = admission.sizing.rate(place), float(request.efficiency[count - 1])
        at = slice(None), replica.size, int(node_class)
        outside = np.maximum(ledger.pressure[:, replica.node] - request.pressure[at], 0.0)
        losses = contention_loss(outside[:, None], request.tolerance[at])[:, 0]
        found.append(
            ReplicaFactors(
                workload=request.name,
                node=ledger.cluster.nodes[replica.node].name,
                cores=float(request.cores[replica.size]),
                memory_gb=float(request.memory_gb[replica.size]),
                base=request.base,
                size=capacity / (request.base * by_class),
                node_class=by_class,
                latency=alone / capacity,
                contention=rate / alone,
                source=SOURCES[int(losses.argmax())] if losses.any() else "",
                efficiency=efficiency,
                rate=rate * efficiency,
            )
        )
    return found


def _costs(
    node: int, own: dict[str, SizedReplica], requests: dict[str, PlacementRequest], ledger: NodeLedger
) -> list[NeighbourCost]:
    """What each workload on a node costs each other one there; of several replicas, the first one."""
    draws, node_class = ledger.residents(node), ledger.cluster.class_numbers[node]
    found = []
    for to, replica in own.items():
        at = slice(None), replica.size, node_class
        limits = requests[to].tolerance[at]
        outside = np.maximum(ledger.pressure[:, node] - requests[to].pressure[at], 0.0)
        before = contention_loss(outside[:, None], limits)[:, 0]
        for by in own:
            if by == to:
                continue
            caused = np.sum([draw.caused for draw in draws if draw.owner == by], axis=0)
            without = contention_loss(np.maximum(outside - caused, 0.0)[:, None], limits)[:, 0]
            loss = float(before.max() - without.max())
            if loss > 0:
                source = SOURCES[int(before.argmax())]
                found.append(NeighbourCost(ledger.cluster.nodes[node].name, by, to, loss, source))
    return found


def _refused(request: PlacementRequest, ledger: NodeLedger) -> int:
    room = ledger.free_cores >= request.cores[:, None]
    room &= ledger.free_memory_gb >= request.memory_gb[:, None]
    refused = contention_on(request, ledger).refused
    return int(np.count_nonzero(room.any(axis=0) & ~(room & ~refused).any(axis=0)))
