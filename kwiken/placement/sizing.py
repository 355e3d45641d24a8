"""Sizing: how many replicas of a workload, of which size, on which nodes, with the least resources."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from typing import Final

import msgspec
import numpy as np

from kwiken.arrays import Floats
from kwiken.placement.node_ledger import Draw, NodeLedger
from kwiken.placement.quality import (
    NO_SIZE,
    Contention,
    NodeScores,
    contention_on,
    node_scores,
    worst_loss,
)
from kwiken.placement.request import Request
from kwiken.workloads import Spread

FIRST_RANKED: Final = 64  # nodes ranked at first; each later stretch of the ranking is this many times longer
GROWTH_OF_RANKED: Final = 8
# Nodes that may be tried in vain, because a replica there costs the others more than it adds. One is enough
# where all nodes are alike, and the scale-out curve is past its peak.
MAX_NODES_WITHOUT_GAIN: Final = 8
NO_NODE: Final = -1
REL_ROUNDING: Final = 1e-9  # of performance
Rank = Callable[[Request, NodeLedger, NodeScores], Floats]


class Replica(msgspec.Struct, frozen=True, eq=False):
    """One replica with its place.

    Attributes:
        node: index of the node.
        size: index of the size in the request.
        draws: what the replica takes from the ledger, itself first.
    """

    node: int
    size: int
    draws: tuple[Draw, ...]


class Forecast(msgspec.Struct, frozen=True, eq=False):
    """Predicted performance of the replicas of one workload.

    Attributes:
        performance: predicted performance, work per second.
        deviation: standard deviation of its natural logarithm, in log units.
        needed: performance that the prediction must reach: the target with headroom, work per second.
    """

    performance: float
    deviation: float
    needed: float

    @property
    def met(self) -> bool:
        """Whether the target is met as surely as asked."""
        return self.performance >= self.needed * (1 - REL_ROUNDING)


@dataclass(eq=False)
class _Sums:
    """Performance of the first replicas of a workload, before the efficiency of their number.

    Attributes:
        count: number of replicas that are summed.
        by_size: performance by index of the size, work per second.
        by_class: the same by index of the node's class.
    """

    count: int = 0
    by_size: dict[int, float] = field(default_factory=dict)
    by_class: dict[int, float] = field(default_factory=dict)

    def add(self, size: int, node_class: int, rate: float) -> None:
        self.by_size[size] = self.by_size.get(size, 0.0) + rate
        self.by_class[node_class] = self.by_class.get(node_class, 0.0) + rate

    def copy(self) -> _Sums:
        return _Sums(self.count, self.by_size.copy(), self.by_class.copy())


class Sizing:
    """Replicas of one workload while they are chosen; every change is drawn from the ledger at once.

    Contention on a node is measured when it is first asked for after a replica came to the node or left it,
    and after `refresh`.

    Args:
        request: workload to place.
        ledger: state of the nodes.

    Attributes:
        request: workload to place.
        ledger: state of the nodes.
        replicas: replicas chosen so far.
    """

    def __init__(self, request: Request, ledger: NodeLedger) -> None:
        self.request = request
        self.ledger = ledger
        self.replicas: list[Replica] = []
        self._loss: dict[int, float] = {}  # of each replica on a node, by node; measured when asked for
        self._on_node: dict[int, int] = {}  # number of replicas by node
        self._classes: list[int] = []  # of each replica's node
        self._sums = _Sums()
        best_effort = request.workload.best_effort
        self._kept_free = 0.0 if best_effort else request.caution.later_loss

    def renew(self, request: Request) -> None:
        """Suppose another need or other predictions of the same workload; its replicas stay.

        Args:
            request: workload as it is asked for and predicted now.
        """
        self.request = request
        self._sums = _Sums()

    def add(self, node: int, size: int) -> None:
        """Place a replica; the caller has checked that it fits.

        Args:
            node: index of the node.
            size: index of the size.
        """
        self.replicas.append(Replica(node, size, self._drawn(node, size)))
        self._classes.append(self.ledger.cluster.class_numbers[node])
        self._on_node[node] = self._on_node.get(node, 0) + 1
        if self._on_node[node] > 1:  # replicas on one node are one another's neighbours
            self._changed(node)

    def remove(self, place: int) -> Replica:
        """Take a replica away, by its position in `replicas`."""
        gone = self.replicas.pop(place)
        self._classes.pop(place)
        self._given_back(gone)
        self._on_node[gone.node] -= 1
        self._changed(gone.node)
        return gone

    def resize(self, place: int, size: int) -> None:
        """Change the size of a replica; the caller has checked that the new size fits in its place.

        Args:
            place: position in `replicas`.
            size: index of the new size.
        """
        old = self.replicas[place]
        self._given_back(old)
        self.replicas[place] = Replica(old.node, size, self._drawn(old.node, size))
        self._sums = _Sums()

    def clear(self, keep: int = 0) -> None:
        """Give replicas back to the ledger.

        Args:
            keep: how many of the oldest replicas stay.
        """
        while len(self.replicas) > keep:
            self.remove(len(self.replicas) - 1)

    @property
    def cost(self) -> float:
        """Cost of all replicas in an hour, with their extra work."""
        request = self.request
        return request.work * math.fsum(
            float(request.cost[replica.size, node_class])
            for replica, node_class in zip(self.replicas, self._classes, strict=True)
        )

    def refresh(self) -> None:
        """Take account of neighbours that came or went since the last change."""
        self._loss.clear()
        self._sums = _Sums()

    def has_room(self, place: int, size: int) -> bool:
        """Whether a replica can have another size where it stands.

        Args:
            place: position in `replicas`.
            size: index of the other size.
        """
        request, replica = self.request, self.replicas[place]
        extra_cores = float(request.all_cores[size] - request.all_cores[replica.size])
        extra_memory_gb = float(request.memory_gb[size] - request.memory_gb[replica.size])
        return self.ledger.fits(replica.node, extra_cores, extra_memory_gb)

    def _drawn(self, node: int, size: int) -> tuple[Draw, ...]:
        draws = self.request.draws(node, size)
        for draw in draws:
            self.ledger.take(draw)
        return draws

    def _given_back(self, replica: Replica) -> None:
        for draw in replica.draws:
            self.ledger.release(draw)

    def _changed(self, node: int) -> None:
        self._loss.pop(node, None)
        self._sums = _Sums()

    def lost(self, node: int) -> float:
        """Share of performance that a replica on a node loses to its neighbours.

        Args:
            node: index of the node.
        """
        loss = self._loss.get(node)
        if loss is None:
            loss = self._loss[node] = worst_loss(self._outside(node), self.request.tolerated)
        return loss

    def _outside(self, node: int) -> Floats:
        """(s,) pressure of others on a replica on a node."""
        return self.ledger.pressure[:, node] - self.request.caused

    def kind(self, place: int) -> Hashable:
        """Equal for replicas that are alike: same size, class, loss, and room where it matters."""
        request, node = self.request, self.replicas[place].node
        alike = self.replicas[place].size, self._classes[place], max(self.lost(node), self._kept_free)
        # Siblings on one node gain by each other's leaving.
        apart = NO_NODE if request.workload.spread is not Spread.NONE else node
        if request.nested:  # a cheaper size fits wherever a dearer one does
            return *alike, apart
        return *alike, apart, float(self.ledger.free_cores[node]), float(self.ledger.free_memory_gb[node])

    def rate(self, place: int, size: int | None = None, count: int | None = None) -> float:
        """Performance of one replica before the efficiency of their number, in work per second.

        Args:
            place: position in `replicas`.
            size: index of another size to suppose; None for the one it has.
            count: number of replicas to suppose; None for the present one.
        """
        request, node_class = self.request, self._classes[place]
        chosen = self.replicas[place].size if size is None else size
        rate = request.rates[chosen][node_class]
        if request.corrections:
            together = len(self.replicas) if count is None else count
            rate *= math.exp(request.corrections.get((chosen, together, node_class), 0.0))
        return rate * (1.0 - max(self.lost(self.replicas[place].node), self._kept_free))

    def forecast(self, sizes: list[int] | None = None, *, without: int | None = None) -> Forecast:
        """Predicted performance of all replicas together.

        Args:
            sizes: other sizes to suppose, by replica; None for those they have.
            without: position of a replica to leave out; None for none.
        """
        count = len(self.replicas) - (without is not None)
        return self._forecast(self._sums_of(sizes, without), count)

    def performance(self) -> float:
        """Predicted performance of all replicas together, work per second, as `forecast` tells it."""
        return self._performance(self._summed(), len(self.replicas))

    def meets(self, sizes: list[int] | None = None, *, without: int | None = None) -> bool:
        """Whether the target is met as surely as asked; sooner known than a forecast where it is far off.

        Args:
            sizes: other sizes to suppose, by replica; None for those they have.
            without: position of a replica to leave out; None for none.
        """
        count = len(self.replicas) - (without is not None)
        sums = self._sums_of(sizes, without)
        if self._performance(sums, count) < self.request.required * (1 - REL_ROUNDING):
            return False  # headroom is never below 0
        return self._forecast(sums, count).met

    def _performance(self, sums: _Sums, count: int) -> float:
        total = math.fsum(sums.by_size.values())
        return self.request.efficiencies[count - 1] * total if count and total > 0 else 0.0

    def _sums_of(self, sizes: list[int] | None, without: int | None) -> _Sums:
        if sizes is None and without is None:
            return self._summed()
        return self._supposed(sizes, without, len(self.replicas) - (without is not None))

    def _forecast(self, sums: _Sums, count: int) -> Forecast:
        request = self.request
        performance = self._performance(sums, count)
        if performance <= 0:  # there is no replica, or contention takes everything
            return Forecast(0.0, 0.0, request.required)
        total = math.fsum(sums.by_size.values())
        # The error of a size, and of a class, is common to all replicas that have it: it adds up within the
        # size, and as independent errors over the sizes, weighted by shares of the performance.
        by_sizes = math.fsum(
            (rate * request.size_deviations[size]) ** 2 for size, rate in sums.by_size.items()
        )
        by_classes = math.fsum(
            (rate * request.class_deviations[one]) ** 2 for one, rate in sums.by_class.items()
        )
        deviation = math.sqrt(
            request.base_deviation**2
            + request.count_deviations[count - 1] ** 2
            + (by_sizes + by_classes) / total**2
        )
        needed = request.required * (1.0 + request.caution.headroom(deviation))
        return Forecast(performance, deviation, needed)

    def _summed(self) -> _Sums:
        """Performance of all replicas. What was summed before stays, and replicas that came are added."""
        count = len(self.replicas)
        # A correction holds for one number of replicas.
        sums = self._sums = _Sums() if self.request.corrections and self._sums.count != count else self._sums
        for place in range(sums.count, count):
            sums.add(self.replicas[place].size, self._classes[place], self.rate(place))
        sums.count = count
        return sums

    def _supposed(self, sizes: list[int] | None, without: int | None, count: int) -> _Sums:
        """Performance of all replicas with other sizes, or without one of them."""
        if self.request.corrections:
            sums = _Sums(count)
            for place, replica in enumerate(self.replicas):
                if place != without:
                    size = replica.size if sizes is None else sizes[place]
                    sums.add(size, self._classes[place], self.rate(place, size, count))
            return sums
        sums = self._summed().copy()
        for place, replica in enumerate(self.replicas):
            if place == without:
                sums.add(replica.size, self._classes[place], -self.rate(place))
            elif sizes is not None and sizes[place] != replica.size:
                sums.add(replica.size, self._classes[place], -self.rate(place))
                sums.add(sizes[place], self._classes[place], self.rate(place, sizes[place]))
        return sums


class Trial(Sizing):
    """Replicas that are supposed and not drawn, to compare placements of a workload quickly.

    A node takes one new replica only, so neither room nor contention on any node depends on the others. The
    workload may not let replicas share a node, therefore.

    Args:
        sizing: replicas so far; they stay as they are.
    """

    def __init__(self, sizing: Sizing) -> None:
        super().__init__(sizing.request, sizing.ledger)
        assert sizing.request.workload.spread is not Spread.NONE
        for replica in sizing.replicas:
            self.add(replica.node, replica.size)
            self._loss[replica.node] = sizing.lost(replica.node)
        self._copies = sizing.request.all_caused - sizing.request.caused

    def has_room(self, place: int, size: int) -> bool:
        """Whether a new replica can have another size where it stands."""
        request, node = self.request, self.replicas[place].node
        return self.ledger.fits(node, float(request.all_cores[size]), float(request.memory_gb[size]))

    def clear(self, keep: int = 0) -> None:
        """Drop replicas; what is known of contention on their nodes stays true."""
        del self.replicas[keep:], self._classes[keep:]
        self._on_node = dict.fromkeys((one.node for one in self.replicas), 1)
        self._sums = _Sums()

    def _drawn(self, node: int, size: int) -> tuple[Draw, ...]:
        del node, size
        return ()

    def _given_back(self, replica: Replica) -> None:
        pass

    def _outside(self, node: int) -> Floats:
        return self.ledger.pressure[:, node] + self._copies


def by_quality(request: Request, ledger: NodeLedger, scores: NodeScores) -> Floats:
    """Rank nodes by predicted performance, as the source does (Quasar section 3.7).

    Args:
        request: workload to place.
        ledger: state of the nodes.
        scores: scores of n nodes.

    Returns:
        (n,) rank, higher is better, in work per second; 0 where the node cannot take a replica.
    """
    del request, ledger
    return scores.quality


def by_cost(request: Request, ledger: NodeLedger, scores: NodeScores) -> Floats:
    """Rank nodes by predicted performance for the cost of the replica.

    Args:
        request: workload to place.
        ledger: state of the nodes.
        scores: scores of n nodes.

    Returns:
        (n,) rank, higher is better, in work per second and unit of cost; 0 where the node cannot take a
        replica.
    """
    cost = request.cost.ravel().take(
        np.maximum(scores.size, 0) * request.cost.shape[1] + ledger.cluster.class_of[scores.nodes]
    )
    return np.asarray(scores.quality / cost)


def walk(
    sizing: Sizing, rank: Rank, largest: int | None = None, contention: Contention | None = None
) -> None:
    """Place replicas on the best-ranked nodes until the target is met: scale up first, then out.

    There are four ends: 1. the target is met, 2. one more replica lowers performance, on several nodes, 3. no
    node takes another replica, 4. the workload may have no more replicas. Then new replicas are trimmed to
    the least cost that keeps the target. Best-effort work has no target, and fills what it may.

    Args:
        sizing: replicas so far, to which others are added.
        rank: ranking of the nodes.
        largest: index of the largest size to use; None for all sizes.
        contention: contention at present on the nodes to use; None for all nodes.
    """
    request, ledger = sizing.request, sizing.ledger
    spread = request.workload.spread
    kept = len(sizing.replicas)
    best = sizing.performance()
    met = bool(request.required) and sizing.meets()
    used = {replica.node for replica in sizing.replicas}
    zone_of = ledger.cluster.zones
    zones = {int(zone_of[node]) for node in used}
    found = contention_on(request, ledger) if contention is None else contention
    scores = node_scores(request, ledger, found, largest)
    offers = _offers(request, ledger, rank, largest, scores, again=spread is Spread.NONE)
    refused = 0
    while not met and len(sizing.replicas) < len(request.efficiency):
        node, size = next(offers, (NO_NODE, NO_SIZE))
        if node == NO_NODE:
            break
        if spread is not Spread.NONE and node in used:
            continue
        if spread is Spread.ZONE and int(zone_of[node]) in zones:
            continue
        sizing.add(node, size)
        grown = sizing.performance()
        if grown <= best:
            sizing.remove(len(sizing.replicas) - 1)
            refused += 1
            if refused == MAX_NODES_WITHOUT_GAIN:
                break
            continue
        best = grown
        met = bool(request.required) and sizing.meets()
        used.add(node)
        zones.add(int(zone_of[node]))
    if met:
        trim(sizing, kept)


def _offers(
    request: Request, ledger: NodeLedger, rank: Rank, largest: int | None, scores: NodeScores, *, again: bool
) -> Iterator[tuple[int, int]]:
    """Nodes and sizes, best rank first; what was drawn since the ranking is accounted for.

    Args:
        request: workload to place.
        ledger: state of the nodes; the caller draws between the offers.
        rank: ranking of the nodes.
        largest: index of the largest size to offer; None for all sizes.
        scores: scores of the nodes at the start.
        again: whether a node is offered again after it took a replica.
    """
    ranked = _descending(rank(request, ledger, scores))
    waiting: list[tuple[float, int, int]] = []  # nodes to offer again: rank below 0, node, size
    following = next(ranked, None)
    while following is not None or waiting:
        if waiting and (following is None or -waiting[0][0] >= following[1]):
            _, node, size = heapq.heappop(waiting)
        else:
            assert following is not None
            node, size = int(scores.nodes[following[0]]), int(scores.size[following[0]])
            following = next(ranked, None)
        before = ledger.free_cores[node]
        yield node, size
        if again and ledger.free_cores[node] < before:
            contention = contention_on(request, ledger, np.array([node]))
            score = node_scores(request, ledger, contention, largest)
            if score.size[0] != NO_SIZE:
                heapq.heappush(waiting, (-float(rank(request, ledger, score)[0]), node, int(score.size[0])))


def _descending(rank: Floats) -> Iterator[tuple[int, float]]:
    """Positions of a rank above 0 with it, best first, ties in order; sorts no more than is asked for.

    Most workloads need a few nodes of many, so the best few are selected in linear time and sorted alone.
    """
    count, done = len(rank), 0
    above = math.inf
    length = FIRST_RANKED
    while done < count:
        length = min(length, count - done)
        rest = rank if above == math.inf else rank[rank < above]
        if not rest.size:
            return
        floor = rest.min() if len(rest) <= length else np.partition(rest, len(rest) - length)[-length]
        floor = max(float(floor), np.finfo(float).tiny)
        stretch = np.flatnonzero((rank >= floor) & (rank < above))
        order = stretch[np.argsort(-rank[stretch], kind="stable")]
        yield from zip(order.tolist(), rank[order].tolist(), strict=True)
        done += len(order)
        if not len(order):
            return
        above, length = floor, length * GROWTH_OF_RANKED


def trim(sizing: Sizing, kept: int = 0) -> None:
    """Lower cost while the target is kept: drop a replica, or give it the cheapest size that is enough.

    Replicas are tried from the last one, which stands on the worst node, to the first (Quasar section 3.7
    step 5), until a whole round changes nothing. So no replica can be dropped or made cheaper alone.

    Args:
        sizing: replicas that meet the target.
        kept: how many of the oldest replicas stay as they are.
    """
    changed = True
    while changed:
        changed = False
        tried: set[Hashable] = set()  # replicas that are alike need one trial
        for place in range(len(sizing.replicas) - 1, kept - 1, -1):
            if (kind := sizing.kind(place)) in tried:
                continue
            if _trim_one(sizing, place):
                changed = True
                tried.clear()
            else:
                tried.add(kind)


def _trim_one(sizing: Sizing, place: int) -> bool:
    """Drop a replica or make it cheaper, if the target allows it; whether anything changed."""
    request, ledger = sizing.request, sizing.ledger
    if len(sizing.replicas) > 1 and sizing.meets(without=place):
        sizing.remove(place)
        return True
    replica = sizing.replicas[place]
    cost = request.cost[:, ledger.cluster.class_of[replica.node]]
    sizes = [one.size for one in sizing.replicas]
    for size in np.argsort(cost, kind="stable").tolist():
        if cost[size] >= cost[replica.size]:
            return False
        sizes[place] = size
        if sizing.has_room(place, size) and sizing.meets(sizes):
            sizing.resize(place, size)
            return True
    return False
