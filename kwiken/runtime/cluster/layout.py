"""Layout of a cluster: the nodes that this machine emulates, and which replica stands on which node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kwiken.runtime.node_classes.limit import Limit
from kwiken.runtime.node_classes.node_limits import NodeLimits


@dataclass(frozen=True, kw_only=True)
class EmulatedNode:
    """Node that this machine emulates.

    Attributes:
        cores: number of its cores.
        speed: speed of a core as a share of this machine's, above 0 and at most 1.
    """

    node_class: str
    cores: float
    speed: float = 1.0

    @property
    def limit(self) -> Limit:
        """Limit of all processes of the node together."""
        return Limit(self.cores, self.speed)


@dataclass(frozen=True, slots=True)
class ReplicaPlace:
    """Place of one replica.

    Attributes:
        cores: number of the node's cores that it may use.
    """

    node: str
    cores: float


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Nodes, and the places of replicas on them at the start.

    Attributes:
        limits: limits of the processes, entered by the caller; several clusters may share them, and then
            share the nodes.
        replicas: places by stage; a stage that is missing gets the service's own number of replicas, on no
            node and without a limit.
    """

    limits: NodeLimits
    nodes: Mapping[str, EmulatedNode]
    replicas: Mapping[str, Sequence[ReplicaPlace]] = field(default_factory=dict)

    def limit(self, place: ReplicaPlace) -> Limit:
        """Limit of a replica at a place."""
        return Limit(place.cores, self.nodes[place.node].speed)
