"""Assignment: which replica of a running cluster is which one of a placement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kwiken.allocator.workloads.workload import Workload
from kwiken.runtime.cluster.layout import EmulatedNode, ReplicaPlace

Keys = Mapping[str, Sequence[tuple[str, str, float]]]  # key, node and cores of each replica, by workload


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """Workloads on the nodes that this machine emulates.

    Attributes:
        names: by key of a replica, its name in its service's cluster.
    """

    workloads: Mapping[str, Workload]
    nodes: Mapping[str, EmulatedNode]
    names: dict[str, str] = field(default_factory=dict)

    def replicas(self, service: str, keys: Keys) -> dict[str, list[ReplicaPlace]]:
        """Places of a service's replicas at the start, by stage; their names are noted.

        Args:
            keys: key, node and cores of each replica, by workload.
        """
        places: dict[str, list[ReplicaPlace]] = {}
        for name, replicas in keys.items():
            workload = self.workloads[name]
            if workload.service == service and workload.stage:
                there = places.setdefault(workload.stage, [])
                for key, node, cores in replicas:
                    self.names[key] = f"{workload.stage}-{len(there)}"
                    there.append(ReplicaPlace(node, cores))
        return places

    def keys_by_stage(self, keys: Keys) -> dict[str, list[tuple[str, ReplicaPlace]]]:
        """Key and place of each replica, by stage.

        Args:
            keys: key, node and cores of each replica, by workload.
        """
        found: dict[str, list[tuple[str, ReplicaPlace]]] = {}
        for name, replicas in keys.items():
            stage = self.workloads[name].stage
            found.setdefault(stage, []).extend(
                (key, ReplicaPlace(node, cores)) for key, node, cores in replicas
            )
        return found
