"""Trial of replicas that may share nodes: supposed and not drawn, with the state of their nodes beside."""

from __future__ import annotations

from collections.abc import Sequence
from operator import add, lt, mul, sub, truediv

import numpy as np

from kwiken.allocator.placement.headroom import LOSS_AT_TOLERANCE
from kwiken.allocator.placement.node_ledger import ROUNDING, DrawKind, NodeLedger
from kwiken.allocator.placement.quality import (
    FULL_PRESSURE,
    NO_SIZE,
    contention_loss,
    loss_within,
    worst_loss,
)
from kwiken.allocator.placement.request import PlacementRequest
from kwiken.allocator.placement.sizing import SizedReplica, Sizing, Sums


class _Supposed:
    """What a replica draws and bears, as plain numbers, which are faster one at a time.

    Attributes:
        cores: by size, what the ledger subtracts for one replica, draw after draw, in numbers of cores.
        caused: pressure that the ledger adds for one replica, draw after draw, each by source, in shares.
    """

    def __init__(self, request: PlacementRequest) -> None:
        extra = [(kind, share) for kind, share in request.shares.items() if share > 0]
        self.cores = [[cores, *(cores * share for _, share in extra)] for cores in request.cores.tolist()]
        self.all_cores: list[float] = request.all_cores.tolist()
        self.memory_gb: list[float] = request.memory_gb.tolist()
        self.caused: list[list[float]] = [request.caused.tolist()]
        self.caused += [
            (request.caused * share).tolist() for kind, share in extra if kind is DrawKind.REISSUES
        ]
        self.tolerated: list[float] = request.tolerated.tolist()
        self.per_tolerated: list[float] = (1.0 / request.tolerated).tolist()
        self.robust = [place for place, value in enumerate(self.tolerated) if value >= FULL_PRESSURE]
        self.bearable: list[float] | None = None
        if not request.workload.best_effort:
            self.bearable = (request.tolerated + request.caused).tolist()
        needed = np.where(request.all_caused > 0, request.all_caused - ROUNDING, -np.inf)
        self.least_slack: list[float] = needed.tolist()


class _TriedNode:
    """State of one node with supposed replicas, by the ledger's own arithmetic.

    Pressure and contention depend on the number of the supposed replicas alone, and are kept by that number.
    """

    def __init__(self, ledger: NodeLedger, node: int) -> None:
        self._whole = float(ledger.free_cores[node]), float(ledger.free_memory_gb[node])
        self._bearable = ledger.bearable(node)
        self._pressure: list[list[float]] = [ledger.pressure[:, node].tolist()]
        self.free_cores, self.free_memory_gb = self._whole
        self.here: list[SizedReplica] = []
        self.left: dict[int, float] = {}
        self.contention: dict[int, tuple[float, bool]] = {}

    def add(self, replica: SizedReplica, of: _Supposed) -> None:
        self.here.append(replica)
        for cores in of.cores[replica.size]:
            self.free_cores -= cores
        self.free_memory_gb -= of.memory_gb[replica.size]

    def remove(self, replica: SizedReplica, of: _Supposed) -> None:
        others = [one for one in self.here if one is not replica]
        self.here = []
        self.free_cores, self.free_memory_gb = self._whole
        for one in others:
            self.add(one, of)

    def fits(self, cores: float, memory_gb: float) -> bool:
        return self.free_cores >= cores - ROUNDING and self.free_memory_gb >= memory_gb - ROUNDING

    def pressure(self, of: _Supposed) -> list[float]:
        """Pressure by source."""
        while len(self._pressure) <= len(self.here):
            found = self._pressure[-1]
            for caused in of.caused:
                found = list(map(add, found, caused))
            self._pressure.append(found)
        return self._pressure[len(self.here)]

    def slack(self, of: _Supposed) -> list[float]:
        """Additional pressure that residents and supposed replicas can bear, by source."""
        bearable: Sequence[float] = self._bearable
        if self.here and of.bearable is not None:
            bearable = list(map(min, bearable, of.bearable))
        return list(map(sub, bearable, self.pressure(of)))


