"""Sizing: the replicas of one workload while they are chosen, and what they are predicted to perform."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec
import numpy as np

from kwiken.allocator.placement.anti_affinity import AntiAffinity
from kwiken.allocator.placement.node_ledger import Draw, NodeLedger
from kwiken.allocator.placement.quality import contention_on, node_scores, worst_loss
from kwiken.allocator.placement.request import REL_ROUNDING, PlacementRequest
from kwiken.base.arrays import Bools, Floats


class SizedReplica(msgspec.Struct, frozen=True, eq=False):
    """One replica with its place.

    Attributes:
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
        enough_nodes: whether the replicas stand on as many nodes as the workload has to.
    """

    performance: float
    deviation: float
    needed: float
    enough_nodes: bool

    @property
    def met(self) -> bool:
        """Whether the target is met as surely as asked, on enough nodes."""
        return self.enough_nodes and self.performance >= self.needed * (1 - REL_ROUNDING)


FAR: Final = 1e-6  # of performance, beyond all rounding of sums


@dataclass(eq=False, slots=True)
class _Sums:
    """Performance of the first replicas of a workload, before the efficiency of their number.

    Attributes:
        rates: performance by replica, work per second.
        by_size: sum of it by index of the size, work per second.
        by_class: sum of it by index of the node's class, work per second.
        total: sum of it over all replicas, work per second.
    """

    rates: list[float] = field(default_factory=list)
    by_size: dict[int, float] = field(default_factory=dict)
    by_class: dict[int, float] = field(default_factory=dict)
    total: float = 0.0

    def add(self, size: int, node_class: int, rate: float) -> None:
        self.rates.append(rate)
        self.total += rate
        self.by_size[size] = self.by_size.get(size, 0.0) + rate
        self.by_class[node_class] = self.by_class.get(node_class, 0.0) + rate


class Sizing:
    """Replicas of one workload while they are chosen; every change is drawn from the ledger at once.

    Contention on a node is measured when it is first asked for after a replica came to the node or left it,
    and after `refresh`.

    Args:
        allowed: (n,) whether a node may be chosen, such as those of one pool; None for every node.

    Attributes:
        anti_affinity: which nodes the replicas close to other replicas.
    """

    def __init__(self, request: PlacementRequest, ledger: NodeLedger, allowed: Bools | None = None) -> None:
        self.request = request
        self.ledger = ledger
        self._allowed = allowed
        self.anti_affinity = AntiAffinity(request.workload.spread, ledger.cluster)
        self.replicas: list[SizedReplica] = []
        self._left: dict[int, float] = {}  # share of performance left to a replica, by node; see `left`
        self._on_node: dict[int, int] = {}  # number of replicas by node
        self._classes: list[int] = []  # of each replica's node
        self._sums = _Sums()
        best_effort = request.workload.best_effort
        self._kept_free = 0.0 if best_effort else request.caution.later_loss

    def renew(self, request: PlacementRequest) -> None:
        """Suppose another need or other predictions of the same workload; its replicas stay.

        Args:
            request: workload as it is asked for and predicted now.
        """
        self.request = request
        self.anti_affinity = AntiAffinity(request.workload.spread, self.ledger.cluster)
        self._sums = _Sums()

    def open_nodes(self) -> Bools:
        """(n,) whether a node is allowed, and anti-affinity leaves it open to another replica."""
        found = self.anti_affinity.open_nodes(replica.node for replica in self.replicas)
        return found if self._allowed is None else found & self._allowed

    def add(self, node: int, size: int, *, oversell: bool = False) -> None:
        """Place a replica; the caller has checked that it fits.

        Args:
            oversell: whether the node may be sold beyond its cores.
        """
        self.replicas.append(SizedReplica(node, size, self._drawn(node, size, oversell=oversell)))
        self._classes.append(self.ledger.cluster.class_numbers[node])
        self._on_node[node] = self._on_node.get(node, 0) + 1
        if self._on_node[node] > 1:  # replicas on one node are one another's neighbours
            self._changed(node)

    def remove(self, place: int) -> SizedReplica:
        """Take a replica away, by its position in `replicas`."""
        gone = self.replicas.pop(place)
        self._classes.pop(place)
        self._given_back(gone)
        self._on_node[gone.node] -= 1
        self._changed(gone.node)
        return gone

    def resize(self, place: int, size: int) -> None:
        """Change the size of a replica; the caller has checked that the new size fits in its place."""
        old = self.replicas[place]
        smaller = bool(self.request.all_cores[size] <= self.request.all_cores[old.size])
        self._given_back(old)
        draws = self._drawn(old.node, size, oversell=smaller)  # the node may be sold beyond its cores
        self.replicas[place] = SizedReplica(old.node, size, draws)
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

    def class_of(self, place: int) -> int:
        """Index of the class of the node that a replica stands on."""
        return self._classes[place]

    def refresh(self) -> None:
        """Take account of neighbours that came or went since the last change."""
        self._left.clear()
        self._sums = _Sums()

    def free(self, node: int) -> tuple[float, float]:
        """Cores and GB of memory of a node that are not drawn."""
        return float(self.ledger.free_cores[node]), float(self.ledger.free_memory_gb[node])

    def takes(self, node: int, size: int) -> bool:
        """Whether a node has room for one more replica."""
        request = self.request
        return self.ledger.fits(node, float(request.all_cores[size]), float(request.memory_gb[size]))

    def next_on(self, node: int, largest: int | None) -> tuple[int, float]:
        """Largest size of one more replica that a node takes, and its predicted performance there.

        Args:
            largest: index of the largest size to consider; None for all sizes.

        Returns:
            `NO_SIZE` and 0 where the node takes none; else the index of the size, and work per second.
        """
        contention = contention_on(self.request, self.ledger, np.array([node]))
        score = node_scores(self.request, self.ledger, contention, largest)
        return int(score.size[0]), float(score.quality[0])

    def has_room(self, place: int, size: int) -> bool:
        """Whether a replica can have another size where it stands."""
        request, replica = self.request, self.replicas[place]
        extra_cores = float(request.all_cores[size] - request.all_cores[replica.size])
        extra_memory_gb = float(request.memory_gb[size] - request.memory_gb[replica.size])
        return self.ledger.fits(replica.node, extra_cores, extra_memory_gb)

    def _drawn(self, node: int, size: int, *, oversell: bool) -> tuple[Draw, ...]:
        draws = self.request.draws(node, size)
        for draw in draws:
            self.ledger.take(draw, oversell=oversell)
        return draws

    def _given_back(self, replica: SizedReplica) -> None:
        for draw in replica.draws:
            self.ledger.release(draw)

    def _changed(self, node: int) -> None:
        self._left.pop(node, None)
        self._sums = _Sums()

    def left(self, node: int) -> float:
        """Share of performance that contention leaves a replica, now and with neighbours placed later."""
        left = self._left.get(node)
        if left is None:
            loss = worst_loss(self._outside(node), self.request.tolerated)
            left = self._left[node] = 1.0 - max(loss, self._kept_free)
        return left

    def _outside(self, node: int) -> Floats:
        """(s,) pressure of others on a replica on a node."""
        return self.ledger.pressure[:, node] - self.request.caused

    def kind(self, place: int) -> Hashable:
        """Equal for replicas that are alike: same size, class, loss, and room where it matters."""
        node = self.replicas[place].node
        alike = self.replicas[place].size, self._classes[place], self.left(node)
        if self.request.nested:  # a cheaper size fits wherever a dearer one does
            return alike
        return *alike, *self.free(node)

    def rate(self, place: int, size: int | None = None, count: int | None = None) -> float:
        """Performance of one replica before the efficiency of their number, in work per second.

        Args:
            size: index of another size to suppose; None for the one it has.
            count: number of replicas to suppose; None for the present one.
        """
        request, node_class = self.request, self._classes[place]
        replica = self.replicas[place]
        chosen = replica.size if size is None else size
        rate = request.rates[chosen][node_class]
        if request.corrections:
            together = len(self.replicas) if count is None else count
            rate *= math.exp(request.corrections.get((chosen, together, node_class), 0.0))
        return rate * self.left(replica.node)

    def forecast(self) -> Forecast:
        """Predicted performance of all replicas together."""
        sums = self._summed()
        return self._forecast(sums.by_size, sums.by_class, len(self.replicas))

    def supposed(self, place: int, size: int | None) -> Forecast:
        """Predicted performance of all replicas together, if one of them were another.

        Args:
            place: position in `replicas` of the one that is another.
            size: index of its size; None to leave it out.
        """
        count = len(self.replicas) - (size is None)
        return self._forecast(self._sizes_with(place, size), self._classes_with(place, size), count)

    def performance(self) -> float:
        """Predicted performance of all replicas together, work per second, as `forecast` tells it."""
        return self._performance(self._summed().by_size, len(self.replicas))

    def meets(self) -> bool:
        """Whether there is a target, and it is met as surely as asked."""
        return self.request.required > 0 and self.forecast().met

    def would_meet(self, place: int, size: int | None) -> bool:
        """Whether the target would be met as surely as asked, if one replica were another.

        Args:
            place: position in `replicas` of the one that is another.
            size: index of its size; None to leave it out.
        """
        count, request = len(self.replicas) - (size is None), self.request
        if not request.corrections:  # most trials fail by far, and are told from the total
            sums = self._summed()
            total = sums.total - sums.rates[place] + (0.0 if size is None else self.rate(place, size))
            if request.efficiencies[count - 1] * total < (1.0 - FAR) * request.least_sure:
                return False
        by_size = self._sizes_with(place, size)
        if self._performance(by_size, count) < request.least_sure:
            return False  # without the sums by class
        return self._forecast(by_size, self._classes_with(place, size), count).met

    def _performance(self, by_size: Mapping[int, float], count: int) -> float:
        total = math.fsum(by_size.values())
        return self.request.efficiencies[count - 1] * total if count and total > 0 else 0.0

    def _forecast(self, by_size: Mapping[int, float], by_class: Mapping[int, float], count: int) -> Forecast:
        request = self.request
        performance = self._performance(by_size, count)
        if performance <= 0:  # there is no replica, or contention takes everything
            return Forecast(0.0, 0.0, request.required, enough_nodes=request.workload.best_effort)
        total = math.fsum(by_size.values())
        # The error of a size, and of a class, is common to all replicas that have it: it adds up within the
        # size, and as independent errors over the sizes, weighted by shares of the performance.
        by_sizes = math.fsum([(rate * request.size_deviations[size]) ** 2 for size, rate in by_size.items()])
        by_classes = math.fsum(
            [(rate * request.class_deviations[one]) ** 2 for one, rate in by_class.items()]
        )
        deviation = math.sqrt(
            request.base_deviation**2
            + request.count_deviations[count - 1] ** 2
            + (by_sizes + by_classes) / total**2
        )
        needed = request.required * (1.0 + request.caution.headroom(deviation))
        # With more than one, each replica has a node of its own.
        return Forecast(performance, deviation, needed, count >= request.workload.min_nodes)

    def _summed(self) -> _Sums:
        """Performance of all replicas. What was summed before stays, and replicas that came are added."""
        count, sums = len(self.replicas), self._sums
        if (known := len(sums.rates)) == count:
            return sums
        if self.request.corrections:  # a correction holds for one number of replicas
            sums, known = _Sums(), 0
            self._sums = sums
        for place in range(known, count):
            sums.add(self.replicas[place].size, self._classes[place], self.rate(place))
        return sums

    def _sizes_with(self, place: int, size: int | None) -> dict[int, float]:
        """Performance of all replicas by size, if one of them were of another size, or left out."""
        if self.request.corrections:
            return self._anew(place, size).by_size
        sums = self._summed()
        by_size, present = sums.by_size.copy(), self.replicas[place].size
        by_size[present] -= sums.rates[place]
        if size is not None:
            by_size[size] = by_size.get(size, 0.0) + self.rate(place, size)
        return by_size

    def _classes_with(self, place: int, size: int | None) -> dict[int, float]:
        """Performance of all replicas by class, if one of them were of another size, or left out."""
        if self.request.corrections:
            return self._anew(place, size).by_class
        sums = self._summed()
        by_class, node_class = sums.by_class.copy(), self._classes[place]
        by_class[node_class] -= sums.rates[place]
        if size is not None:
            by_class[node_class] += self.rate(place, size)
        return by_class

    def _anew(self, changed: int, size: int | None) -> _Sums:
        """Sums of all replicas where corrections depend on their number."""
        sums = _Sums()
        count = len(self.replicas) - (size is None)
        for place, replica in enumerate(self.replicas):
            if place != changed or size is not None:
                now = size if place == changed and size is not None else replica.size
                sums.add(now, self._classes[place], self.rate(place, now, count))
        return sums


class SizingTrial(Sizing):
    """Replicas that are supposed and not drawn, to compare placements of a workload quickly.

    A node takes one new replica only, so neither room nor contention on any node depends on the others. The
    workload may not let replicas share a node, therefore.

    Args:
        sizing: replicas so far; they stay as they are.
    """

    def __init__(self, sizing: Sizing) -> None:
        super().__init__(sizing.request, sizing.ledger)
        assert not self.anti_affinity.shares_nodes
        for replica in sizing.replicas:
            self.add(replica.node, replica.size)
            self._left[replica.node] = sizing.left(replica.node)
        self._copies = sizing.request.all_caused - sizing.request.caused

    def add(self, node: int, size: int, *, oversell: bool = False) -> None:
        """Suppose a replica; the caller has checked that it fits, and that the node has no other one."""
        del oversell
        self.replicas.append(SizedReplica(node, size, ()))
        self._classes.append(self.ledger.cluster.class_numbers[node])

    def remove(self, place: int) -> SizedReplica:
        """Drop a replica, by its position in `replicas`."""
        self._classes.pop(place)
        self._sums = _Sums()
        return self.replicas.pop(place)

    def has_room(self, place: int, size: int) -> bool:
        """Whether a new replica can have another size where it stands."""
        return self.takes(self.replicas[place].node, size)

    def clear(self, keep: int = 0) -> None:
        """Drop replicas; what is known of contention on their nodes stays true."""
        del self.replicas[keep:], self._classes[keep:]
        self._sums = _Sums()

    def _drawn(self, node: int, size: int, *, oversell: bool) -> tuple[Draw, ...]:
        del node, size, oversell
        return ()

    def _given_back(self, replica: SizedReplica) -> None:
        pass

    def _outside(self, node: int) -> Floats:
        return self.ledger.pressure[:, node] + self._copies
