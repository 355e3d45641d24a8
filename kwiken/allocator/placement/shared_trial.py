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
    """Amounts that a replica draws and bears, as plain numbers, which are faster one at a time.

    Attributes:
        cores: by size, what the ledger subtracts for one replica, draw after draw, in numbers of cores.
        caused: by class and size, pressure that the ledger adds for one replica, draw after draw, each by
            source, in shares.
        tolerated: by class and size, pressure of others that costs it 5%, by source, in shares.
        bearable: by class and size, sum of pressure that it bears, by source; None where nothing is promised.
        resident: by class and size, pressure of a replica with all its draws, by source, in shares.
        least_slack: by class and size, slack without which nobody takes such a replica, by source, in shares.
    """

    def __init__(self, request: PlacementRequest) -> None:
        extra = [(kind, share) for kind, share in request.shares.items() if share > 0]
        self.cores = [[cores, *(cores * share for _, share in extra)] for cores in request.cores.tolist()]
        self.all_cores: list[float] = request.all_cores.tolist()
        self.memory_gb: list[float] = request.memory_gb.tolist()
        by_class = request.pressure.T
        copies = [by_class * share for kind, share in extra if kind is DrawKind.REISSUES]
        self.caused: list[list[list[list[float]]]] = np.stack((by_class, *copies), axis=2).tolist()
        self.tolerated: list[list[list[float]]] = request.tolerance.T.tolist()
        self.per_tolerated: list[list[list[float]]] = request.per_tolerance.T.tolist()
        self.bearable: list[list[list[float]]] | None = None
        if not request.workload.best_effort:
            self.bearable = (request.borne + request.pressure).T.tolist()
        needed = np.where(request.all_pressure > 0, request.all_pressure - ROUNDING, -np.inf)
        self.resident: list[list[list[float]]] = request.all_pressure.T.tolist()
        self.least_slack: list[list[list[float]]] = needed.T.tolist()


