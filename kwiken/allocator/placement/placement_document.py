"""Placement: the document that says which replica of which workload runs on which node, as versioned JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Final

import msgspec
import numpy as np

from kwiken.allocator.placement.node_ledger import Draw, DrawKind, NodeLedger
from kwiken.allocator.placement.order import PlacedOrNot, PlacingStatus
from kwiken.allocator.placement.request import PlacementRequest
from kwiken.allocator.placement.sizing import Forecast, Sizing
from kwiken.base.errors import InputError
from kwiken.base.parsing.strict_json import check_version, convert, parse_json
from kwiken.model.nodes.nodes import Cluster

VERSION: Final = 1
PLACED_GATE: Final = "kwiken/placed"  # what a pod of Kubernetes waits for until an upkeep has chosen its node
MAX_BYTES: Final = 256 << 20  # of a document
SAME_SIZE: Final = 1e-6  # cores or GB by which a written size may be off


class _Struct(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    pass


_Positive = Annotated[float, msgspec.Meta(gt=0)]
_NotNegative = Annotated[float, msgspec.Meta(ge=0)]


class PlacedNode(_Struct, frozen=True, kw_only=True):
    """Node that a placement uses or could have used.

    Attributes:
        node_class: name of its class; `class` in JSON.
        zone: name of its zone; empty for a zone of its own.
        memory_gb: memory, in units of GB.
    """

    name: str
    node_class: str = msgspec.field(name="class")
    zone: str = ""
    cores: _Positive
    memory_gb: _Positive


class PlacedReplica(_Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One replica.

    Attributes:
        cores: number of cores for its own work.
        memory_gb: memory, in units of GB.
        reissue_cores: number of cores kept for copies of calls.
        catch_up_cores: number of cores kept for threads of late requests.
    """

    node: str
    cores: _Positive
    memory_gb: _Positive
    reissue_cores: _NotNegative = 0.0
    catch_up_cores: _NotNegative = 0.0


class PlacedWorkload(_Struct, frozen=True, kw_only=True):
    """One workload with its replicas.

    Attributes:
        service: name of the service that it is a part of; empty for none.
        stage: name of the stage of that service; empty for none.
        spread: what no two replicas may share: `none`, `node` or `zone`.
        required: performance that meets its target, work per second; 0 for best-effort work.
        expected: predicted performance with all neighbours, work per second.
        needed: performance that the prediction had to reach, work per second: the target with headroom.
        probability: probability that the target is met, 0 to 1; 1 for best-effort work.
        cost_per_hour: cost of the replicas in an hour.
        nearest: for a workload that waits, performance that the free nodes could give as surely, work per
            second; 0 else.
        nearest_empty: for a workload that waits, the same of all nodes if they were empty; 0 else.
        evicted: by best-effort workload: number of its replicas that made room.
    """

    name: str
    service: str = ""
    stage: str = ""
    spread: str = "none"
    status: PlacingStatus
    required: _NotNegative
    expected: _NotNegative
    needed: _NotNegative
    probability: Annotated[float, msgspec.Meta(ge=0, le=1)]
    cost_per_hour: _NotNegative
    nearest: _NotNegative = 0.0
    nearest_empty: _NotNegative = 0.0
    evicted: dict[str, int] = {}
    replicas: list[PlacedReplica]


class Placement(_Struct, frozen=True, kw_only=True):
    """Placement of workloads on the nodes of a cluster.

    Attributes:
        version: version of the format; must be 1.
        scheduler: name of the scheduler that made it.
        confidence: probability with which each target was to be met, 0 to 1.
    """

    version: int
    scheduler: str
    confidence: Annotated[float, msgspec.Meta(gt=0, le=1)]
    nodes: list[PlacedNode]
    workloads: list[PlacedWorkload]

    def to_json(self) -> str:
        """The placement as JSON, readable by `from_json`."""
        return msgspec.json.format(msgspec.json.encode(self), indent=1).decode() + "\n"

    @classmethod
    def from_json(cls, text: str | bytes, *, where: str) -> Placement:
        """Read a placement.

        Args:
            where: source to name in errors, such as a file's path.

        Raises:
            InputError: names the field that is missing, unknown, doubled or out of range, or an unknown
                version.
        """
        raw = parse_json(text, where=where, max_bytes=MAX_BYTES)
        if isinstance(raw, dict):
            check_version(raw.get("version", VERSION), VERSION, where=where)
        found = convert(raw, cls, where=where)
        _check(found, where)
        return found


def _check(placement: Placement, where: str) -> None:
    """Check that names are unique, and that replicas stand on nodes that are listed and have the room."""
    room: dict[str, tuple[float, float]] = {}
    for place, node in enumerate(placement.nodes):
        if node.name in room:
            raise InputError(f"nodes[{place}].name: {node.name!r} is given twice", where=where)
        room[node.name] = node.cores, node.memory_gb
    names: set[str] = set()
    for place, workload in enumerate(placement.workloads):
        path = f"workloads[{place}]"
        if workload.name in names:
            raise InputError(f"{path}.name: {workload.name!r} is given twice", where=where)
        names.add(workload.name)
        for number, replica in enumerate(workload.replicas):
            if replica.node not in room:
                raise InputError(
                    f"{path}.replicas[{number}].node: no node {replica.node!r} in the document",
                    where=where,
                )
            cores, memory_gb = room[replica.node]
            cores -= replica.cores + replica.reissue_cores + replica.catch_up_cores
            memory_gb -= replica.memory_gb
            if cores < -SAME_SIZE or memory_gb < -SAME_SIZE:
                raise InputError(
                    f"{path}.replicas[{number}]: node {replica.node!r} has no room for it", where=where
                )
            room[replica.node] = cores, memory_gb


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