class SharedNodesTrial(Sizing):
    """Replicas that are supposed and not drawn, to compare placements of a workload quickly.

    Replicas may share nodes, so the trial keeps the state of each node that they come to. What is known of
    contention there stays true for the next placement that is tried.

    Args:
        sizing: replicas so far; they stay as they are.
    """

    def __init__(self, sizing: Sizing) -> None:
        super().__init__(sizing.request, sizing.ledger)
        self._of = _Supposed(sizing.request)
        self._nodes: dict[int, _TriedNode] = {}
        for replica in sizing.replicas:
            self.replicas.append(replica)
            self._classes.append(self.ledger.cluster.class_numbers[replica.node])
            self._left[replica.node] = sizing.left(replica.node)

    def _node(self, node: int) -> _TriedNode:
        found = self._nodes.get(node)
        if found is None:
            found = self._nodes[node] = _TriedNode(self.ledger, node)
        return found

    def add(self, node: int, size: int, *, oversell: bool = False) -> None:
        """Suppose a replica; the caller has checked that it fits."""
        del oversell
        replica = SizedReplica(node, size, ())
        self.replicas.append(replica)
        self._classes.append(self.ledger.cluster.class_numbers[node])
        self._node(node).add(replica, self._of)
        # Neighbours within what is tolerated leave a replica the same share, and then sums stay true.
        before = self._left.pop(node, None)
        if before is not None and before != self.left(node):
            self._changed(node)

    def resize(self, place: int, size: int) -> None:
        """Suppose another size of a replica; the caller has checked that the new size fits in its place."""
        old = self.replicas[place]
        self.replicas[place] = SizedReplica(old.node, size, ())
        self._given_back(old)
        self._node(old.node).add(self.replicas[place], self._of)
        self._sums = Sums()

    def clear(self, keep: int = 0) -> None:
        """Drop replicas.

        Args:
            keep: how many of the oldest replicas stay.
        """
        for replica in reversed(self.replicas[keep:]):
            self._given_back(replica)
            self._left.pop(replica.node, None)
        del self.replicas[keep:], self._classes[keep:]
        self._sums = Sums()

    def takes(self, node: int, size: int) -> bool:
        """Whether a node has room for one more replica."""
        return self._node(node).fits(self._of.all_cores[size], self._of.memory_gb[size])

    def has_room(self, place: int, size: int) -> bool:
        """Whether a replica can have another size where it stands."""
        replica, of = self.replicas[place], self._of
        extra_cores = of.all_cores[size] - of.all_cores[replica.size]
        extra_memory_gb = of.memory_gb[size] - of.memory_gb[replica.size]
        return self._node(replica.node).fits(extra_cores, extra_memory_gb)

    def free(self, node: int) -> tuple[float, float]:
        """Cores and GB of memory of a node that are not drawn."""
        found = self._node(node)
        return found.free_cores, found.free_memory_gb

    def next_on(self, node: int, largest: int | None) -> tuple[int, float]:
        """Largest size of one more replica that a node takes, and its predicted performance there.

        Args:
            largest: index of the largest size to consider; None for all sizes.

        Returns:
            `NO_SIZE` and 0 where the node takes none; else the index of the size, and work per second.
        """
        loss, refused = self._contention(node)
        if not refused:
            sizes = len(self._of.all_cores) if largest is None else largest + 1
            for size in range(sizes - 1, -1, -1):
                if self.takes(node, size):
                    rate = self.request.rates[size][self.ledger.cluster.class_numbers[node]]
                    return size, rate * (1.0 - loss)
        return NO_SIZE, 0.0

    def left(self, node: int) -> float:
        """Share of performance that contention leaves a replica, now and with neighbours placed later."""
        left = self._left.get(node)
        if left is None:
            found = self._node(node)
            left = found.left.get(len(found.here))
            if left is None:
                left = found.left[len(found.here)] = 1.0 - max(self._loss(found), self._kept_free)
            self._left[node] = left
        return left

    def _loss(self, on: _TriedNode) -> float:
        """Share of performance that a replica which is there loses."""
        outside = list(map(sub, on.pressure(self._of), self._of.caused[0]))
        ratio = max(map(truediv, outside, self._of.tolerated))
        if ratio <= 1.0:
            return loss_within(ratio)
        return worst_loss(np.array(outside), self.request.tolerated)

    def _contention(self, node: int) -> tuple[float, bool]:
        """What `contention_on` tells about one more replica: share lost, and whether it is refused."""
        on = self._node(node)
        known = on.contention.get(len(on.here))
        if known is not None:
            return known
        of, pressure = self._of, on.pressure(self._of)
        ratios = list(map(mul, pressure, of.per_tolerated))
        for place in of.robust:
            ratios[place] = min(ratios[place], FULL_PRESSURE)
        ratio = max(ratios)
        refused = any(map(lt, on.slack(of), of.least_slack))
        loss = min(ratio, 1.0)
        loss *= loss
        loss *= loss
        loss *= LOSS_AT_TOLERANCE
        if not self.request.workload.best_effort:
            refused = refused or ratio > 1.0 + ROUNDING
        elif ratio > 1.0:
            loss = float(contention_loss(np.array(pressure)[:, None], self.request.tolerated).max())
        on.contention[len(on.here)] = loss, refused
        return loss, refused

    def _given_back(self, replica: SizedReplica) -> None:
        self._node(replica.node).remove(replica, self._of)
