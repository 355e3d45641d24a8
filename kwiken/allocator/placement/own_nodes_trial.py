"""Trial of a placement in which each replica has a node of its own: supposed and not drawn."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator

import numpy as np

from kwiken.allocator.placement.headroom import LOSS_AT_TOLERANCE
from kwiken.allocator.placement.quality import worst_loss
from kwiken.allocator.placement.request import FAR
from kwiken.allocator.placement.sizing import SizedReplica, Sizing, Sums
from kwiken.base.arrays import Ints


class OwnNodesTrial(Sizing):
    """Replicas that are supposed and not drawn, to compare placements of a workload quickly.

    A node takes one new replica only, so neither room nor contention on any node depends on the others. The
    workload may not let replicas share a node, therefore.

    Args:
        sizing: replicas so far; they stay as they are.
        nodes: (m,) indices of the nodes that most replicas come to, to measure contention on them at once.
    """

    def __init__(self, sizing: Sizing, nodes: Ints) -> None:
        super().__init__(sizing.request, sizing.ledger)
        assert not self.anti_affinity.shares_nodes
        self._copies = sizing.request.all_pressure - sizing.request.pressure
        self._known = self._known_on(nodes)
        self._sizes: list[int] = []  # of each replica
        self._lefts: list[float] = []  # share of performance left to each replica
        for replica in sizing.replicas:
            self._left[replica.node] = {(replica.size,) * 2: sizing.left(replica.node, replica.size)}
            self.add(replica.node, replica.size)

    def _known_on(self, nodes: Ints) -> dict[int, list[float]]:
        """What `left` tells of nodes, by size; not a number where contention is beyond what is tolerated."""
        request, classes = self.request, self.ledger.cluster.class_of[nodes]
        ratios = np.zeros((len(request.cores), len(nodes)))
        for source in np.flatnonzero(self.ledger.pressure.any(axis=1) | self._copies.any(axis=(1, 2))):
            outside = self.ledger.pressure[source, nodes] + self._copies[source].take(classes, axis=1)
            np.maximum(ratios, outside / request.tolerance[source].take(classes, axis=1), out=ratios)
        left = 1.0 - np.maximum(LOSS_AT_TOLERANCE * ratios**4, self._kept_free)
        left[ratios > 1.0] = np.nan
        return dict(zip(nodes.tolist(), left.T.tolist(), strict=True))

    def left(self, node: int, size: int, supposed: int | None = None) -> float:
        """Share of performance that contention leaves a replica; see `Sizing.left`."""
        known = self._known.get(node)
        if known is not None and node not in self._left:
            found = known[size if supposed is None else supposed]
            if found == found:  # noqa: PLR0124 - else not a number
                return found
        return super().left(node, size, supposed)

    def add(self, node: int, size: int, *, oversell: bool = False) -> None:
        """Suppose a replica; the caller has checked that it fits, and that the node has no other one."""
        del oversell
        self.replicas.append(SizedReplica(node, size, ()))
        self._sizes.append(size)
        self._classes.append(self.ledger.cluster.class_numbers[node])
        self._lefts.append(self.left(node, size))

    def add_all(self, choice: Iterable[tuple[int, int]]) -> None:
        """Suppose replicas; each fits, as the others stand elsewhere.

        Args:
            choice: pairs of a node and the index of a size; each fits without the others.
        """
        for node, size in choice:
            self.add(node, size)

    def add_while_short(
        self, offers: Iterator[tuple[int, int]], closed: Collection[int | None]
    ) -> tuple[int, int] | None:
        """Suppose replicas as long as it is plain without a forecast that the target is missed.

        The total of the rates tells performance up to the rounding of sums, which is far less than `FAR`. So
        an offer is taken where each replica surely adds performance, and the sum surely stays below what the
        target needs; any other one is left to be looked at.

        Args:
            offers: pairs of a node and the index of a size that fits there, each node once.
            closed: numbers of the anti-affinity groups that have a replica.

        Returns:
            The first offer that is left to be looked at; None where there is none.
        """
        request, class_numbers = self.request, self.ledger.cluster.class_numbers
        if request.corrections or self.anti_affinity.closes_other_nodes:
            return next(offers, None)
        limit = request.least_rounded or math.inf  # best-effort work needs nothing
        total, best = self._rounded_sums().total, self.performance()
        last, efficiencies, table = len(request.efficiencies) - 1, request.efficiencies, request.rates
        count = len(self.replicas)
        for node, size in offers:
            if node in closed:  # each node is a group
                continue
            left = self.left(node, size)
            node_class = class_numbers[node]
            total += table[size][node_class] * left
            grown = efficiencies[count] * total
            if count == last or grown >= limit or grown <= best * (1.0 + FAR):
                return node, size
            best, count = grown, count + 1
            self.replicas.append(SizedReplica(node, size, ()))
            self._sizes.append(size)
            self._classes.append(node_class)
            self._lefts.append(left)
        return None

    def _traits(self, first: int) -> Iterable[tuple[int, int, float]]:
        return zip(self._sizes[first:], self._classes[first:], self._lefts[first:], strict=True)

    def remove(self, place: int) -> SizedReplica:
        """Drop a replica, by its position in `replicas`."""
        gone, node_class = self.replicas.pop(place), self._classes.pop(place)
        del self._sizes[place], self._lefts[place]
        if self.request.corrections:  # which hold for one number of replicas
            self._sums = Sums()
        elif place < len(self._sums.rates):
            self._sums.remove(place, gone.size, node_class)
        return gone

    def resize(self, place: int, size: int) -> None:
        """Suppose another size of a replica; the caller has checked that the new size fits in its place."""
        old, node_class = self.replicas[place], self._classes[place]
        self.replicas[place], self._sizes[place] = SizedReplica(old.node, size, ()), size
        self._lefts[place] = self.left(old.node, size)
        if self.request.corrections:  # which differ by size
            self._sums = Sums()
        elif place < len(self._sums.rates):
            rate = self.request.rates[size][node_class] * self._lefts[place]
            self._sums.resize(place, old.size, size, node_class, rate)

    def has_room(self, place: int, size: int) -> bool:
        """Whether a new replica can have another size where it stands."""
        node = self.replicas[place].node
        if not self.takes(node, size):
            return False
        caused = self.request.all_pressure[:, size, self._classes[place]]
        return not self.request.pressed or self.ledger.bears(node, caused)

    def clear(self, keep: int = 0) -> None:
        """Drop replicas; what is known of contention on their nodes stays true."""
        del self.replicas[keep:], self._sizes[keep:], self._classes[keep:], self._lefts[keep:]
        self._sums = Sums()

    def _loss_on(self, node: int, size: int, supposed: int) -> float:
        del size  # which is not drawn from the ledger
        node_class = self.ledger.cluster.class_numbers[node]
        outside = self.ledger.pressure[:, node] + self._copies[:, supposed, node_class]
        return worst_loss(outside, self.request.tolerance[:, supposed, node_class])
