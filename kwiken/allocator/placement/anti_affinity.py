"""Anti-affinity: which nodes a replica closes to the other replicas of its workload."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from kwiken.allocator.workloads.workload import Spread
from kwiken.base.arrays import Bools, Floats, Ints
from kwiken.model.nodes.nodes import Cluster


@dataclass(frozen=True, eq=False)
class AntiAffinity:
    """Anti-affinity of one workload on a cluster.

    The nodes are divided into groups, and a group holds at most one replica of the workload. There are three
    cases: 1. `Spread.NONE`: there are no groups, and replicas may share a node. 2. `Spread.NODE`: each node
    is a group. 3. `Spread.ZONE`: each zone is a group.

    Attributes:
        spread: what no two replicas of the workload may share.
    """

    spread: Spread
    cluster: Cluster

    @property
    def shares_nodes(self) -> bool:
        """Whether several replicas may stand on one node."""
        return self.spread is Spread.NONE

    @property
    def closes_other_nodes(self) -> bool:
        """Whether a replica may close other nodes than its own."""
        return self.spread is Spread.ZONE

    def group_of(self, node: int) -> int | None:
        """Number of a node's group; None where there are no groups."""
        if self.spread is Spread.NONE:
            return None
        return node if self.spread is Spread.NODE else int(self.cluster.zones[node])

    def open_nodes(self, occupied: Iterable[int]) -> Bools:
        """(n,) whether a node may take another replica.

        Args:
            occupied: indices of the nodes of the workload's replicas.
        """
        found = np.ones(len(self.cluster.nodes), dtype=np.bool_)
        for node in occupied:
            self.close(node, found)
        return found

    def close(self, node: int, open_nodes: Bools) -> None:
        """Mark the nodes that may take no other replica because of a replica on one node.

        Args:
            node: index of the node that has a replica.
            open_nodes: (n,) whether a node may take another replica; changed in place.
        """
        if self.spread is Spread.NODE:
            open_nodes[node] = False
        elif self.spread is Spread.ZONE:
            open_nodes[self.cluster.zones == self.cluster.zones[node]] = False

    def most_replicas(self, nodes: Ints, fitting: Floats) -> int:
        """Largest number of replicas that some nodes hold.

        Args:
            nodes: (m,) indices of the nodes, each once.
            fitting: (m,) number of replicas that fit on each node.
        """
        if self.spread is Spread.NONE:
            return int(fitting.sum())
        return len({self.group_of(node) for node in nodes[fitting > 0].tolist()})