class _TriedNode:
    """State of one node with supposed replicas, by the ledger's own arithmetic.

    Pressure and contention depend on the sizes of the supposed replicas alone, and are kept by these.
    """

    def __init__(self, ledger: NodeLedger, node: int) -> None:
        self._whole = float(ledger.free_cores[node]), float(ledger.free_memory_gb[node])
        self._bearable = ledger.bearable(node)
        self.node_class = ledger.cluster.class_numbers[node]
        self._pressure: dict[tuple[int, ...], list[float]] = {(): ledger.pressure[:, node].tolist()}
        self.free_cores, self.free_memory_gb = self._whole
        self.here: list[SizedReplica] = []
        self.sizes: tuple[int, ...] = ()
        self.left: dict[tuple[tuple[int, ...], int, int], float] = {}
        self.contention: dict[tuple[tuple[int, ...], int], tuple[float, bool]] = {}

    def add(self, replica: SizedReplica, of: _Supposed) -> None:
        self.here.append(replica)
        self.sizes = (*self.sizes, replica.size)
        for cores in of.cores[replica.size]:
            self.free_cores -= cores
        self.free_memory_gb -= of.memory_gb[replica.size]

    def remove(self, replica: SizedReplica, of: _Supposed) -> None:
        others = [one for one in self.here if one is not replica]
        self.here, self.sizes = [], ()
        self.free_cores, self.free_memory_gb = self._whole
        for one in others:
            self.add(one, of)

    def fits(self, cores: float, memory_gb: float) -> bool:
        return self.free_cores >= cores - ROUNDING and self.free_memory_gb >= memory_gb - ROUNDING

    def pressure(self, of: _Supposed, sizes: tuple[int, ...]) -> list[float]:
        """Pressure by source, with supposed replicas of some sizes."""
        found = self._pressure.get(sizes)
        if found is None:
            found = self.pressure(of, sizes[:-1])
            for caused in of.caused[self.node_class][sizes[-1]]:
                found = list(map(add, found, caused))
            self._pressure[sizes] = found
        return found

    def slack(self, of: _Supposed, sizes: tuple[int, ...]) -> list[float]:
        """Additional pressure that residents and supposed replicas can bear, by source."""
        return list(map(sub, self.bearable(of, sizes), self.pressure(of, sizes)))

    def bearable(self, of: _Supposed, sizes: tuple[int, ...]) -> Sequence[float]:
        """Sum of pressure that residents and supposed replicas of some sizes can bear, by source."""
        bearable: Sequence[float] = self._bearable
        if of.bearable is not None:
            for size in set(sizes):
                bearable = list(map(min, bearable, of.bearable[self.node_class][size]))
        return bearable

    def bears(self, of: _Supposed, size: int, sizes: tuple[int, ...]) -> bool:
        """Whether residents and supposed replicas of some sizes can bear another replica."""
        return not any(map(lt, self.slack(of, sizes), of.least_slack[self.node_class][size]))

    def bears_growth(self, of: _Supposed, old: int, new: int, others: tuple[int, ...]) -> bool:
        """Whether residents and the other supposed replicas can bear that one has another size.

        As in the ledger, a source counts only where its pressure rises: what is borne already stays borne.
        """
        was, becomes = (of.resident[self.node_class][size] for size in (old, new))
        slack = map(sub, self.bearable(of, others), self.pressure(of, self.sizes))
        return all(
            rise <= 0 or left >= rise - ROUNDING
            for left, rise in zip(slack, map(sub, becomes, was), strict=True)
        )


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
            size = replica.size
            self._left.setdefault(replica.node, {})[size, size] = sizing.left(replica.node, size)

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
        before = self._left.pop(node, {})
        if any(left != self.left(node, *key) for key, left in before.items()):
            self._changed(node)

    def resize(self, place: int, size: int) -> None:
        """Suppose another size of a replica; the caller has checked that the new size fits in its place."""
        old = self.replicas[place]
        self.replicas[place] = SizedReplica(old.node, size, ())
        self._given_back(old)
        self._node(old.node).add(self.replicas[place], self._of)
        self._changed(old.node)

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
        on = self._node(replica.node)
        if not on.fits(extra_cores, extra_memory_gb):
            return False
        if not self.request.pressed or replica.draws:
            return True
        others = list(on.sizes)
        others.remove(replica.size)
        return on.bears_growth(of, replica.size, size, tuple(others))

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
        sizes = len(self._of.all_cores) if largest is None else largest + 1
        for size in range(sizes - 1, -1, -1):
            if self.takes(node, size):
                loss, refused = self._contention(node, size)
                if not refused:
                    rate = self.request.rates[size][self.ledger.cluster.class_numbers[node]]
                    return size, rate * (1.0 - loss)
        return NO_SIZE, 0.0

    def _loss_on(self, node: int, size: int, supposed: int) -> float:
        on, of = self._node(node), self._of
        key = on.sizes, size, supposed
        if (loss := on.left.get(key)) is None:
            outside = list(map(sub, on.pressure(of, on.sizes), of.caused[on.node_class][size][0]))
            ratio = max(map(truediv, outside, of.tolerated[on.node_class][supposed]))
            loss = loss_within(ratio)
            if ratio > 1.0:
                limits = self.request.tolerance[:, supposed, on.node_class]
                loss = worst_loss(np.array(outside), limits)
            on.left[key] = loss
        return loss

    def _contention(self, node: int, size: int) -> tuple[float, bool]:
        """What `contention_on` tells about one more replica: share lost, and whether it is refused."""
        on, of = self._node(node), self._of
        known = on.contention.get((on.sizes, size))
        if known is not None:
            return known
        pressure, limits = on.pressure(of, on.sizes), of.tolerated[on.node_class][size]
        ratios = map(mul, pressure, of.per_tolerated[on.node_class][size])
        ratio = max(
            min(one, FULL_PRESSURE) if limit >= FULL_PRESSURE else one
            for one, limit in zip(ratios, limits, strict=True)
        )
        refused = not on.bears(of, size, on.sizes)
        loss = min(ratio, 1.0)
        loss *= loss
        loss *= loss
        loss *= LOSS_AT_TOLERANCE
        promised, most = not self.request.workload.best_effort, self.request.caution.most_loss
        if promised and most <= LOSS_AT_TOLERANCE:
            refused = refused or ratio > 1.0 + ROUNDING
        elif ratio > 1.0:
            tolerated = self.request.tolerance[:, size, on.node_class]
            loss = float(contention_loss(np.array(pressure)[:, None], tolerated).max())
            refused = refused or (promised and loss > most + ROUNDING)
        on.contention[on.sizes, size] = loss, refused
        return loss, refused

    def _given_back(self, replica: SizedReplica) -> None:
        self._node(replica.node).remove(replica, self._of)
