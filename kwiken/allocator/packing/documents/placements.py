"""Cluster from a placement of ours."""

from __future__ import annotations

import numpy as np

from kwiken.allocator.packing.tasks.packed_cluster import MAX_TASKS, PackedCluster
from kwiken.base.errors import InputError
from kwiken.model.nodes.nodes import Cluster, Node, NodeClass
from kwiken.model.nodes.placement import Placement

APART: frozenset[str] = frozenset({"node", "zone"})


def cluster_from_placement(placement: Placement, *, where: str) -> PackedCluster:
    """Replicas of a placement as tasks, named `workload/1` and so on in the order of the document.

    Cores kept for copies and for catch-up count as requested.

    Args:
        where: source to name in errors, such as a file's path.

    Raises:
        InputError: for two sizes of nodes in one class.
    """
    classes: dict[str, NodeClass] = {}
    for node in placement.nodes:
        found = NodeClass(name=node.node_class, cores=node.cores, memory_gb=node.memory_gb)
        if classes.setdefault(node.node_class, found) != found:
            raise InputError(f"nodes of class {node.node_class!r} differ in size", where=where)
    cluster = Cluster(
        tuple(classes.values()),
        tuple(Node(node.name, node.node_class, node.zone) for node in placement.nodes),
    )
    rows = [
        (f"{workload.name}/{number}", workload, replica)
        for workload in placement.workloads
        for number, replica in enumerate(workload.replicas, start=1)
    ]
    zoned = {
        place: "it is spread over zones" for place, (_, one, _) in enumerate(rows) if one.spread == "zone"
    }
    return PackedCluster(
        cluster=cluster,
        tasks=tuple(name for name, _, _ in rows),
        owners=tuple(workload.name for _, workload, _ in rows),
        cores=np.array([one.cores + one.reissue_cores + one.catch_up_cores for _, _, one in rows]),
        memory_gb=np.array([one.memory_gb for _, _, one in rows]),
        node=np.array([cluster.index_of[one.node] for _, _, one in rows], dtype=np.int64),
        stays=zoned,
        resident=np.zeros(len(rows), dtype=np.bool_),
        open_nodes=np.ones(len(cluster.nodes), dtype=np.bool_),
        kinds=np.zeros(len(rows), dtype=np.int64),
        allowed=np.ones((1, len(cluster.nodes)), dtype=np.bool_),
        budgets={},
        apart=np.array([workload.spread in APART for _, workload, _ in rows], dtype=np.bool_),
        most_tasks=np.full(len(cluster.nodes), MAX_TASKS, dtype=np.int64),
    )
