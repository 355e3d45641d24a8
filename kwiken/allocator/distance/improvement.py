"""Nearby placement: replicas move so that calls go less far, at no more cost and with no target lost.

A scheduler places first, by cost. Then single replicas move, two replicas change places, and all replicas
of a workload move into one zone, as long as that lowers the distance of the traffic. Where nothing lowers
it any more, a workload and partners are thrown into a zone at random and the search goes on from there;
the best placement is kept. What ran before stays where it is, anti-affinity and room hold, and a workload
keeps as many nodes as its copies need.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from kwiken.allocator.distance.crossing import Crossings
from kwiken.allocator.distance.demand import TrafficDemand
from kwiken.allocator.placement.order import Newcomer, Scheduler
from kwiken.allocator.placement.sizing import Sizing
from kwiken.allocator.schedulers.default_scheduler import choose_by_price

SEED: Final = 0  # the same placement each time
KICKS: Final = 60  # times that workloads are thrown into other zones
MAX_KICKED: Final = 4  # workloads of one kick
MAX_STEPS: Final = 2000  # of one descent
MAX_TRIED: Final = 400  # moves of one kind that are drawn from the ledger before the search gives up
MAX_ANEW: Final = 600  # choices anew, in all descents together
FAR_DEARER: Final = 1.0  # by how much dearer the farthest node is made, as a share of its cost
NODES_FOR_COPIES: Final = 2  # a copy of a call meets another node than the first attempt
MIN_GAIN: Final = 1e-9  # relative, of distance
COST_ROUNDING: Final = 1e-9  # relative
SLACK_ROUNDING: Final = 1e-9  # shares of performance
_Place = list[tuple[int, int]]  # node and size of each new replica


@dataclass(frozen=True)
class NearbyScheduler:
    """Scheduler that brings callers and callees together after another scheduler has placed them.

    Attributes:
        inner: scheduler that places and sizes by cost.
        demand: traffic among the workloads.
    """

    inner: Scheduler
    demand: TrafficDemand

    @property
    def name(self) -> str:
        """Name of the scheduler that places and sizes."""
        return self.inner.name

    def place(self, sizing: Sizing) -> None:
        """Place by cost."""
        self.inner.place(sizing)

    def satisfied(self, sizing: Sizing) -> bool:
        """Whether a workload has what the scheduler by cost set out to give it."""
        return self.inner.satisfied(sizing)

    def improve(self, newcomers: Sequence[Newcomer]) -> None:
        """Lower the cost as the scheduler does, then the distance at that cost."""
        lower = getattr(self.inner, "improve", None)
        if lower is not None:
            lower(newcomers)
        if newcomers:
            _Search(newcomers, self.demand).run()


class _Search:
    """Local search over the places of newly placed workloads.

    Args:
        newcomers: workloads with a target; each keeps the replicas that it had before.
        demand: traffic among the workloads.
    """

    def __init__(self, newcomers: Sequence[Newcomer], demand: TrafficDemand) -> None:
        self._all = [one for one in newcomers if one.sizing.replicas]
        self._moving = [one for one in self._all if len(one.sizing.replicas) > one.kept]
        self._cluster = newcomers[0].sizing.ledger.cluster
        self._ledger = newcomers[0].sizing.ledger
        self._crossings = Crossings(self._cluster, demand)
        self._rows = [self._crossings.place_of(one.sizing.request.name) for one in self._moving]
        self._refresh()
        self._given = self._performance()
        # What a node's residents may lack of what they tolerate: nothing, or what they lack now.
        self._least_slack = np.minimum(self._ledger.slack, 0.0) - SLACK_ROUNDING
        self._most_cost = self._cost() * (1 + COST_ROUNDING)
        self._left = MAX_ANEW
        self._nodes = [min(NODES_FOR_COPIES, _nodes_of(one.sizing)) for one in self._moving]

    def run(self) -> None:
        """Search; the placement with the least distance is left in the ledger."""
        if not self._moving or self._crossings.distance <= 0:
            return
        rng = np.random.default_rng(SEED)
        self._descend()
        best, kept = self._crossings.distance, self._places()
        for _ in range(KICKS):
            self._kick(rng)
            self._descend()
            found = self._crossings.distance
            if found < best * (1 - MIN_GAIN):
                best, kept = found, self._places()
            else:
                self._restore(kept)

    def _descend(self) -> None:
        for _ in range(MAX_STEPS):
            if not (self._move_one() or self._move_all() or self._exchange() or self._choose_anew()):
                return

    def _move_one(self) -> bool:
        """Move the one replica to the node that lowers the distance most, if any does; whether one moved."""
        moves = []
        for number, one in enumerate(self._moving):
            row = self._rows[number]
            if row is None:
                continue
            near = self._crossings.nearness(row)
            for place in range(one.kept, len(one.sizing.replicas)):
                node = one.sizing.replicas[place].node
                gain = near - near[node]
                better = np.flatnonzero(gain > MIN_GAIN * max(float(near[node]), 1e-300))
                moves += [(float(gain[to]), number, place, int(to)) for to in better.tolist()]
        moves.sort(key=lambda move: (-move[0], move[1:]))
        for _, number, place, to in moves[:MAX_TRIED]:
            if self._try({number: self._moved(number, place, to)}):
                return True
        return False

    def _move_all(self) -> bool:
        """Move all new replicas of one workload into one zone, if that lowers the distance; whether any."""
        moves = []
        for number, row in enumerate(self._rows):
            if row is None or self._moving[number].sizing.anti_affinity.closes_other_nodes:
                continue
            near = self._crossings.nearness(row)
            now = float(near @ self._crossings.on_nodes[row])
            for zone in range(self._crossings.in_zones.shape[1]):
                nodes = np.flatnonzero(self._crossings.zones == zone)
                if float(near[nodes].max()) > now:
                    moves.append((float(near[nodes].max()) - now, number, zone))
        moves.sort(key=lambda move: (-move[0], move[1:]))
        return any(self._try(self._into(number, zone)) for _, number, zone in moves[:MAX_TRIED])

    def _exchange(self) -> bool:
        """Let two replicas of two workloads change places, if that lowers the distance; whether two did."""
        near = {
            number: self._crossings.nearness(row) for number, row in enumerate(self._rows) if row is not None
        }
        none = np.zeros(len(self._cluster.nodes))
        sides = [
            (number, place, one.sizing.replicas[place].node)
            for number, one in enumerate(self._moving)
            for place in range(one.kept, len(one.sizing.replicas))
        ]
        moves = []
        for at, (number, place, node) in enumerate(sides):
            for other, other_place, other_node in sides[at + 1 :]:
                if number == other or node == other_node:
                    continue
                gain = near.get(number, none)[other_node] - near.get(number, none)[node]
                gain += near.get(other, none)[node] - near.get(other, none)[other_node]
                if gain > 0:
                    moves.append((float(gain), number, place, other_node, other, other_place, node))
        moves.sort(key=lambda move: (-move[0], move[1:]))
        return any(
            self._try({a: self._moved(a, p, to), b: self._moved(b, q, back)})
            for _, a, p, to, b, q, back in moves[:MAX_TRIED]
        )

    def _choose_anew(self) -> bool:
        """Choose nodes, sizes and number of one workload anew, far nodes made dearer; whether one moved."""
        for number, row in enumerate(self._rows):
            if row is None or self._left <= 0:
                continue
            near = self._crossings.nearness(row)
            highest = float(near.max())
            if highest <= 0 or float(near @ self._crossings.on_nodes[row]) >= highest * (1 - MIN_GAIN):
                continue
            self._left -= 1
            sizing, kept = self._moving[number].sizing, self._moving[number].kept
            before = self._place(number)
            sizing.clear(kept)
            sizing.refresh()
            choose_by_price(sizing, 1.0 + FAR_DEARER * (1.0 - near / highest))
            chosen = self._place(number)
            sizing.clear(kept)
            for node, size in before:
                sizing.add(node, size)
            sizing.refresh()
            if chosen and self._try({number: chosen}):
                return True
        return False

    def _kick(self, rng: np.random.Generator) -> None:
        """Throw a workload and some of its partners into a zone at random, whatever comes of it."""
        zone = int(rng.integers(self._crossings.in_zones.shape[1]))
        first = int(rng.integers(len(self._moving)))
        row = self._rows[first]
        partners = [] if row is None else self._crossings.partners(row)
        count = int(rng.integers(1, MAX_KICKED + 1))
        thrown = [number for number, each in enumerate(self._rows) if each is not None and each in partners]
        thrown = [first, *rng.permutation(thrown).tolist()] if thrown else [first]
        for number in thrown[:count]:
            self._try(self._into(number, zone), whatever=True)

    def _moved(self, number: int, place: int, to: int) -> _Place:
        """Places of a workload's new replicas with one of them on another node."""
        one = self._moving[number]
        found = [(each.node, each.size) for each in one.sizing.replicas[one.kept :]]
        found[place - one.kept] = to, found[place - one.kept][1]
        return found

    def _into(self, number: int, zone: int) -> dict[int, _Place]:
        """Places of a workload's new replicas in one zone: on nodes of the class that each had, if there are.

        Where replicas share nodes they are spread all the same, as far as there are nodes.
        """
        one = self._moving[number]
        nodes = np.flatnonzero(self._crossings.zones == zone)
        nodes = nodes[np.argsort(-self._ledger.free_cores[nodes], kind="stable")]
        classes, used = self._cluster.class_of, np.zeros(len(nodes), np.int64)
        found: _Place = []
        for replica in one.sizing.replicas[one.kept :]:
            alike = classes[nodes] == classes[replica.node]
            to = int(nodes[np.lexsort((~alike, used))[0]])
            found.append((to, replica.size))
            used[nodes == to] += 1
        return {number: found}

    def _try(self, change: dict[int, _Place], *, whatever: bool = False) -> bool:
        """Change the places of some workloads; undone unless it is allowed and lowers the distance.

        Args:
            change: places of the new replicas by number of the workload.
            whatever: whether the distance may rise.
        """
        before = {number: self._place(number) for number in change}
        distance = self._crossings.distance
        for number in change:
            self._moving[number].sizing.clear(self._moving[number].kept)
        fits = all(self._put(number, places) for number, places in change.items())
        touched = {node for places in (*before.values(), *change.values()) for node, _ in places}
        if fits:
            self._refresh(touched)
            lower = whatever or self._crossings.distance < distance * (1 - MIN_GAIN)
            if lower and self._allowed():
                return True
        for number in change:
            self._moving[number].sizing.clear(self._moving[number].kept)
        for number, places in before.items():
            for node, size in places:
                self._moving[number].sizing.add(node, size)
        self._refresh(touched if fits else set())
        return False

    def _put(self, number: int, places: _Place) -> bool:
        """Add replicas where room, anti-affinity and neighbours allow it; whether all were added."""
        sizing = self._moving[number].sizing
        for node, size in places:
            if not (sizing.open_nodes()[node] and sizing.suits(node, size)):
                return False
            sizing.add(node, size)
        return _nodes_of(sizing) >= self._nodes[number]

    def _allowed(self) -> bool:
        """Whether nobody has less than before the search, or tolerates more, at no more cost."""
        if self._cost() > self._most_cost or (self._ledger.slack < self._least_slack).any():
            return False
        return all(now >= then for now, then in zip(self._performance(), self._given, strict=True))

    def _performance(self) -> list[float]:
        """Performance of each workload, work per second; infinite where the target is met."""
        return [math.inf if one.sizing.meets() else one.sizing.performance() for one in self._all]

    def _cost(self) -> float:
        return math.fsum(one.sizing.cost for one in self._all)

    def _refresh(self, nodes: Collection[int] | None = None) -> None:
        """Take account of what changed on some nodes.

        Args:
            nodes: indices of the nodes; None for all of them.
        """
        for one in self._all:
            sizing = one.sizing
            if nodes is None or any(replica.node in nodes for replica in sizing.replicas):
                sizing.refresh()
                self._crossings.renew(sizing)

    def _place(self, number: int) -> _Place:
        one = self._moving[number]
        return [(each.node, each.size) for each in one.sizing.replicas[one.kept :]]

    def _places(self) -> list[_Place]:
        return [self._place(number) for number in range(len(self._moving))]

    def _restore(self, places: list[_Place]) -> None:
        for one in self._moving:
            one.sizing.clear(one.kept)
        for one, some in zip(self._moving, places, strict=True):
            for node, size in some:
                one.sizing.add(node, size)
        self._refresh()


def _nodes_of(sizing: Sizing) -> int:
    return len({replica.node for replica in sizing.replicas})
