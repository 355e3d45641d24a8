"""Agent: draws nodes, ranks them by predicted performance, and proposes the best one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from kwiken.allocator.placement.node_ledger import ROUNDING, Draw, DrawKind, NodeLedger
from kwiken.allocator.placement.quality import contention_on
from kwiken.allocator.placement.request import PlacementRequest
from kwiken.allocator.sampling.shared_nodes import NodeProposal, SharedNodes
from kwiken.base.arrays import Floats, Ints
from kwiken.model.nodes.nodes import Cluster

FACTOR: Final = 2  # nodes drawn at once, as a multiple of those that are missing
MAX_ROUNDS: Final = 6  # of draws before the nodes with room are listed
WIDER: Final = 4  # factor of a sample that holds no node which contention allows


@dataclass(frozen=True, eq=False, slots=True)
class SampledKind:
    """Replicas of one workload in one size, as agents place them.

    Attributes:
        size: index of the size in the request.
        cores: number of cores of a replica.
        memory_gb: memory of a replica, in units of GB.
        rates: (c,) performance of a replica alone by class of the cluster, work per second.
    """

    request: PlacementRequest
    size: int
    cores: float
    memory_gb: float
    rates: Floats

    def draw(self, job: str, node: int, cluster: Cluster) -> Draw:
        """What one replica takes from a node."""
        request, at = self.request, (slice(None), self.size, cluster.class_numbers[node])
        tolerated = None if request.workload.best_effort else request.borne[at]
        return Draw(
            DrawKind.REPLICA, job, node, self.cores, self.memory_gb, request.all_pressure[at], tolerated
        )


def sampled_kind(request: PlacementRequest, size: int) -> SampledKind:
    """Kind of the replicas of a workload in one size."""
    return SampledKind(
        request,
        size,
        float(request.all_cores[size]),
        float(request.memory_gb[size]),
        request.rate[size],
    )


def qualities(kind: SampledKind, ledger: NodeLedger, nodes: Ints) -> Floats:
    """Predicted performance of one more replica on nodes.

    Args:
        nodes: (m,) indices of nodes with room.

    Returns:
        (m,) work per second; below 0 where newcomer and residents cannot stand each other.
    """
    contention = contention_on(kind.request, ledger, nodes)
    found = kind.rates[ledger.cluster.class_of[nodes]] * (1.0 - contention.loss[kind.size])
    found[contention.refused[kind.size]] -= 2.0 * float(kind.rates.max())
    return np.asarray(found)


def with_room(kind: SampledKind, ledger: NodeLedger, nodes: Ints) -> Ints:
    """Those of some nodes that have room for one more replica."""
    room = ledger.free_cores[nodes] >= kind.cores - ROUNDING
    room &= ledger.free_memory_gb[nodes] >= kind.memory_gb - ROUNDING
    return np.asarray(nodes[room])


class PlacingAgent:
    """One of several schedulers that share a state.

    Args:
        state: state that is read, and committed to by the caller.
        draws: number of nodes with room that are examined for each replica.
        rng: source of randomness, one for each agent.
    """

    def __init__(self, state: SharedNodes, draws: int, rng: np.random.Generator) -> None:
        self._state = state
        self._draws = draws
        self._rng = rng
        self._full: dict[SampledKind, int] = {}  # releases at which no node could take it

    def propose(self, job: str, kind: SampledKind) -> NodeProposal | None:
        """Best of a sample of the nodes with room; None if no node can take the replica.

        There are three cases: 1. the sample holds a node that contention allows; 2. it holds none, and is
        drawn again, each time four times as large; 3. all nodes are compared. That none can take the kind
        holds until something is given back.
        """
        state = self._state
        if self._full.get(kind) == state.releases:
            return None
        draws = self._draws
        while draws < len(state.versions) // WIDER:
            node = self._best(kind, self.sample(kind, draws))
            if node is not None:
                return self._proposed(job, kind, node)
            draws *= WIDER
        node = self._best(kind, with_room(kind, state.ledger, np.arange(len(state.versions))))
        if node is None:
            self._full[kind] = state.releases
            return None
        return self._proposed(job, kind, node)

    def _proposed(self, job: str, kind: SampledKind, node: int) -> NodeProposal:
        state = self._state
        draw = kind.draw(job, node, state.ledger.cluster)
        return NodeProposal(job, draw, int(state.versions[node]))

    def _best(self, kind: SampledKind, nodes: Ints) -> int | None:
        """Node with the best predicted performance among some; None if contention allows none of them."""
        if not nodes.size:
            return None
        found = qualities(kind, self._state.ledger, nodes)
        place = int(found.argmax())
        return int(nodes[place]) if found[place] >= 0.0 else None

    def sample(self, kind: SampledKind, draws: int) -> Ints:
        """Distinct nodes with room, drawn at random.

        Nodes without room are drawn again, so that the sample is uniform among those with room.

        Args:
            draws: number of nodes; fewer come only where fewer have room.
        """
        ledger, count, rng = self._state.ledger, len(self._state.versions), self._rng
        found: Ints = np.empty(0, dtype=np.int64)
        asked = FACTOR * draws
        for _ in range(MAX_ROUNDS):
            drawn = with_room(kind, ledger, rng.integers(count, size=asked))
            found = drawn if not found.size else np.concatenate((found, drawn))
            found = _distinct(found)
            missing = draws - len(found)
            if missing <= 0:
                return found[:draws]
            hit = max(len(drawn), 1) / asked
            asked = min(count, math.ceil(FACTOR * missing / hit))
        open_nodes = with_room(kind, ledger, np.arange(count))
        if len(open_nodes) <= draws:
            return open_nodes
        return np.asarray(rng.choice(open_nodes, draws, replace=False))


def _distinct(drawn: Ints) -> Ints:
    """The same nodes without repetitions, in the order of their first draw."""
    seen = dict.fromkeys(drawn.tolist())
    return drawn if len(seen) == len(drawn) else np.fromiter(seen, dtype=np.int64, count=len(seen))
