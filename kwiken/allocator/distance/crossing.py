"""Crossings: which share of the traffic among workloads leaves a node, and which leaves a zone.

Each call of a workload goes to a replica of the callee by its share of the callee's performance, wherever
the caller stands: so the gateway of kwiken and most balancers choose. Levels of distance are those at which
the paths of two replicas join: 0 on one node, 1 in one zone, 3 across zones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from kwiken.allocator.distance.demand import TrafficDemand
from kwiken.allocator.placement.sizing import Sizing
from kwiken.base.arrays import Floats
from kwiken.model.nodes.nodes import Cluster

IN_A_ZONE: Final = 1.0  # distance between two nodes of one zone
ACROSS_ZONES: Final = 3.0  # distance between two zones
MIN_SHARE_NAMED: Final = 1e-9  # of a pair's traffic, below which it is rounding
MAX_NAMED: Final = 10  # pairs of workloads


@dataclass(frozen=True)
class PairDistance:
    """Traffic of two workloads that crosses zones.

    Attributes:
        per_s: calls or bytes a second in both directions that cross zones.
        share: the same as a share of all traffic between the two, 0 to 1.
    """

    one: str
    other: str
    per_s: float
    share: float


@dataclass(frozen=True)
class CrossingCalls:
    """Distance of the traffic of a placement: within nodes, within zones, and across.

    Attributes:
        per_s: calls or bytes a second between workloads that are placed.
        between_nodes: calls or bytes a second between two nodes, those between zones among them.
        between_zones: calls or bytes a second between two zones.
        distance: sum over the traffic of its rate times its distance, per second.
        pairs: pairs of workloads with the most traffic across zones, the most first.
    """

    per_s: float
    between_nodes: float
    between_zones: float
    distance: float
    pairs: tuple[PairDistance, ...]


class Crossings:
    """Shares of workloads by node and zone, and what follows for the traffic.

    Args:
        cluster: nodes and their zones.
        demand: traffic among the workloads.
    """

    def __init__(self, cluster: Cluster, demand: TrafficDemand) -> None:
        self._demand = demand
        self._both = demand.both_ways
        self._number = {name: place for place, name in enumerate(demand.names)}
        self.zones = cluster.zones
        self.on_nodes: Floats = np.zeros((len(demand.names), len(cluster.nodes)))
        self.in_zones: Floats = np.zeros((len(demand.names), int(self.zones.max()) + 1))

    def place_of(self, name: str) -> int | None:
        """Row of a workload; None where the demand does not name it."""
        return self._number.get(name)

    def take(self, sizings: Sequence[Sizing]) -> None:
        """Take the places of all replicas anew.

        Args:
            sizings: workloads with their replicas; those that are not among them have none.
        """
        self.on_nodes[:] = 0.0
        self.in_zones[:] = 0.0
        for sizing in sizings:
            self.renew(sizing)

    def renew(self, sizing: Sizing) -> None:
        """Take the places of one workload's replicas anew."""
        row = self._number.get(sizing.request.name)
        if row is None:
            return
        self.on_nodes[row] = shares_of(sizing, self.on_nodes.shape[1])
        self.in_zones[row] = np.bincount(self.zones, self.on_nodes[row], self.in_zones.shape[1])

    @property
    def distance(self) -> float:
        """Sum over the traffic of its rate times its distance, per second."""
        together = self.on_nodes @ self.on_nodes.T
        near = self.in_zones @ self.in_zones.T
        apart = self._placed() * ACROSS_ZONES - IN_A_ZONE * together - (ACROSS_ZONES - IN_A_ZONE) * near
        return float((self._demand.per_s * apart).sum())

    def nearness(self, row: int) -> Floats:
        """(n,) fall of the distance if all replicas of a workload stand on one node, per second."""
        weights = self._both[row]
        zone = weights @ self.in_zones
        return np.asarray(
            IN_A_ZONE * (weights @ self.on_nodes) + (ACROSS_ZONES - IN_A_ZONE) * zone[self.zones], np.float64
        )

    def partners(self, row: int) -> frozenset[int]:
        """Rows of the workloads that exchange anything with one."""
        return frozenset(np.flatnonzero(self._both[row] > 0).tolist())

    def told(self) -> CrossingCalls:
        """How far the traffic goes now."""
        placed = self._placed()
        rate = self._demand.per_s * placed
        leaves_node = rate * np.clip(1.0 - self.on_nodes @ self.on_nodes.T, 0.0, None)
        leaves_zone = rate * np.clip(1.0 - self.in_zones @ self.in_zones.T, 0.0, None)
        both, crossing = np.triu(rate + rate.T), np.triu(leaves_zone + leaves_zone.T)
        names, pairs = self._demand.names, []
        for at in np.argsort(-crossing, axis=None, kind="stable")[:MAX_NAMED].tolist():
            row, column = divmod(at, len(names))
            per_s = float(crossing[row, column])
            if per_s > MIN_SHARE_NAMED * float(both[row, column]):
                pairs.append(PairDistance(names[row], names[column], per_s, per_s / float(both[row, column])))
        return CrossingCalls(
            per_s=float(rate.sum()),
            between_nodes=float(leaves_node.sum()),
            between_zones=float(leaves_zone.sum()),
            distance=self.distance,
            pairs=tuple(pairs),
        )

    def _placed(self) -> Floats:
        """(w, w) 1 where both workloads have replicas, else 0."""
        there = (self.on_nodes.sum(axis=1) > 0).astype(np.float64)
        return np.outer(there, there)


def shares_of(sizing: Sizing, nodes: int) -> Floats:
    """(n,) share of a workload's performance on each node; all 0 without replicas.

    Args:
        nodes: number of nodes of the cluster.
    """
    found = np.zeros(nodes)
    for place, replica in enumerate(sizing.replicas):
        found[replica.node] += sizing.rate(place)
    total = float(found.sum())
    if total > 0:
        return np.asarray(found / total)
    for replica in sizing.replicas:  # contention takes everything
        found[replica.node] += 1.0 / len(sizing.replicas)
    return found
