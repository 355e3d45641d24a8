"""Placements written down as documents, and resumed from them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from kwiken.allocator.placement.node_ledger import Draw, DrawKind, NodeLedger
from kwiken.allocator.placement.order import PlacedOrNot
from kwiken.allocator.placement.request import PlacementRequest
from kwiken.allocator.placement.sizing import Forecast, Sizing
from kwiken.model.nodes.nodes import Cluster
from kwiken.model.nodes.placement import (
    SAME_SIZE,
    VERSION,
    PlacedNode,
    PlacedReplica,
    PlacedWorkload,
    Placement,
)


def document(
    cluster: Cluster, admissions: Sequence[PlacedOrNot], *, scheduler: str, confidence: float
) -> Placement:
    """Write down what was placed.

    Args:
        admissions: outcomes of the workloads, in the order of the document.
        confidence: probability with which each target was to be met, 0 to 1.
    """
    nodes = placed_nodes(cluster)
    workloads = [_workload(cluster, admission) for admission in admissions]
    return Placement(
        version=VERSION, scheduler=scheduler, confidence=confidence, nodes=nodes, workloads=workloads
    )


def placed_nodes(cluster: Cluster) -> list[PlacedNode]:
    """Nodes of a cluster as a placement lists them."""
    classes = {found.name: found for found in cluster.classes}
    return [
        PlacedNode(
            name=node.name,
            node_class=node.node_class,
            zone=node.zone,
            cores=classes[node.node_class].cores,
            memory_gb=classes[node.node_class].memory_gb,
        )
        for node in cluster.nodes
    ]


def _workload(cluster: Cluster, admission: PlacedOrNot) -> PlacedWorkload:
    request, sizing = admission.request, admission.sizing
    forecast = sizing.forecast()
    chance = 1.0
    if request.required:
        chance = request.caution.probability(forecast.performance / request.required, forecast.deviation)
    evicted: dict[str, int] = {}
    for name, _ in admission.evicted:
        evicted[name] = evicted.get(name, 0) + 1
    return PlacedWorkload(
        name=request.name,
        service=request.workload.service,
        stage=request.workload.stage,
        spread=request.workload.spread.value,
        status=admission.status,
        required=request.required,
        expected=forecast.performance,
        needed=forecast.needed,
        probability=chance,
        cost_per_hour=sizing.cost,
        nearest=_sure(request, admission.nearest),
        nearest_empty=_sure(request, admission.nearest_empty),
        evicted=evicted,
        replicas=[_replica(cluster, replica.draws) for replica in sizing.replicas],
    )


def _sure(request: PlacementRequest, forecast: Forecast | None) -> float:
    """Target that a forecast would meet as surely as asked; 0 for no forecast."""
    if forecast is None:
        return 0.0
    return forecast.performance / (1.0 + request.caution.headroom(forecast.deviation))


def _replica(cluster: Cluster, draws: Sequence[Draw]) -> PlacedReplica:
    cores = dict.fromkeys(DrawKind, 0.0)
    for draw in draws:
        cores[draw.kind] += draw.cores
    return PlacedReplica(
        node=cluster.nodes[draws[0].node].name,
        cores=cores[DrawKind.REPLICA],
        memory_gb=draws[0].memory_gb,
        reissue_cores=cores[DrawKind.REISSUES],
        catch_up_cores=cores[DrawKind.CATCH_UP],
    )


def resume(
    placement: Placement, requests: Mapping[str, PlacementRequest], ledger: NodeLedger
) -> list[Sizing]:
    """Draw what runs already from a ledger, so that others are placed beside it.

    Replicas are left out, to be placed anew, where their workload or node is gone, where the node has no room
    for them any more, or where the profile does not know their size.

    Returns:
        Workloads of the placement that still have replicas.
    """
    found = []
    for placed in placement.workloads:
        request = requests.get(placed.name)
        if request is None:
            continue
        sizing = Sizing(request, ledger)
        for replica in placed.replicas:
            node = ledger.cluster.index_of.get(replica.node)
            same = np.flatnonzero(
                (np.abs(request.cores - replica.cores) <= SAME_SIZE)
                & (np.abs(request.memory_gb - replica.memory_gb) <= SAME_SIZE)
            )
            if node is None or not same.size or len(sizing.replicas) == len(request.efficiency):
                continue
            size = int(same[0])
            if ledger.fits(node, float(request.all_cores[size]), float(request.memory_gb[size])):
                sizing.add(node, size)
        if sizing.replicas:
            found.append(sizing)
    return found


def total_cost(placement: Placement) -> float:
    """Cost of all replicas in an hour."""
    return math.fsum(workload.cost_per_hour for workload in placement.workloads)
