"""Walks over nodes that a scheduler has ranked: replicas and sizes on the first that are enough."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import Final

import numpy as np

from kwiken.allocator.placement.node_ledger import ROUNDING, NodeLedger
from kwiken.allocator.placement.quality import (
    FEW_NODES,
    NO_SIZE,
    Contention,
    NodeScores,
    contention_on,
    node_scores,
)
from kwiken.allocator.placement.request import PlacementRequest
from kwiken.allocator.placement.sizing import Sizing
from kwiken.base.arrays import Floats, Ints

FIRST_RANKED: Final = 64  # nodes ranked at first; each later stretch of the ranking is this many times longer
GROWTH_OF_RANKED: Final = 8
# Nodes that may be tried in vain, because a replica there costs the others more than it adds. One is enough
# where all nodes are alike, and the scale-out curve is past its peak.
MAX_NODES_WITHOUT_GAIN: Final = 8


@dataclass(frozen=True)
class Rank:
    """Order of nodes for one more replica.

    Attributes:
        for_cost: whether nodes are ranked by performance for the cost of the replica; else by performance, as
            the source does (Quasar section 3.7).
    """

    for_cost: bool

    def of(self, request: PlacementRequest, scores: NodeScores) -> Floats:
        """Rank nodes by their scores.

        Returns:
            (n,) rank, higher is better, in work per second, and for cost by unit of cost; 0 where the node
            cannot take a replica.
        """
        if not self.for_cost:
            return scores.quality
        return np.asarray(scores.quality / request.cost.ravel().take(scores.cells, mode="clip"))

    def of_one(self, request: PlacementRequest, node_class: int, size: int, quality: float) -> float:
        """Rank of one node, as `of` tells it: work per second, and for cost by unit of cost.

        Args:
            node_class: index of the node's class.
            size: index of the size of the replica.
            quality: predicted performance of the replica, work per second.
        """
        return quality / float(request.cost[size, node_class]) if self.for_cost else quality


by_quality: Final = Rank(for_cost=False)
by_cost: Final = Rank(for_cost=True)


def walk(
    sizing: Sizing, rank: Rank, largest: int | None = None, contention: Contention | None = None
) -> None:
    """Place replicas on the best-ranked nodes until the target is met: scale up first, then out.

    There are four ends: 1. the target is met, 2. one more replica lowers performance, on several nodes, 3. no
    node takes another replica, 4. the workload may have no more replicas. Then new replicas are trimmed to
    the least cost that keeps the target. Best-effort work has no target, and fills what it may.

    Args:
        sizing: replicas so far, to which others are added.
        largest: index of the largest size to use; None for all sizes.
        contention: contention at present on the nodes to use; None for all nodes.
    """
    request, ledger = sizing.request, sizing.ledger
    found = contention_on(request, ledger) if contention is None else contention
    scores = node_scores(request, ledger, found, largest)
    take(sizing, _offers(sizing, rank, largest, scores))


def take(sizing: Sizing, offers: Iterable[tuple[int, int]]) -> None:
    """Place replicas where they are offered until the target is met, and trim them; see `walk`.

    Args:
        sizing: replicas so far, to which others are added.
        offers: indices of a node and of a size that fits there, best first.
    """
    request, group_of = sizing.request, sizing.anti_affinity.group_of
    kept, most = len(sizing.replicas), len(request.efficiencies)
    if kept >= most or sizing.meets():
        return
    offered, closed = iter(offers), {group_of(replica.node) for replica in sizing.replicas}
    if (first := sizing.add_while_short(offered, closed)) is None:
        return
    best, refused = sizing.performance(), 0
    for node, size in chain((first,), offered):
        if (group := group_of(node)) is not None and group in closed:
            continue
        sizing.add(node, size)
        grown = sizing.performance()
        if grown <= best:
            sizing.remove(len(sizing.replicas) - 1)
            refused += 1
            if refused == MAX_NODES_WITHOUT_GAIN:
                return
            continue
        best = grown
        # There is no need to ask how sure a lower performance is.
        if grown >= request.least_sure and sizing.meets():
            trim(sizing, kept)
            return
        if len(sizing.replicas) >= most:
            return
        closed.add(group)


def _offers(sizing: Sizing, rank: Rank, largest: int | None, scores: NodeScores) -> Iterator[tuple[int, int]]:
    """Nodes and sizes, best rank first; what was placed since the ranking is accounted for.

    Where replicas may share a node, a node is offered again after it took one.

    Args:
        sizing: replicas so far; the caller places others between the offers.
        largest: index of the largest size to offer; None for all sizes.
        scores: scores of the nodes at the start.
    """
    request, class_numbers = sizing.request, sizing.ledger.cluster.class_numbers
    again = sizing.anti_affinity.shares_nodes
    ranked = _descending(rank.of(request, scores))
    waiting: list[tuple[float, int, int]] = []  # nodes to offer again: rank below 0, node, size
    following = next(ranked, None)
    while following is not None or waiting:
        if waiting and (following is None or -waiting[0][0] >= following[1]):
            _, node, size = heapq.heappop(waiting)
        else:
            assert following is not None
            node, size = int(scores.nodes[following[0]]), int(scores.size[following[0]])
            following = next(ranked, None)
        before = sizing.free(node)[0] if again else None
        yield node, size
        if before is not None and sizing.free(node)[0] < before:
            following_size, quality = sizing.next_on(node, largest)
            if following_size != NO_SIZE:
                worth = rank.of_one(request, class_numbers[node], following_size, quality)
                heapq.heappush(waiting, (-worth, node, following_size))


def offers_by_size(
    request: PlacementRequest, ledger: NodeLedger, found: Contention
) -> list[Iterator[tuple[int, int]]]:
    """Nodes and sizes for walks over the same nodes, each best first, for replicas that share no node.

    Args:
        found: contention at present on the nodes to use.

    Returns:
        Offers by quality with the largest size that fits each node; then offers by performance for cost,
        with each size as the largest one allowed, from the last size to the first.
    """
    nodes, sizes = found.nodes, np.arange(len(request.cores))[:, None]
    fits = ledger.free_cores[nodes] >= request.all_cores[:, None] - ROUNDING
    fits &= ledger.free_memory_gb[nodes] >= request.memory_gb[:, None] - ROUNDING
    fits &= ~found.refused
    largest = np.maximum.accumulate(np.where(fits, sizes, NO_SIZE), axis=0)
    at = np.maximum(largest, 0) * request.rate.shape[1] + ledger.cluster.class_of[nodes]
    loss = np.take_along_axis(found.loss, np.maximum(largest, 0), axis=0)
    quality = request.rate.ravel()[at] * (1.0 - loss)
    quality *= largest != NO_SIZE
    ranks = np.concatenate((quality[-1:], (quality / request.cost.ravel()[at])[::-1]))
    chosen = np.concatenate((largest[-1:], largest[::-1]))
    if len(nodes) > FEW_NODES:
        return [_placed(nodes, *row) for row in zip(chosen, ranks, strict=True)]
    order = np.argsort(-ranks, axis=1, kind="stable")
    size = np.take_along_axis(chosen, order, axis=1)
    ranked = (ranks > 0).sum(axis=1)  # no other node can take a replica
    rows = zip(nodes[order].tolist(), size.tolist(), ranked.tolist(), strict=True)
    return [islice(zip(some, sizes_, strict=True), end) for some, sizes_, end in rows]


def _placed(nodes: Ints, sizes: Ints, rank: Floats) -> Iterator[tuple[int, int]]:
    """Nodes with a rank above 0 and their sizes, best rank first."""
    return ((int(nodes[place]), int(sizes[place])) for place, _ in _descending(rank))


def _descending(rank: Floats) -> Iterator[tuple[int, float]]:
    """Positions of a rank above 0 with it, best first, ties in order; sorts no more than is asked for.

    Most workloads need a few nodes of many, so the best few are selected in linear time and sorted alone.
    """
    above, length = math.inf, FIRST_RANKED
    while len(rest := rank[(rank > 0) & (rank < above)]):  # selection is slow among many equal values
        floor = rest.min() if len(rest) <= length else np.partition(rest, len(rest) - length)[-length]
        stretch = np.flatnonzero((rank >= floor) & (rank < above))
        order = stretch[np.argsort(-rank[stretch], kind="stable")]
        yield from zip(order.tolist(), rank[order].tolist(), strict=True)
        above, length = float(floor), length * GROWTH_OF_RANKED


def trim(sizing: Sizing, kept: int = 0) -> None:
    """Lower cost while the target is kept: drop a replica, or give it the cheapest size that is enough.

    Replicas are tried from the last one, which stands on the worst node, to the first (Quasar section 3.7
    step 5), until a whole round changes nothing. So no replica can be dropped or made cheaper alone.

    Args:
        kept: how many of the oldest replicas stay as they are.
    """
    changed = True
    while changed:
        changed, end = False, len(sizing.replicas)
        while (place := _trim_next(sizing, kept, end)) is not None:
            changed, end = True, place


def _trim_next(sizing: Sizing, kept: int, end: int) -> int | None:
    """Trim the last replica before a position that can be; its position, None where there is none."""
    kinds = sizing.kinds()
    # Replicas that are alike need one trial: the last one of each kind stands for them.
    last = dict(zip(kinds[kept:end], range(kept, end), strict=True))
    return next((place for place in sorted(last.values(), reverse=True) if _trim_one(sizing, place)), None)


def _trim_one(sizing: Sizing, place: int) -> bool:
    """Drop a replica or make it cheaper, if the target allows it; whether anything changed."""
    changes = sizing.request.savings(sizing.replicas[place].size, sizing.class_of(place))
    changes = changes if len(sizing.replicas) > 1 else changes[1:]
    at = sizing.first_that_meets(place, changes)
    if at is None:
        return False
    if (size := changes[at]) is None:
        sizing.remove(place)
    else:
        sizing.resize(place, size)
    return True
