"""Order of placing: which workload is placed first, which best-effort work makes room, which one waits."""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple, Protocol, runtime_checkable

import numpy as np

from kwiken.allocator.placement.node_ledger import NodeLedger
from kwiken.allocator.placement.request import PlacementRequest
from kwiken.allocator.placement.sizing import Forecast, SizedReplica, Sizing
from kwiken.model.nodes.nodes import Cluster, Node, NodeClass
from kwiken.model.nodes.placement import PlacingStatus

# Of the performance needed, below which a workload waits (section 3.7 step 6).
MIN_SHARE_ACCEPTED: Final = 0.95
MAX_CLASSES_TRIED: Final = 16  # of nodes to add, those that perform most for their cost


class Scheduler(Protocol):
    """Places workloads, one after another.

    Attributes:
        name: name of the scheduler, as in a placement's document.
    """

    @property
    def name(self) -> str:
        """Name of the scheduler."""

    def place(self, sizing: Sizing) -> None:
        """Add replicas to a workload, as close to its target as the scheduler comes.

        Args:
            sizing: replicas so far, with the request and the ledger that replicas are drawn from.
        """

    def satisfied(self, sizing: Sizing) -> bool:
        """Whether a workload has what this scheduler set out to give it."""


class Newcomer(NamedTuple):
    """Workload that was placed just now.

    Attributes:
        kept: number of the replicas that it had before, the oldest ones, which stay where they are.
    """

    sizing: Sizing
    kept: int


@runtime_checkable
class ImprovingScheduler(Protocol):
    """Scheduler that improves the places of several workloads together, after it placed one by one."""

    def improve(self, newcomers: Sequence[Newcomer]) -> None:
        """Lower the cost of workloads with targets; a met target stays met, and what ran before stays."""


@dataclass(eq=False)
class PlacedOrNot:
    """Outcome of one workload.

    Attributes:
        sizing: replicas of the workload; none where it waits.
        nearest: for a workload that waits, what the free nodes could have performed.
        nearest_empty: for a workload that waits, what all nodes could perform if they were empty.
        evicted: replicas of best-effort work that made room for it, with the name of their workload.
    """

    sizing: Sizing
    queued: bool = False
    nearest: Forecast | None = None
    nearest_empty: Forecast | None = None
    evicted: list[tuple[str, SizedReplica]] = field(default_factory=list)

    @property
    def request(self) -> PlacementRequest:
        """Request of the workload."""
        return self.sizing.request

    @property
    def status(self) -> PlacingStatus:
        """What became of the workload, with its neighbours of now."""
        if self.request.workload.best_effort:
            return PlacingStatus.BEST_EFFORT
        if self.queued:
            return PlacingStatus.QUEUED
        return PlacingStatus.MET if self.sizing.forecast().met else PlacingStatus.SHORT


def admit_all(
    requests: Sequence[PlacementRequest],
    ledger: NodeLedger,
    scheduler: Scheduler,
    running: Iterable[Sizing] = (),
) -> list[PlacedOrNot]:
    """Place workloads: by priority, then in the given order, and best-effort work last.

    A workload that has to wait does not hold up those behind it. Best-effort work that runs already makes
    room where a promise needs it.

    Args:
        running: replicas that workloads have on the nodes already; a workload in `requests` keeps them, and
            gets others where they do not meet its target.

    Returns:
        Outcomes in the order of `requests`.
    """
    there = {sizing.request.name: sizing for sizing in running}
    fillers = [sizing for sizing in there.values() if sizing.request.workload.best_effort]
    found: dict[str, PlacedOrNot] = {}
    newcomers: list[Newcomer] = []
    for request in sorted(requests, key=lambda one: -one.workload.priority):
        if not request.workload.best_effort:
            sizing = there.get(request.name) or Sizing(request, ledger)
            if request.keeps_latency:
                newcomers.append(Newcomer(sizing, len(sizing.replicas)))
            found[request.name] = admit(sizing, scheduler, fillers)
    if isinstance(scheduler, ImprovingScheduler):
        scheduler.improve(newcomers)
        for one in found.values():
            one.sizing.refresh()
            one.queued = one.queued and not one.sizing.meets()
    for request in sorted(requests, key=lambda one: -one.workload.priority):
        if request.workload.best_effort:
            sizing = there.get(request.name) or Sizing(request, ledger)
            scheduler.place(sizing)
            found[request.name] = PlacedOrNot(sizing)
    for admission in found.values():
        admission.sizing.refresh()
    return [found[request.name] for request in requests]


