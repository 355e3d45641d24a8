"""Sizing: the replicas of one workload while they are chosen, and what they are predicted to perform."""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec
import numpy as np

from kwiken.allocator.placement.anti_affinity import AntiAffinity
from kwiken.allocator.placement.node_ledger import Draw, NodeLedger
from kwiken.allocator.placement.quality import contention_on, node_scores, worst_loss
from kwiken.allocator.placement.request import REL_ROUNDING, PlacementRequest
from kwiken.base.arrays import Bools


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


# Share of performance that no rounding of sums reaches, where a deviation of the log is computed from them.
FAR_BY_DEVIATION: Final = 1e-4


@dataclass(eq=False, slots=True)
class Sums:
    """Performance of the first replicas of a workload, before the efficiency of their number.

    Attributes:
        rates: performance by replica, work per second.
        by_size: sum of it by index of the size, work per second.
        by_class: sum of it by index of the node's class, work per second.
        total: sum of it over all replicas, work per second.
        spread: sum of the squared errors of sizes and classes, a work per second squared; None before it was
            asked for.
        forecast: predicted performance of these replicas; None before it was asked for.
        rounded: whether rates were subtracted, so that rounding differs from that of the sum alone.
    """

    rates: list[float] = field(default_factory=list)
    by_size: dict[int, float] = field(default_factory=dict)
    by_class: dict[int, float] = field(default_factory=dict)
    total: float = 0.0
    spread: float | None = None
    forecast: Forecast | None = None
    rounded: bool = False

    def add(self, size: int, node_class: int, rate: float) -> None:
        """Take in the rate of one more replica."""
        self.rates.append(rate)
        self.total += rate
        self.by_size[size] = self.by_size.get(size, 0.0) + rate
        self.by_class[node_class] = self.by_class.get(node_class, 0.0) + rate

    def remove(self, place: int, size: int, node_class: int) -> None:
        """Take out the rate of a replica."""
        rate = self.rates.pop(place)
        self.total -= rate
        self.by_size[size] -= rate
        self.by_class[node_class] -= rate
        self.spread, self.forecast, self.rounded = None, None, True

    def resize(self, place: int, old: int, size: int, node_class: int, rate: float) -> None:
        """Take in another rate of a replica, for another size."""
        before, self.rates[place] = self.rates[place], rate
        self.total += rate - before
        self.by_size[old] -= before
        self.by_size[size] = self.by_size.get(size, 0.0) + rate
        self.by_class[node_class] += rate - before
        self.spread, self.forecast, self.rounded = None, None, True


