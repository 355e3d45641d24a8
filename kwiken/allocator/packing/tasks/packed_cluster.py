"""Tasks on nodes, as arrays: what packing reads of a cluster, wherever the cluster was described."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from kwiken.base.arrays import Bools, Floats, Ints
from kwiken.base.errors import InputError
from kwiken.model.nodes.nodes import Cluster

MAX_TASKS: Final = 1_000_000
MAX_PACKED_NODES: Final = 100_000


@dataclass(frozen=True, eq=False)
class PackedCluster:
    """Tasks and the nodes that they stand on.

    Attributes:
        cluster: the nodes and their classes.
        tasks: (t) unique names of the tasks, such as `namespace/pod`.
        owners: (t) what started each task, such as `namespace/Deployment/name`; tasks of one owner are
            replicas of each other.
        cores: (t,) number of cores that each task requests.
        memory_gb: (t,) memory that each task requests, in units of GB.
        node: (t,) index of the node on which each task stands.
        stays: reason why a task cannot be moved, by the task's index.
        resident: (t,) whether a task belongs to its node and does not keep the node in use, such as a pod of
            a DaemonSet.
        open_nodes: (n,) whether a node may receive tasks.
        kinds: (t,) index of each task's row in `allowed`.
        allowed: (k, n) whether the tasks of a kind may stand on a node.
        budgets: for each disruption budget, the tasks that it covers and how many of them may be away at
            once.
        apart: (t,) whether no two tasks of the owner may share a node.
        most_tasks: (n,) number of tasks that a node takes at most, those that belong to it among them.
    """

    cluster: Cluster
    tasks: tuple[str, ...]
    owners: tuple[str, ...]
    cores: Floats
    memory_gb: Floats
    node: Ints
    stays: Mapping[int, str]
    resident: Bools
    open_nodes: Bools
    kinds: Ints
    allowed: Bools
    budgets: Mapping[str, tuple[tuple[int, ...], int]]
    apart: Bools
    most_tasks: Ints

    def __post_init__(self) -> None:
        """Check the bounds."""
        for what, count, most in (
            ("tasks", len(self.tasks), MAX_TASKS),
            ("nodes", len(self.cluster.nodes), MAX_PACKED_NODES),
        ):
            if count > most:
                raise InputError(
                    f"{count} {what} are more than {most}, the most that is packed", where="cluster"
                )

    @property
    def movable(self) -> Bools:
        """(t,) Whether each task can be moved."""
        found = ~self.resident
        found[list(self.stays)] = False
        return found

    def occupied(self, node: Ints) -> Bools:
        """Nodes that tasks keep in use.

        Args:
            node: (t,) index of each task's node.

        Returns:
            (n,) whether each node holds a task that does not belong to the node itself.
        """
        found = np.zeros(len(self.cluster.nodes), dtype=np.bool_)
        found[node[~self.resident]] = True
        return found

    @property
    def owner_numbers(self) -> Ints:
        """(t,) Number of each task's owner."""
        numbers: dict[str, int] = {}
        return np.array([numbers.setdefault(name, len(numbers)) for name in self.owners], dtype=np.int64)


def plain_cluster(
    cluster: Cluster,
    tasks: tuple[str, ...],
    owners: tuple[str, ...],
    cores: Floats,
    memory_gb: Floats,
    node: Ints,
) -> PackedCluster:
    """Tasks that may stand on every node, all of them movable.

    Args:
        tasks: (t) unique names of the tasks.
        owners: (t) name of the owner of each task.
        cores: (t,) number of cores that each task requests.
        memory_gb: (t,) memory that each task requests, in units of GB.
        node: (t,) index of each task's node.
    """
    count = len(tasks)
    return PackedCluster(
        cluster=cluster,
        tasks=tasks,
        owners=owners,
        cores=cores,
        memory_gb=memory_gb,
        node=node,
        stays={},
        resident=np.zeros(count, dtype=np.bool_),
        open_nodes=np.ones(len(cluster.nodes), dtype=np.bool_),
        kinds=np.zeros(count, dtype=np.int64),
        allowed=np.ones((1, len(cluster.nodes)), dtype=np.bool_),
        budgets={},
        apart=np.zeros(count, dtype=np.bool_),
        most_tasks=np.full(len(cluster.nodes), MAX_TASKS, dtype=np.int64),
    )
