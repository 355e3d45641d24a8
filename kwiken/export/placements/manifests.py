"""Placements as settings of Compose and Kubernetes: resources, nodes and spread of replicas."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from kwiken.allocator.placement import PlacedReplica, PlacedWorkload, Placement
from kwiken.base.errors import InputError
from kwiken.base.printable import printable
from kwiken.export.yaml import dump

MAX_LABEL: Final = 63  # characters of a name in Kubernetes
MEBIBYTES_PER_GB: Final = 1e9 / 2**20
HOST: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"
_HOST_NAME: Final = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?\Z")


@dataclass(frozen=True)
class _Group:
    """Replicas of one workload that are of one size: what one deployment can describe."""

    name: str
    workload: PlacedWorkload
    cores: float
    memory_gb: float
    nodes: tuple[str, ...]

    @property
    def on_one_node(self) -> int:
        """Largest number of replicas on one node."""
        return max(self.nodes.count(node) for node in self.nodes)


def kubernetes_patches(placement: Placement, *, where: str) -> str:
    """Patches of Deployments in YAML, one for each workload and size of replicas.

    A patch sets replicas, CPU and memory, the nodes, and the spread over nodes or zones. The image, and all
    else, stays with the Deployment of that name.

    Raises:
        InputError: for a node or a workload whose name Kubernetes does not take, or two workloads that would
            get one name.
    """
    for node in placement.nodes:
        if not _HOST_NAME.match(node.name):
            raise InputError(f"node {node.name!r} is no name of a Kubernetes node", where=where)
    groups = _groups(placement, where)
    header = [*_header(placement, "kubectl apply -k"), *_fullest(placement)]
    return dump([((), _deployment(group)) for group in groups], header)


def compose_override(placement: Placement, *, where: str) -> str:
    """Override file of Compose in YAML, with one service for each workload, size of replicas and node.

    Constraints of Compose cannot name a choice of nodes, so each node has a service of its own.

    Raises:
        InputError: for a workload whose name no service can have, or two services that would get one name.
    """
    services: dict[str, Any] = {}
    for group in _groups(placement, where):
        for node in _unique(group.nodes):
            name = _slug(f"{group.name}-{node}")
            if name in services:
                raise InputError(f"two services would be named {name!r}", where=where)
            services[name] = _service(group, node)
    return dump([((), {"services": services})], _header(placement, "docker stack deploy -c"))


MANIFESTS: Final[Mapping[str, Callable[..., str]]] = MappingProxyType(
    {"compose": compose_override, "kubernetes": kubernetes_patches}
)


def _header(placement: Placement, command: str) -> list[str]:
    waiting = [one.name for one in placement.workloads if one.status == "queued"]
    lines = [f"Placement by {printable(placement.scheduler)}; lay it over what you deploy ({command})."]
    if waiting:
        lines.append(f"Without replicas, because they wait for room: {printable(', '.join(waiting))}.")
    return lines


def _fullest(placement: Placement) -> list[str]:
    """Say what must be allocatable on the nodes: the most that is requested together on one of each class."""
    used = {node.name: [0.0, 0.0] for node in placement.nodes}
    for workload in placement.workloads:
        for replica in workload.replicas:
            for place, amount in enumerate(_drawn(replica)):
                used[replica.node][place] += amount
    most: dict[str, tuple[float, float]] = {}
    for node in placement.nodes:
        before, now = most.get(node.node_class, (0.0, 0.0)), used[node.name]
        most[node.node_class] = max(before[0], now[0]), max(before[1], now[1])
    return [
        f"Must be allocatable on a node of class {printable(name)}: {_millicores(cores)} of CPU, "
        f"{_mebibytes(memory_gb)}Mi of memory."
        for name, (cores, memory_gb) in most.items()
        if cores
    ]


def _groups(placement: Placement, where: str) -> list[_Group]:
    found: dict[str, _Group] = {}
    for workload in placement.workloads:
        sizes = sorted({_drawn(replica) for replica in workload.replicas}, reverse=True)
        for size in sizes:
            nodes = tuple(one.node for one in workload.replicas if _drawn(one) == size)
            # One size is the rule; others are told by their cores.
            name = _slug(workload.name if len(sizes) == 1 else f"{workload.name}-{_millicores(size[0])}")
            if not _slug(workload.name):
                raise InputError(
                    f"workload {workload.name!r} has no letter or digit to name it by", where=where
                )
            if name in found:
                raise InputError(
                    f"workloads {found[name].workload.name!r} and {workload.name!r} would both be {name!r}",
                    where=where,
                )
            found[name] = _Group(name, workload, *size, nodes)
    return list(found.values())


def _drawn(replica: PlacedReplica) -> tuple[float, float]:
    cores = replica.cores + replica.reissue_cores + replica.catch_up_cores
    return round(cores, 6), replica.memory_gb


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower())[:MAX_LABEL].strip("-")


def _millicores(cores: float) -> str:
    return f"{max(1, round(1000 * cores))}m"


def _mebibytes(memory_gb: float) -> int:
    return max(1, int(memory_gb * MEBIBYTES_PER_GB))


def _unique(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))


def _deployment(group: _Group) -> dict[str, Any]:
    resources = {"cpu": _millicores(group.cores), "memory": f"{_mebibytes(group.memory_gb)}Mi"}
    labels = {"kwiken-workload": _slug(group.workload.name)}
    same_size = {**labels, "kwiken-size": group.name}
    keys = {"node": HOST, "zone": ZONE}
    spread = [
        {
            "maxSkew": group.on_one_node,
            "topologyKey": keys.get(group.workload.spread, HOST),
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": same_size},
        }
    ]
    nodes = {"key": HOST, "operator": "In", "values": _unique(group.nodes)}
    affinity: dict[str, Any] = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [nodes]}]
            }
        }
    }
    if group.workload.spread in keys:
        affinity["podAntiAffinity"] = {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": keys[group.workload.spread], "labelSelector": {"matchLabels": labels}}
            ]
        }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": group.name},
        "spec": {
            "replicas": len(group.nodes),
            "template": {
                "metadata": {"labels": same_size},
                "spec": {
                    "affinity": affinity,
                    "topologySpreadConstraints": spread,
                    "containers": [
                        {"name": group.name, "resources": {"requests": resources, "limits": resources}}
                    ],
                },
            },
        },
    }


def _service(group: _Group, node: str) -> dict[str, Any]:
    amounts = {"cpus": f"{group.cores:g}", "memory": f"{_mebibytes(group.memory_gb)}M"}
    return {
        "deploy": {
            "replicas": group.nodes.count(node),
            "resources": {"limits": amounts, "reservations": amounts},
            "placement": {"constraints": [f"node.hostname=={node}"]},
        }
    }
