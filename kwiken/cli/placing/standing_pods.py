"""Pods that stand on nodes of Kubernetes when an upkeep starts: replicas, what they learned, and others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from kwiken.cli.placing.target_inputs import Standing
from kwiken.runtime.cluster.layout import ReplicaPlace
from kwiken.upkeep.kubernetes.pods import cores_of, pod_of, taken_cores

NAME = "app.kubernetes.io/name"  # label of the service's name


def standing_of(
    pods: Iterable[Mapping[str, Any]],
    nodes: Iterable[Mapping[str, Any]],
    name: str,
    namespace: str,
    components: Mapping[str, str],
    usable: Collection[str],
) -> Standing:
    """Read what stands on the nodes that can be used.

    Args:
        pods: pods of all namespaces, as the API's objects.
        nodes: nodes, as the API's objects.
        name: name of the service in Kubernetes.
        namespace: namespace of the service; its pods in another one are of another installation.
        components: name of each stage in Kubernetes, by stage.
        usable: names of the nodes that are ready and not cordoned.
    """
    stages = {component: stage for stage, component in components.items()}
    replicas: dict[str, list[ReplicaPlace]] = defaultdict(list)
    learned: dict[str, float] = {}
    taken: dict[str, float] = defaultdict(float)
    for found in pods:
        pod = pod_of(found)
        meta = found["metadata"]
        ours = meta.get("namespace") == namespace and (meta.get("labels") or {}).get(NAME) == name
        stage = stages.get(pod.component) if ours else None
        if stage is None or not pod.placed:
            taken[pod.node] += taken_cores(found)
        elif pod.node in usable and not pod.ends and not pod.waits:
            replicas[stage].append(ReplicaPlace(pod.node, pod.cores))
            learned[stage] = max(pod.learned, learned.get(stage, 1.0))
    allocatable = {
        one["metadata"]["name"]: one.get("status", {}).get("allocatable", {}).get("cpu") for one in nodes
    }
    free = {node: cores_of(cpu) - taken[node] for node, cpu in allocatable.items() if cpu is not None}
    return Standing(replicas, learned, free)
