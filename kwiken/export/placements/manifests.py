"""Placements as settings of Compose and Kubernetes: resources, nodes and spread of replicas."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from kwiken.base.errors import InputError
from kwiken.base.printable import printable
from kwiken.export.placements.groups import (
    ReplicaGroup,
    affinity_of,
    check_host_names,
    drawn_of,
    mebibytes,
    millicores,
    name_in_kubernetes,
    replica_groups,
    spread_of,
    unique,
)
from kwiken.export.yaml import dump
from kwiken.model.nodes.placement import Placement


def kubernetes_patches(placement: Placement, *, where: str) -> str:
    """Patches of Deployments in YAML, one for each workload and size of replicas.

    A patch sets replicas, CPU and memory, classes of nodes, and the spread over nodes and zones. The image,
    and all else, stays with the Deployment of that name.

    Raises:
        InputError: for a node or a workload whose name Kubernetes does not take, or two workloads that would
            get one name.
    """
    check_host_names(placement, where)
    groups = replica_groups(placement, where)
    header = [*_header(placement, "kubectl apply -k"), *_fullest(placement)]
    return dump([((), _deployment(group)) for group in groups], header)


def compose_override(placement: Placement, *, where: str) -> str:
    """Override file of Compose in YAML, with one service for each workload, size of replicas and node.

    Constraints of Compose cannot name a choice of nodes, so each node has a service of its own.

    Raises:
        InputError: for a workload whose name no service can have, or two services that would get one name.
    """
    services: dict[str, Any] = {}
    for group in replica_groups(placement, where):
        for node in unique(group.nodes):
            name = name_in_kubernetes(f"{group.name}-{node}")
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
            for place, amount in enumerate(drawn_of(replica)):
                used[replica.node][place] += amount
    most: dict[str, tuple[float, float]] = {}
    for node in placement.nodes:
        before, now = most.get(node.node_class, (0.0, 0.0)), used[node.name]
        most[node.node_class] = max(before[0], now[0]), max(before[1], now[1])
    return [
        f"Must be allocatable on a node of class {printable(name)}: {millicores(cores)} of CPU, "
        f"{mebibytes(memory_gb)}Mi of memory."
        for name, (cores, memory_gb) in most.items()
        if cores
    ]


def _deployment(group: ReplicaGroup) -> dict[str, Any]:
    labels = {"kwiken-workload": name_in_kubernetes(group.workload.name)}
    same_size = {**labels, "kwiken-size": group.name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": group.name},
        "spec": {
            "replicas": len(group.nodes),
            "template": {
                "metadata": {"labels": same_size},
                "spec": {
                    "affinity": affinity_of(group, labels),
                    "topologySpreadConstraints": spread_of(group, same_size),
                    "containers": [
                        {
                            "name": group.name,
                            "resources": {"requests": group.resources, "limits": group.resources},
                        }
                    ],
                },
            },
        },
    }


def _service(group: ReplicaGroup, node: str) -> dict[str, Any]:
    amounts = {"cpus": f"{group.cores:g}", "memory": f"{mebibytes(group.memory_gb)}M"}
    return {
        "deploy": {
            "replicas": group.nodes.count(node),
            "resources": {"limits": amounts, "reservations": amounts},
            "placement": {"constraints": [f"node.hostname=={node}"]},
        }
    }