def admit(sizing: Sizing, scheduler: Scheduler, fillers: Sequence[Sizing] = ()) -> PlacedOrNot:
    """Place one workload with a target.

    A workload whose latency no replica keeps at any rate waits, whatever the scheduler. Otherwise there are
    four cases: 1. the scheduler finds what it set out for on the free nodes; 2. it does once
    best-effort work makes room; 3. the nearest that can be had is at least 95% of what is needed, and is
    taken; 4. the workload waits, and keeps only the replicas that it had.

    Args:
        sizing: replicas that the workload has already, usually none.
    """
    ledger, kept = sizing.ledger, len(sizing.replicas)
    if not sizing.request.keeps_latency:
        empty = Sizing(sizing.request, NodeLedger(ledger.cluster))
        return PlacedOrNot(sizing, queued=True, nearest=sizing.forecast(), nearest_empty=empty.forecast())
    scheduler.place(sizing)
    best, satisfied = sizing.forecast(), scheduler.satisfied(sizing)
    evicted: list[tuple[str, SizedReplica]] = []
    if not satisfied and any(filler.replicas for filler in fillers):
        sizing.clear(kept)
        aside = [(filler, filler.replicas[:]) for filler in fillers]
        for filler in fillers:
            filler.clear()
        scheduler.place(sizing)
        with_room, satisfied = sizing.forecast(), scheduler.satisfied(sizing)
        if not satisfied and with_room.performance <= best.performance:
            sizing.clear(kept)  # eviction does not help
            _put_back(aside)
            scheduler.place(sizing)
        else:
            best = with_room
            evicted = _put_back(aside)
            sizing.refresh()
    if satisfied or best.performance >= MIN_SHARE_ACCEPTED * best.needed:
        return PlacedOrNot(sizing, evicted=evicted)
    sizing.clear(kept)
    # Room that was made in vain is filled again: eviction must not outlive its reason.
    names = {filler.request.name: filler for filler in fillers}
    for name, replica in evicted:
        _return(names[name], replica)
    empty = Sizing(sizing.request, NodeLedger(ledger.cluster))
    scheduler.place(empty)
    return PlacedOrNot(sizing, queued=True, nearest=best, nearest_empty=empty.forecast())


def _put_back(aside: Sequence[tuple[Sizing, Sequence[SizedReplica]]]) -> list[tuple[str, SizedReplica]]:
    """Put replicas of best-effort work back where they still fit; the others are evicted.

    The highest priority goes back first, and of one priority the oldest.
    """
    lost: list[tuple[str, SizedReplica]] = []
    for filler, replicas in sorted(aside, key=lambda pair: -pair[0].request.workload.priority):
        name = filler.request.name
        lost += [(name, replica) for replica in replicas if not _return(filler, replica)]
    return lost


def _return(filler: Sizing, replica: SizedReplica) -> bool:
    if not filler.suits(replica.node, replica.size):
        return False
    filler.add(replica.node, replica.size)
    return True


@dataclass(frozen=True, slots=True)
class AddedNodes:
    """Nodes that would make room for a workload that waits: the cheapest number of one class.

    Attributes:
        count: least number of nodes of the class with which the scheduler gives what it set out for.
        cost_per_hour: cost of the whole nodes in an hour; without a currency, their number of cores.
    """

    node_class: str
    count: int
    cost_per_hour: float


def nodes_to_add(
    waiting: PlacedOrNot, scheduler: Scheduler, best_effort: Collection[str]
) -> AddedNodes | None:
    """Find nodes that would make room for a workload that waits, by placing it on a ledger that has them.

    All that is placed stays where it is, and best-effort work makes room. The new nodes are empty, and each
    is a zone of its own.

    Args:
        scheduler: one that takes workloads that have replicas already.
        best_effort: names of best-effort workloads.

    Returns:
        The cheapest of the classes; None where no number of nodes of one class is enough.
    """
    request, cluster = waiting.request, waiting.sizing.ledger.cluster
    worth = np.max(request.rate / request.cost, axis=0)
    found = []
    for place in np.argsort(-worth, kind="stable")[:MAX_CLASSES_TRIED].tolist():
        node_class = cluster.classes[place]
        enough = partial(_placed_with, waiting, scheduler, best_effort, node_class)
        # More nodes than replicas are of no use.
        high, most = 1, len(request.efficiencies)
        while not (reached := enough(high)) and high < most:
            high = min(2 * high, most)
        if reached:
            count = bisect_left(range(high), True, high // 2 + 1, key=enough)
            cost = node_class.cores if node_class.cost_per_hour is None else node_class.cost_per_hour
            found.append(AddedNodes(node_class.name, count, count * cost))
    return min(found, key=lambda one: one.cost_per_hour, default=None)


def _placed_with(
    waiting: PlacedOrNot,
    scheduler: Scheduler,
    best_effort: Collection[str],
    node_class: NodeClass,
    count: int,
) -> bool:
    """Whether a workload gets what the scheduler sets out for, with so many nodes more of a class."""
    request, ledger = waiting.request, waiting.sizing.ledger
    cluster = ledger.cluster
    names = (f"new-{number}" for number in itertools.count() if f"new-{number}" not in cluster.index_of)
    more = [Node(name, node_class.name) for name in itertools.islice(names, count)]
    grown = NodeLedger(Cluster(cluster.classes, (*cluster.nodes, *more)))
    for node in range(len(cluster.nodes)):
        for draw in ledger.residents(node):
            if draw.owner != request.name and draw.owner not in best_effort:
                grown.take(draw)
    trial = Sizing(request, grown)
    for replica in waiting.sizing.replicas:
        trial.add(replica.node, replica.size)
    scheduler.place(trial)
    return scheduler.satisfied(trial)
