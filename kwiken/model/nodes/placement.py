"""Placement: the document that says which replica of which workload runs on which node, as versioned JSON."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar, Final

import msgspec

from kwiken.base.errors import InputError
from kwiken.base.parsing.documents import DocumentFormat, JsonDocument, StrictStruct

VERSION: Final = 1
PLACED_GATE: Final = "kwiken/placed"  # what a pod of Kubernetes waits for until an upkeep has chosen its node
MAX_BYTES: Final = 256 << 20  # of a document
SAME_SIZE: Final = 1e-6  # cores or GB by which a written size may be off


_Positive = Annotated[float, msgspec.Meta(gt=0)]
_NotNegative = Annotated[float, msgspec.Meta(ge=0)]


class PlacingStatus(StrEnum):
    """What became of a workload.

    Attributes:
        MET: its target is met as surely as asked.
        SHORT: it runs, and misses its target by up to 5%, or is not sure enough to meet it. A scheduler of
            reservations, which does not size for the target, may miss it by more.
        QUEUED: it waits; the free nodes do not come near its target.
        BEST_EFFORT: it runs as far as there is room, and nothing was promised.
    """

    MET = "met"
    SHORT = "short"
    QUEUED = "queued"
    BEST_EFFORT = "best-effort"


class PlacedNode(StrictStruct, frozen=True, kw_only=True):
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


class PlacedReplica(StrictStruct, frozen=True, omit_defaults=True, kw_only=True):
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


class PlacedWorkload(StrictStruct, frozen=True, kw_only=True):
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
    evicted: dict[str, int] = msgspec.field(default_factory=dict)
    replicas: list[PlacedReplica]


class Placement(JsonDocument, frozen=True, kw_only=True):
    """Placement of workloads on the nodes of a cluster.

    Attributes:
        version: version of the format; must be 1.
        scheduler: name of the scheduler that made it.
        confidence: probability with which each target was to be met, 0 to 1.
    """

    FORMAT: ClassVar = DocumentFormat(VERSION, MAX_BYTES)

    version: int
    scheduler: str
    confidence: Annotated[float, msgspec.Meta(gt=0, le=1)]
    nodes: list[PlacedNode]
    workloads: list[PlacedWorkload]

    def check(self, where: str) -> None:
        """Check that names are unique, and that replicas stand on nodes that are listed and have the room."""
        room: dict[str, tuple[float, float]] = {}
        for place, node in enumerate(self.nodes):
            if node.name in room:
                raise InputError(f"nodes[{place}].name: {node.name!r} is given twice", where=where)
            room[node.name] = node.cores, node.memory_gb
        names: set[str] = set()
        for place, workload in enumerate(self.workloads):
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
