"""Replicas of all workloads: where they stand, under which keys, and which nodes get no others."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from kwiken.allocator.adaptation.actions import Resize, Start, Stop
from kwiken.allocator.placement.node_ledger import Draw, DrawKind, NodeLedger
from kwiken.allocator.placement.placement_document import resume as resume_placement
from kwiken.allocator.placement.request import PlacementRequest
from kwiken.allocator.placement.sizing import SizedReplica, Sizing
from kwiken.model.nodes.nodes import Cluster
from kwiken.model.nodes.placement import Placement


class Replicas:
    """Replicas by workload, and the nodes' resources that they draw.

    Attributes:
        ledger: resources of the nodes.
        sizings: replicas and forecast by workload: those with targets first, by falling priority.
    """

    def __init__(self, requests: Sequence[PlacementRequest], cluster: Cluster, placement: Placement) -> None:
        self.ledger = NodeLedger(cluster)
        there = resume_placement(placement, {one.name: one for one in requests}, self.ledger)
        running = {sizing.request.name: sizing for sizing in there}
        ordered = sorted(requests, key=lambda one: (one.workload.best_effort, -one.workload.priority))
        self.sizings = {one.name: running.get(one.name, Sizing(one, self.ledger)) for one in ordered}
        self._numbers = {name: itertools.count() for name in self.sizings}
        self._keys = {
            name: [self._new_key(name) for _ in sizing.replicas] for name, sizing in self.sizings.items()
        }
        self._blocks: dict[str, Draw] = {}  # by node

    def is_best_effort(self, name: str) -> bool:
        """Whether a workload has no target."""
        return self.sizings[name].request.workload.best_effort

    def has(self, name: str, key: str) -> bool:
        """Whether a workload has a replica of this key."""
        return key in self._keys[name]

    def position(self, name: str, key: str) -> int:
        """Position of a replica among its workload's, in the order of the sizing."""
        return self._keys[name].index(key)

    def places(self) -> dict[str, list[tuple[str, str, float]]]:
        """Key, node and cores of every replica, by workload."""
        return {
            name: [
                (key, self.node(replica), _cores(sizing, replica))
                for key, replica in zip(self._keys[name], sizing.replicas, strict=True)
            ]
            for name, sizing in self.sizings.items()
        }

    def node(self, replica: SizedReplica) -> str:
        """Name of the node that a replica stands on."""
        return self.ledger.cluster.nodes[replica.node].name

    def expected(self, name: str) -> dict[str, tuple[float, float]]:
        """Predicted rate of each replica, and performance of its class of node, by key."""
        sizing = self.sizings[name]
        class_of, factor = self.ledger.cluster.class_of, sizing.request.class_factor
        return {
            key: (sizing.rate(place), float(factor[class_of[replica.node]]))
            for place, (key, replica) in enumerate(zip(self._keys[name], sizing.replicas, strict=True))
        }

    # Changes

    def remove(self, name: str, place: int) -> tuple[str, SizedReplica]:
        """Remove a replica; returns its key and the replica."""
        return self._keys[name].pop(place), self.sizings[name].remove(place)

    def put_back(self, name: str, key: str, replica: SizedReplica, *, oversell: bool = False) -> bool:
        """Put a removed replica back under its key; returns whether its room is still free.

        Args:
            oversell: whether the node may be sold beyond its cores.
        """
        if not self.sizings[name].suits(replica.node, replica.size, oversell=oversell):
            return False
        self.restore(name, key, replica)
        return True

    def restore(self, name: str, key: str, replica: SizedReplica) -> None:
        """Put a replica back under its key where its room is free, or was sold beyond the node's cores."""
        self.sizings[name].add(replica.node, replica.size, oversell=True)
        self._keys[name].append(key)

    def moved(self, name: str, key: str, node: str) -> None:
        """Take note that a replica stands on another node, be its cores sold or not."""
        _, replica = self.remove(name, self.position(name, key))
        self.restore(name, key, SizedReplica(self.ledger.cluster.index_of[node], replica.size, ()))

    def started(self, name: str, kept: int, reason: str) -> list[Start]:
        """Give keys to the replicas after the first `kept`, which a scheduler has just placed."""
        sizing = self.sizings[name]
        actions: list[Start] = []
        for replica in sizing.replicas[kept:]:
            key = self._new_key(name)
            self._keys[name].append(key)
            actions.append(
                Start(
                    workload=name,
                    key=key,
                    node=self.node(replica),
                    cores=_cores(sizing, replica),
                    reason=reason,
                )
            )
        return actions

    def started_again(self, name: str, key: str, reason: str) -> Start:
        """Action for a replica that was put back and has to be started where it stood."""
        sizing = self.sizings[name]
        replica = sizing.replicas[self.position(name, key)]
        return Start(
            workload=name, key=key, node=self.node(replica), cores=_cores(sizing, replica), reason=reason
        )

    def resized(self, name: str, place: int, reason: str) -> Resize:
        """Action for a replica whose size has just changed."""
        sizing = self.sizings[name]
        replica = sizing.replicas[place]
        return Resize(
            workload=name,
            key=self._keys[name][place],
            node=self.node(replica),
            cores=_cores(sizing, replica),
            reason=reason,
        )

    # Best-effort work makes room

    def could_fit(self, node: int, cores: float, memory_gb: float) -> bool:
        """Whether a node has the room, or would without best-effort work."""
        for sizing in self.sizings.values():
            if sizing.request.workload.best_effort:
                for replica in sizing.replicas:
                    if replica.node == node:
                        cores -= float(sizing.request.all_cores[replica.size])
                        memory_gb -= float(sizing.request.memory_gb[replica.size])
        return self.ledger.fits(node, cores, memory_gb)

    def evict_from(self, node: int, cores: float, memory_gb: float, by: str) -> list[Stop]:
        """Remove best-effort work from a node until it has the room that `could_fit` promised."""
        actions: list[Stop] = []
        while not self.ledger.fits(node, cores, memory_gb):
            victim = self.victim(node)
            assert victim is not None, "the caller has checked that eviction makes the room"
            name, place = victim
            key, gone = self.remove(name, place)
            actions.append(Stop(workload=name, key=key, node=self.node(gone), reason=f"makes room for {by}"))
        return actions

    def victim(self, node: int | None = None) -> tuple[str, int] | None:
        """Replica of best-effort work to evict next: of the lowest priority, then the youngest."""
        found = [
            (sizing.request.workload.priority, -place, name)
            for name, sizing in self.sizings.items()
            if sizing.request.workload.best_effort
            for place, replica in enumerate(sizing.replicas)
            if node is None or replica.node == node
        ]
        if not found:
            return None
        _, place, name = min(found)
        return name, -place

    # Nodes that get no replicas

    @property
    def blocked_nodes(self) -> list[str]:
        """Names of the nodes that get no replicas until they are unblocked."""
        return list(self._blocks)

    def block(self, node: str) -> None:
        """Draw all that is free on a node, so that nothing is placed on it, again if it is blocked."""
        if node in self._blocks:
            self.unblock(node)
        index, ledger = self.ledger.cluster.index_of[node], self.ledger
        draw = Draw(
            DrawKind.REPLICA,
            f"blocked node {node}",
            index,
            max(0.0, float(ledger.free_cores[index])),
            float(ledger.free_memory_gb[index]),
            np.zeros_like(ledger.pressure[:, index]),
        )
        ledger.take(draw, oversell=True)  # a node that is sold beyond its cores is blocked too
        self._blocks[node] = draw

    def unblock(self, node: str) -> None:
        """Let replicas be placed on a blocked node again."""
        self.ledger.release(self._blocks.pop(node))

    @contextlib.contextmanager
    def without(self, *nodes: str) -> Iterator[None]:
        """Place nothing on some nodes for a moment."""
        blocked = [node for node in dict.fromkeys(nodes) if node not in self._blocks]
        for node in blocked:
            self.block(node)
        yield
        for node in blocked:
            self.unblock(node)

    def _new_key(self, name: str) -> str:
        return f"{name}-{next(self._numbers[name])}"


def _cores(sizing: Sizing, replica: SizedReplica) -> float:
    return float(sizing.request.all_cores[replica.size])
