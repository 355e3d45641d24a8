"""Clusters and usage for tests of packing: what kubectl prints, and a table of use."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from kwiken.allocator.packing.tasks.packed_cluster import PackedCluster, plain_cluster
from kwiken.allocator.packing.tasks.usage import UsageSeries
from kwiken.model.nodes.nodes import Cluster, Node, NodeClass


def node_item(name: str, cpu: str = "4", memory: str = "16Gi", **spec: Any) -> dict[str, Any]:
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": spec,
        "status": {
            "allocatable": {"cpu": cpu, "memory": memory},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def pod_item(
    name: str, node: str, cpu: str = "1", *, owner: str = "web", kind: str = "ReplicaSet", **spec: Any
) -> dict[str, Any]:
    own = {"kind": kind, "name": f"{owner}-abc" if kind == "ReplicaSet" else owner, "controller": True}
    return {
        "kind": "Pod",
        "metadata": {
            "namespace": "shop",
            "name": name,
            "labels": {"app": owner, "pod-template-hash": "abc"},
            "ownerReferences": [own],
        },
        "spec": {
            "nodeName": node,
            "containers": [{"name": "app", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}],
            **spec,
        },
        "status": {"phase": "Running"},
    }


def budget_item(name: str, app: str, allowed: int) -> dict[str, Any]:
    return {
        "kind": "PodDisruptionBudget",
        "metadata": {"namespace": "shop", "name": name},
        "spec": {"selector": {"matchLabels": {"app": app}}},
        "status": {"disruptionsAllowed": allowed},
    }


def listed(*items: dict[str, Any]) -> str:
    return json.dumps({"kind": "List", "items": list(items)})


def four_nodes() -> str:
    """Four nodes with two pods each, of eight owners, that fit on two nodes by what they use."""
    nodes = [node_item(f"node-{at}") for at in range(4)]
    pods = [pod_item(f"app{at}-abc-x", f"node-{at // 2}", owner=f"app{at}") for at in range(8)]
    return listed(*nodes, *pods)


def usage_rows(pods: dict[str, float], samples: int = 24, seed: int = 0) -> str:
    """CSV of use: each pod about its level, every five minutes."""
    rng = np.random.default_rng(seed)
    rows = ["time,replica,node,cores,memory"]
    for at in range(samples):
        rows += [
            f"{at * 300},{name},node-0,{level * rng.uniform(0.8, 1.2):.4f},500Mi"
            for name, level in pods.items()
        ]
    return "\n".join(rows) + "\n"


def drawn_cluster(seed: int, tasks: int = 60, nodes: int = 20) -> tuple[PackedCluster, UsageSeries]:
    """Random tasks on nodes of two classes, with series of use."""
    rng = np.random.default_rng(seed)
    classes = (NodeClass(name="small", cores=4, memory_gb=16), NodeClass(name="large", cores=8, memory_gb=32))
    cluster = Cluster(
        classes, tuple(Node(f"n{at}", "large" if at % 3 == 0 else "small") for at in range(nodes))
    )
    names = tuple(f"t{at}" for at in range(tasks))
    owners = tuple(f"o{at // 2}" for at in range(tasks))
    packed = plain_cluster(
        cluster, names, owners, np.ones(tasks), np.full(tasks, 2.0), rng.integers(0, nodes, tasks)
    )
    cores = rng.uniform(0.05, 0.5, (tasks, 1)) * rng.lognormal(0, 0.4, (tasks, 48))
    times_s = np.arange(48, dtype=np.float64) * 300
    return packed, UsageSeries(times_s, cores, rng.uniform(0.5, 1.5, (tasks, 48)))
