"""Groups of replicas of one workload and one size: what one Deployment or Compose service describes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from kwiken.base.errors import InputError
from kwiken.model.nodes.placement import PlacedReplica, PlacedWorkload, Placement

MAX_LABEL: Final = 63  # characters of a name in Kubernetes
MEBIBYTES_PER_GB: Final = 1e9 / 2**20
HOST: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"
_HOST_NAME: Final = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?\Z")
_KEYS: Final = {"node": HOST, "zone": ZONE}


@dataclass(frozen=True)
class ReplicaGroup:
    """Replicas of one workload that are of one size.

    Attributes:
        name: name of the group, unique among those of a placement, as Kubernetes takes it.
        cores: number of cores of a replica, with those kept for reissues and for late requests.
        memory_gb: memory of a replica, in units of GB.
    """

    name: str
    workload: PlacedWorkload
    cores: float
    memory_gb: float
    nodes: tuple[str, ...]

    @property
    def on_one_node(self) -> int:
        """Largest number of replicas on one node."""
        return max(self.nodes.count(node) for node in self.nodes)

    @property
    def resources(self) -> dict[str, str]:
        """CPU and memory of a replica, as quantities of Kubernetes."""
        return {"cpu": millicores(self.cores), "memory": f"{mebibytes(self.memory_gb)}Mi"}


def check_host_names(placement: Placement, where: str) -> None:
    """Refuse nodes whose names no node of Kubernetes can have.

    Raises:
        InputError: names the node.
    """
    for node in placement.nodes:
        if not _HOST_NAME.match(node.name):
            raise InputError(f"node {node.name!r} is no name of a Kubernetes node", where=where)


def replica_groups(placement: Placement, where: str) -> list[ReplicaGroup]:
    """Groups of a placement's replicas, in its order.

    Raises:
        InputError: for a workload whose name no group can have, or two groups that would get one name.
    """
    found: dict[str, ReplicaGroup] = {}
    for workload in placement.workloads:
        sizes = sorted({drawn_of(replica) for replica in workload.replicas}, reverse=True)
        for size in sizes:
            nodes = tuple(one.node for one in workload.replicas if drawn_of(one) == size)
            # One size is the rule; others are told by their cores.
            name = name_in_kubernetes(
                workload.name if len(sizes) == 1 else f"{workload.name}-{millicores(size[0])}"
            )
            if not name_in_kubernetes(workload.name):
                raise InputError(
                    f"workload {workload.name!r} has no letter or digit to name it by", where=where
                )
            if name in found:
                raise InputError(
                    f"workloads {found[name].workload.name!r} and {workload.name!r} would both be {name!r}",
                    where=where,
                )
            found[name] = ReplicaGroup(name, workload, *size, nodes)
    return list(found.values())


def affinity_of(group: ReplicaGroup, labels: dict[str, str]) -> dict[str, Any]:
    """Affinity of the pods of a group: its nodes, and what no two replicas of the workload may share.

    Args:
        labels: labels that all replicas of the workload have, whatever their size.
    """
    nodes = {"key": HOST, "operator": "In", "values": unique(group.nodes)}
    affinity: dict[str, Any] = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [nodes]}]
            }
        }
    }
    if group.workload.spread in _KEYS:
        affinity["podAntiAffinity"] = {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": _KEYS[group.workload.spread], "labelSelector": {"matchLabels": labels}}
            ]
        }
    return affinity


def spread_of(group: ReplicaGroup, labels: dict[str, str]) -> list[dict[str, Any]]:
    """Spread of the pods of a group over nodes or zones.

    Args:
        labels: labels that all replicas of the group have.
    """
    return [
        {
            "maxSkew": group.on_one_node,
            "topologyKey": _KEYS.get(group.workload.spread, HOST),
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": labels},
        }
    ]


def drawn_of(replica: PlacedReplica) -> tuple[float, float]:
    """Cores that a replica takes, with those kept for reissues and late requests, and its memory in GB."""
    cores = replica.cores + replica.reissue_cores + replica.catch_up_cores
    return round(cores, 6), replica.memory_gb


def name_in_kubernetes(name: str) -> str:
    """Name as Kubernetes takes it: small letters, digits and hyphens; empty where nothing is left."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:MAX_LABEL].strip("-")


def millicores(cores: float) -> str:
    """Number of cores as a quantity of Kubernetes."""
    return f"{max(1, round(1000 * cores))}m"


def mebibytes(memory_gb: float) -> int:
    """Memory in whole MiB.

    Args:
        memory_gb: memory, in units of GB.
    """
    return max(1, int(memory_gb * MEBIBYTES_PER_GB))


def unique(names: Iterable[str]) -> list[str]:
    """Names without repetition, in their order."""
    return list(dict.fromkeys(names))
