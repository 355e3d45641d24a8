"""Groups of replicas of one workload and one size: what one Deployment or Compose service describes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from kwiken.base.errors import InputError
from kwiken.model.nodes.nodes import (
    HOST_LABEL,
    ZONE_LABEL,
    affinity_to_classes,
    preference_of_nodes,
)
from kwiken.model.nodes.placement import PlacedReplica, PlacedWorkload, Placement

MAX_LABEL: Final = 63  # characters of a name in Kubernetes
MEBIBYTES_PER_GB: Final = 1e9 / 2**20
_HOST_NAME: Final = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?\Z")
_LABEL_VALUE: Final = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?\Z")
_KEYS: Final = {"node": HOST_LABEL, "zone": ZONE_LABEL}


@dataclass(frozen=True)
class ReplicaGroup:
    """Replicas of one workload that are of one size.

    Attributes:
        name: name of the group, unique among those of a placement, as Kubernetes takes it.
        cores: number of cores of a replica, with those kept for reissues and for late requests.
        memory_gb: memory of a replica, in units of GB.
        nodes: name of the node of each replica.
        classes: names of the classes of these nodes, each once.
        in_one_zone: largest number of replicas in one zone; None where one zone has all, or none is named.
    """

    name: str
    workload: PlacedWorkload
    cores: float
    memory_gb: float
    nodes: tuple[str, ...]
    classes: tuple[str, ...]
    in_one_zone: int | None

    @property
    def on_one_node(self) -> int:
        """Largest number of replicas on one node."""
        return max(self.nodes.count(node) for node in self.nodes)

    @property
    def resources(self) -> dict[str, str]:
        """CPU and memory of a replica, as quantities of Kubernetes."""
        return {"cpu": millicores(self.cores), "memory": f"{mebibytes(self.memory_gb)}Mi"}


def check_host_names(placement: Placement, where: str) -> None:
    """Refuse nodes whose names no node of Kubernetes can have, and classes that are no value of a label.

    Raises:
        InputError: names the node or the class.
    """
    for node in placement.nodes:
        if not _LABEL_VALUE.match(node.node_class):
            raise InputError(f"class {node.node_class!r} is no value of a Kubernetes label", where=where)
        if not _HOST_NAME.match(node.name):
            raise InputError(f"node {node.name!r} is no name of a Kubernetes node", where=where)


def replica_groups(placement: Placement, where: str) -> list[ReplicaGroup]:
    """Groups of a placement's replicas, in its order.

    Raises:
        InputError: for a workload whose name no group can have, or two groups that would get one name.
    """
    found: dict[str, ReplicaGroup] = {}
    known = {node.name: node for node in placement.nodes}
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
            classes = tuple(unique(known[node].node_class for node in nodes))
            zones = Counter(known[node].zone for node in nodes)
            in_one_zone = max(zones.values()) if len(zones) > 1 and "" not in zones else None
            found[name] = ReplicaGroup(name, workload, *size, nodes, classes, in_one_zone)
    return list(found.values())


def affinity_of(group: ReplicaGroup, labels: dict[str, str]) -> dict[str, Any]:
    """Affinity of the pods of a group: classes of nodes, and what no two replicas of the workload may share.

    A pod of a node that is gone runs on another node of the class. Chosen nodes are a preference: node
    autoscalers provide no node of a given name (kubernetes-sigs/karpenter#3214).

    Args:
        labels: labels that all replicas of the workload have, whatever their size.
    """
    nodes = preference_of_nodes(unique(group.nodes))
    affinity: dict[str, Any] = {"nodeAffinity": affinity_to_classes(group.classes) | nodes}
    if group.workload.spread in _KEYS:
        affinity["podAntiAffinity"] = {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": _KEYS[group.workload.spread], "labelSelector": {"matchLabels": labels}}
            ]
        }
    return affinity


def spread_of(group: ReplicaGroup, labels: dict[str, str]) -> list[dict[str, Any]]:
    """Spread of the pods of a group over nodes or zones; over zones as far as the placement has it.

    Args:
        labels: labels that all replicas of the group have.
    """
    key = _KEYS.get(group.workload.spread, HOST_LABEL)
    rules = [(group.on_one_node, key, "DoNotSchedule")]
    if group.in_one_zone is not None and key != ZONE_LABEL:
        rules.append((group.in_one_zone, ZONE_LABEL, "ScheduleAnyway"))
    return [
        {
            "maxSkew": most,
            "topologyKey": key,
            "whenUnsatisfiable": otherwise,
            "labelSelector": {"matchLabels": labels},
        }
        for most, key, otherwise in rules
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