def _growth(rate: float, more: float, deviation: float) -> float:
    """Growth of the squared error of a rate with the rate."""
    return more * (2.0 * rate + more) * deviation**2


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
        # Share of performance left to a replica by node, its size and the supposed one; see `left`.
        self._left: dict[int, dict[tuple[int, int], float]] = {}
        self._classes: list[int] = []  # of each replica's node
        self._sums = Sums()
        best_effort = request.workload.best_effort
        self._kept_free = 0.0 if best_effort else request.caution.later_loss

    def renew(self, request: PlacementRequest) -> None:
        """Suppose another need or other predictions of the same workload; its replicas stay.

        Args:
            request: workload as it is asked for and predicted now.
        """
        self.request = request
        self._sums = Sums()

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
        if node in self._left:  # of replicas there, whose neighbour the new one is
            self._changed(node)

    def add_all(self, choice: Iterable[tuple[int, int]]) -> None:
        """Place replicas where they fit and contention allows them, in turn.

        Args:
            choice: pairs of a node and the index of a size; each fits without the others.
        """
        for node, size in choice:
            if self.next_on(node, size)[0] == size:
                self.add(node, size)

    def add_while_short(
        self, offers: Iterator[tuple[int, int]], closed: Collection[int | None]
    ) -> tuple[int, int] | None:
        """Place replicas as long as it is plain without a forecast that the target is missed.

        Here none is placed: that is plain only where replicas do not depend on each other.

        Args:
            offers: pairs of a node and the index of a size that fits there, each node once.
            closed: numbers of the anti-affinity groups that have a replica.

        Returns:
            The first offer that is left to be looked at; None where there is none.
        """
        del closed
        return next(offers, None)

    def remove(self, place: int) -> SizedReplica:
        """Take a replica away, by its position in `replicas`."""
        gone = self.replicas.pop(place)
        self._classes.pop(place)
        self._given_back(gone)
        self._changed(gone.node)
        return gone

    def resize(self, place: int, size: int) -> None:
        """Change the size of a replica; the caller has checked that the new size fits in its place."""
        old = self.replicas[place]
        smaller = bool(self.request.all_cores[size] <= self.request.all_cores[old.size])
        self._given_back(old)
        draws = self._drawn(old.node, size, oversell=smaller)  # the node may be sold beyond its cores
        self.replicas[place] = SizedReplica(old.node, size, draws)
        self._changed(old.node)

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
        costs = request.costs
        return request.work * math.fsum(
            [costs[one.size][at] for one, at in zip(self.replicas, self._classes, strict=True)]
        )

    def class_of(self, place: int) -> int:
        """Index of the class of the node that a replica stands on."""
        return self._classes[place]

    def refresh(self) -> None:
        """Take account of neighbours that came or went since the last change."""
        self._left.clear()
        self._sums = Sums()

    def free(self, node: int) -> tuple[float, float]:
        """Cores and GB of memory of a node that are not drawn."""
        return float(self.ledger.free_cores[node]), float(self.ledger.free_memory_gb[node])

    def takes(self, node: int, size: int) -> bool:
        """Whether a node has room for one more replica."""
        request = self.request
        return self.ledger.fits(node, float(request.all_cores[size]), float(request.memory_gb[size]))

    def suits(self, node: int, size: int, *, oversell: bool = False) -> bool:
        """Whether a node has room for one more replica, and its residents bear it.

        Args:
            oversell: whether the node may be sold beyond its cores.
        """
        request, ledger = self.request, self.ledger
        cores = -math.inf if oversell else float(request.all_cores[size])
        return ledger.fits(node, cores, float(request.memory_gb[size])) and ledger.bears(
            node, request.pressure_on(node, size, ledger.cluster)
        )

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
        if not self.ledger.fits(replica.node, extra_cores, extra_memory_gb):
            return False
        if not request.pressed:
            return True
        new, old = (request.all_pressure[:, one, self._classes[place]] for one in (size, replica.size))
        return self.ledger.bears(replica.node, new - old, replica.draws[0])

    def _drawn(self, node: int, size: int, *, oversell: bool) -> tuple[Draw, ...]:
        draws = self.request.draws(node, size, self.ledger.cluster.class_numbers[node])
        for draw in draws:
            self.ledger.take(draw, oversell=oversell)
        return draws

    def _given_back(self, replica: SizedReplica) -> None:
        for draw in replica.draws:
            self.ledger.release(draw)

    def _changed(self, node: int) -> None:
        self._left.pop(node, None)
        self._sums = Sums()

    def left(self, node: int, size: int, supposed: int | None = None) -> float:
        """Share of performance that contention leaves a replica, now and with neighbours placed later.

        Args:
            size: index of the size that the replica has.
            supposed: index of another size to suppose; None for the one it has.
        """
        known, key = self._left.setdefault(node, {}), (size, size if supposed is None else supposed)
        if (left := known.get(key)) is None:
            left = known[key] = 1.0 - max(self._loss_on(node, *key), self._kept_free)
        return left

    def _loss_on(self, node: int, size: int, supposed: int) -> float:
        """Share of performance that a replica loses to others on a node."""
        request, node_class = self.request, self.ledger.cluster.class_numbers[node]
        outside = self.ledger.pressure[:, node] - request.pressure[:, size, node_class]
        return worst_loss(outside, request.tolerance[:, supposed, node_class])

    def kinds(self) -> list[Hashable]:
        """Keys of the replicas, equal for replicas that are alike.

        Alike are replicas of the same size, class and loss, with the same room where it matters.
        """
        alike: list[Hashable] = list(self._traits(0))
        if self.request.nested:  # a cheaper size fits wherever a dearer one does
            return alike
        rooms = [self.free(replica.node) for replica in self.replicas]
        return list(zip(alike, rooms, strict=True))

    def _traits(self, first: int) -> Iterable[tuple[int, int, float]]:
        """Size, class and share of performance left, of the replicas from a position on."""
        return [
            (one.size, node_class, self.left(one.node, one.size))
            for one, node_class in zip(self.replicas[first:], self._classes[first:], strict=True)
        ]

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
        return rate * self.left(replica.node, replica.size, chosen)

    def forecast(self) -> Forecast:
        """Predicted performance of all replicas together."""
        sums = self._summed()
        if sums.forecast is None:
            sums.forecast = self._forecast(sums.by_size, sums.by_class, len(self.replicas))
        return sums.forecast

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
        request = self.request
        if request.required <= 0:
            return False
        sums = self._rounded_sums()
        if sums.forecast is None:
            surely = self._surely_meets(sums.total, self._spread(sums), len(self.replicas))
            return self.forecast().met if surely is None else surely
        return sums.forecast.met

    def first_that_meets(self, place: int, changes: Sequence[int | None]) -> int | None:
        """Find the first change of one replica that keeps or reaches the target, in the room that it has.

        Args:
            place: position in `replicas` of the one to change.
            changes: indices of sizes that it could have, other than its own; None to leave it out.

        Returns:
            Position in `changes`; None where no change meets the target as surely as asked.
        """
        if self.request.corrections or self.request.required <= 0:  # corrections depend on the number
            enough = (at for at, size in enumerate(changes) if self.supposed(place, size).met)
            return next((at for at in enough if self._has_room(place, changes[at])), None)
        request, sums = self.request, self._rounded_sums()
        replica, node_class, number = self.replicas[place], self._classes[place], len(self.replicas)
        now, gone = replica.size, sums.rates[place]
        efficiencies, least = request.efficiencies, request.least_rounded
        own, of_class, deviations = sums.by_size[now], sums.by_class[node_class], request.size_deviations
        for at, size in enumerate(changes):
            came = 0.0 if size is None else request.rates[size][node_class]
            if size is not None:
                came *= self.left(replica.node, now, size)
            total, count = sums.total - gone + came, number - (size is None)
            # Most trials fail by far, and are told from the total.
            if efficiencies[count - 1] * total < least:
                continue
            spread = self._spread(sums) + _growth(own, -gone, deviations[now])
            spread += _growth(of_class, came - gone, request.class_deviations[node_class])
            if size is not None:
                spread += _growth(sums.by_size.get(size, 0.0), came, deviations[size])
            surely = self._surely_meets(total, spread, count)
            met = self.supposed(place, size).met if surely is None else surely
            if met and self._has_room(place, size):
                return at
        return None

    def _has_room(self, place: int, size: int | None) -> bool:
        return size is None or self.has_room(place, size)

    def _spread(self, sums: Sums) -> float:
        if sums.spread is None:
            of_size, of_class = self.request.size_deviations, self.request.class_deviations
            squares = [(rate * of_size[at]) ** 2 for at, rate in sums.by_size.items()]
            squares += [(rate * of_class[at]) ** 2 for at, rate in sums.by_class.items()]
            sums.spread = sum(squares)
        return sums.spread

    def _surely_meets(self, total: float, spread: float, count: int) -> bool | None:
        """Whether replicas meet the target; None where rounding may decide, so that a forecast has to tell.

        Args:
            total: sum of their rates, work per second.
            spread: sum of the squared errors of their sizes and classes, as `Sums` has it.
            count: number of replicas that the total and the spread are of.
        """
        request = self.request
        if count < request.workload.min_nodes:
            return False
        performance = request.efficiencies[count - 1] * total
        if performance < request.least_rounded:
            return False
        own = request.base_deviation**2 + request.count_deviations[count - 1] ** 2
        deviation = math.sqrt(own + max(spread, 0.0) / (total * total))
        ratio = performance / (request.required * (1.0 + request.caution.headroom(deviation)))
        return None if abs(ratio - 1.0) < FAR_BY_DEVIATION else ratio > 1.0

    def _performance(self, by_size: Mapping[int, float], count: int) -> float:
        return self.request.efficiencies[count - 1] * math.fsum(by_size.values())  # 0 for no replica

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

    def _summed(self) -> Sums:
        """Performance of all replicas; summed anew where rates were subtracted, which leaves rounding."""
        if self._sums.rounded:
            self._sums = Sums()
        return self._rounded_sums()

    def _rounded_sums(self) -> Sums:
        """Performance of all replicas, up to rounding: replicas that came are added to the last sums."""
        sums, count = self._sums, len(self.replicas)
        if (known := len(sums.rates)) == count:
            return sums
        if self.request.corrections:  # a correction holds for one number of replicas
            sums = self._sums = Sums()
            for place in range(count):
                sums.add(self.replicas[place].size, self._classes[place], self.rate(place))
            return sums
        table, total = self.request.rates, sums.total
        rates, by_size, by_class = sums.rates, sums.by_size, sums.by_class
        for size, node_class, left in self._traits(known):
            rate = table[size][node_class] * left
            rates.append(rate)
            total += rate
            by_size[size] = by_size.get(size, 0.0) + rate
            by_class[node_class] = by_class.get(node_class, 0.0) + rate
        sums.total, sums.spread, sums.forecast = total, None, None
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

    def _anew(self, changed: int, size: int | None) -> Sums:
        """Sums of all replicas where corrections depend on their number."""
        sums = Sums()
        count = len(self.replicas) - (size is None)
        for place, replica in enumerate(self.replicas):
            if place != changed or size is not None:
                now = size if place == changed and size is not None else replica.size
                sums.add(now, self._classes[place], self.rate(place, now, count))
        return sums
