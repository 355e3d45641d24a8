"""Steps for a workload that needs more or less: replicas grow, are added, move, or are given back.

The order is Quasar's (section 3.8): 1. larger replicas where they stand, with best-effort work there evicted
if needed; 2. more replicas; 3. a replica moves to a better node. What is still missing then is said as a
shortage.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import msgspec

from kwiken.allocator.adaptation.actions import Action, Shortage, Stop
from kwiken.allocator.adaptation.replicas import Replicas
from kwiken.allocator.placement.node_ledger import NodeLedger
from kwiken.allocator.placement.order import Scheduler
from kwiken.allocator.placement.sizing import SizedReplica, Sizing
from kwiken.model.nodes.nodes import Cluster, Node

MAX_NEW_NODES: Final = 8  # of a class, for one workload at a time
MIN_LACKING: Final = 0.01  # of the performance needed, where it is short of nodes and of nothing else
MIN_GAIN_OF_EVICTION: Final = 0.05  # of the performance needed, below which nothing is evicted
SPARE_LEFT: Final = 1.05  # predicted performance over need after something was given back
MIN_GAIN_OF_MOVE: Final = 1.05  # factor of performance
MIN_OF_STRAGGLER: Final = 0.95  # of the performance before, by prediction, for a straggler to move


class _Moved(NamedTuple):
    """Replica that another one replaces.

    Attributes:
        by_use: whether its node may be sold beyond its cores to put it back.
    """

    key: str
    replica: SizedReplica
    by_use: bool


class Measures:
    """Changes of replicas towards what workloads need.

    Args:
        replicas: replicas of all workloads, which are changed.
    """

    def __init__(self, replicas: Replicas, scheduler: Scheduler) -> None:
        self._replicas = replicas
        self._sizings = replicas.sizings
        self._scheduler = scheduler
        self.saved_per_hour: Mapping[str, float] = {}  # by the return of a node, by name
        self._short: set[str] = set()  # workloads whose shortage was told
        self._moving: dict[str, _Moved] = {}  # by key of the new replica, the one it replaces

    def fit(self, name: str, reason: str, *, tell_again: bool = False) -> list[Action]:
        """Give a workload what it needs, and say what is missing after that.

        Args:
            tell_again: whether a shortage that was told before is told once more.
        """
        if tell_again:
            self._short.discard(name)
        sizing = self._sizings[name]
        actions = [] if sizing.forecast().met else self.grow(name, reason)
        after = sizing.forecast()
        if after.met:
            self._short.discard(name)
        elif name not in self._short or actions:
            self._short.add(name)
            can = f"the nodes can give {after.performance:.4g}/s"
            if after.performance >= after.needed and not after.enough_nodes:
                can += ", but on too few nodes"
            why = f"{reason}; {after.needed:.4g}/s are needed, and {can}"
            actions.append(Shortage(workload=name, reason=why))
        return actions

    def grow(self, name: str, reason: str) -> list[Action]:
        """Give a workload more: up, then out, then by moves; best-effort work makes room."""
        sizing = self._sizings[name]
        actions = self._up(name, reason)
        if not sizing.forecast().met:
            actions += self._out(name, reason)
        if not sizing.forecast().met and sizing.replicas:
            worst = min(range(len(sizing.replicas)), key=sizing.rate)
            actions += self._move(name, worst, reason, MIN_GAIN_OF_MOVE)
        return actions

    def on_new_nodes(self, name: str) -> list[tuple[str, float]]:
        """Class of node and cores of each replica that a workload lacks, if nodes were added for them.

        The classes are those that the cluster has nodes of.
        """
        sizing, cluster = self._sizings[name], self._replicas.ledger.cluster
        forecast = sizing.forecast()
        if sizing.request.workload.best_effort or forecast.met:
            return []
        here = sorted({node.node_class for node in cluster.nodes})
        nodes = tuple(Node(f"{one}-{at}", one) for one in here for at in range(MAX_NEW_NODES))
        lacking = max(forecast.needed - forecast.performance, MIN_LACKING * forecast.needed)
        more = max(1, sizing.request.workload.min_nodes - len({one.node for one in sizing.replicas}))
        workload = msgspec.structs.replace(sizing.request.workload, min_nodes=more)
        request = dataclasses.replace(sizing.request, required=lacking, workload=workload)
        new = Sizing(request, NodeLedger(Cluster(cluster.classes, nodes)))
        self._scheduler.place(new)
        return [(nodes[one.node].node_class, float(request.all_cores[one.size])) for one in new.replicas]

    def fill(self, reason: str) -> list[Action]:
        """Start best-effort work where there is room."""
        actions: list[Action] = []
        for name, sizing in self._sizings.items():
            if sizing.request.workload.best_effort:
                kept = len(sizing.replicas)
                self._scheduler.place(sizing)
                actions += self._replicas.started(name, kept, reason)
        return actions

    def give_back(self, name: str, reason: str) -> Action | None:
        """Give back one replica, or else one size; None if the target would not stay met with room."""
        sizing = self._sizings[name]
        saved = [self.saved_per_hour.get(self._replicas.node(one), 0.0) for one in sizing.replicas]
        # The latest first, among those on nodes that save as much.
        for place in sorted(range(len(saved)), key=lambda place: (-saved[place], -place)):
            kept = sizing.supposed(place, None)
            if kept.enough_nodes and kept.performance >= SPARE_LEFT * kept.needed:
                key, gone = self._replicas.remove(name, place)
                return Stop(workload=name, key=key, node=self._replicas.node(gone), reason=reason)
        sizes = [replica.size for replica in sizing.replicas]
        for place in reversed(range(len(sizes))):
            for size in range(sizes[place]):
                kept = sizing.supposed(place, size)
                cheaper = sizing.request.cores[size] < sizing.request.cores[sizes[place]]
                if cheaper and kept.performance >= SPARE_LEFT * kept.needed:
                    sizing.resize(place, size)
                    return self._replicas.resized(name, place, reason)
        return None

    def move_straggler(self, name: str, place: int, reason: str, avoided: Iterable[str]) -> list[Action]:
        """Move a replica that is slower than predicted, if another node is as good by prediction.

        Args:
            place: position of the replica among the workload's.
            avoided: names of nodes that the replica must not move to.
        """
        return self._move(name, place, reason, MIN_OF_STRAGGLER, avoided)

    def moves_are_done(self) -> None:
        """Take note that the moves so far have been carried out."""
        self._moving.clear()

    def start_failed(self, name: str, key: str) -> tuple[SizedReplica, list[Action]]:
        """Take out a replica that could not be started; the one that it was to replace goes on if it can.

        Returns:
            The replica that was taken out, and actions: the replaced one stops where its room is gone, or
            starts again if it is best-effort work that was stopped first.
        """
        replicas = self._replicas
        _, gone = replicas.remove(name, replicas.position(name, key))
        old = self._moving.pop(key, None)
        if old is None:
            return gone, []
        # The other replicas that were to replace the same one do not put it back again.
        self._moving = {new: one for new, one in self._moving.items() if one.key != old.key}
        if replicas.put_back(name, old.key, old.replica, oversell=old.by_use):
            # Best-effort work was stopped before its move.
            again = replicas.is_best_effort(name)
            return gone, [
                replicas.started_again(name, old.key, f"{key} could not be started")
            ] if again else []
        reason = f"its room was given away while {key} was to take its place"
        return gone, [Stop(workload=name, key=old.key, node=replicas.node(old.replica), reason=reason)]

    def move_by_use(self, name: str, key: str, node: int, reason: str) -> list[Action]:
        """Move a replica to a node that has room by what is used; the node may be sold beyond its cores.

        A replica with a target runs on the new node before the old one stops. Best-effort work stops first,
        so that the work is never there twice.

        Args:
            key: key of the replica.
            node: index of the node in the ledger.

        Returns:
            Actions; none if memory, contention, anti-affinity or a target forbids the move.
        """
        replicas, sizing = self._replicas, self._sizings[name]
        place = replicas.position(name, key)
        kept = self._met(sizing.replicas[place].node, node)
        _, gone = replicas.remove(name, place)
        source, count = replicas.node(gone), len(sizing.replicas)
        if self._room_by_use(name, gone, node):
            sizing.add(node, gone.size, oversell=True)
            if kept <= self._met(gone.node, node):
                started = replicas.started(name, count, reason)
                new = tuple(action.key for action in started)
                self._moving |= dict.fromkeys(new, _Moved(key, gone, by_use=True))
                if replicas.is_best_effort(name):
                    return [Stop(workload=name, key=key, node=source, reason=f"moved: {reason}"), *started]
                stop = Stop(workload=name, key=key, node=source, reason=f"moved: {reason}", after=new)
                return [*started, stop]
            sizing.clear(count)
        replicas.restore(name, key, gone)
        return []

    def _room_by_use(self, name: str, replica: SizedReplica, node: int) -> bool:
        """Whether memory, contention and anti-affinity let a replica that was removed stand on a node.

        A blocked node has no memory free.
        """
        sizing, ledger = self._sizings[name], self._replicas.ledger
        return (
            bool(sizing.open_nodes()[node])
            and bool(ledger.cluster.cores[node] >= sizing.request.all_cores[replica.size])
            and sizing.suits(node, replica.size, oversell=True)
        )

    def _met(self, *nodes: int) -> set[str]:
        """Workloads whose targets are met by prediction, where neighbours on some nodes have changed."""
        for sizing in self._sizings.values():
            if any(replica.node in nodes for replica in sizing.replicas):
                sizing.refresh()
        return {
            name
            for name, sizing in self._sizings.items()
            if not sizing.request.workload.best_effort and sizing.forecast().met
        }

    def _up(self, name: str, reason: str) -> list[Action]:
        """Larger replicas where they stand, the greatest gain for a core first; a resize gives cores only."""
        sizing, request = self._sizings[name], self._sizings[name].request
        resized: dict[int, None] = {}
        evicted: list[Action] = []
        while not (best := sizing.forecast()).met:
            choices = []
            for place, replica in enumerate(sizing.replicas):
                for size in range(replica.size + 1, len(request.cores)):
                    more = float(request.all_cores[size] - request.all_cores[replica.size])
                    memory = float(request.memory_gb[size] - request.memory_gb[replica.size])
                    if more <= 0 or not self._replicas.could_fit(replica.node, more, memory):
                        continue
                    grown = sizing.supposed(place, size)
                    gain = min(grown.performance, grown.needed) - best.performance
                    evicts = not self._replicas.ledger.fits(replica.node, more, memory)
                    worth = grown.met or gain >= MIN_GAIN_OF_EVICTION * grown.needed
                    if gain > 0 and (worth or not evicts):
                        choices.append((gain / more, place, size, more, memory))
            if not choices:
                break
            _, place, size, more, memory = max(choices)
            evicted += self._replicas.evict_from(sizing.replicas[place].node, more, memory, name)
            sizing.resize(place, size)
            resized[place] = None
        return [*evicted, *(self._replicas.resized(name, place, reason) for place in resized)]

    def _out(self, name: str, reason: str) -> list[Action]:
        """More replicas; first beside best-effort work, then in its place where that wins enough."""
        replicas, sizing = self._replicas, self._sizings[name]
        kept = len(sizing.replicas)
        self._scheduler.place(sizing)
        aside: list[tuple[str, str, SizedReplica]] = []
        worth, before = 0, sizing.forecast()  # as many evictions as win enough, and what there is after them
        while not sizing.forecast().met and (victim := replicas.victim()) is not None:
            filler, place = victim
            aside.append((filler, *replicas.remove(filler, place)))
            sizing.clear(kept)
            self._scheduler.place(sizing)
            now = sizing.forecast()
            if now.met or now.performance - before.performance >= MIN_GAIN_OF_EVICTION * now.needed:
                worth, before = len(aside), now
        if worth < len(aside):  # the last ones win too little
            sizing.clear(kept)
            while len(aside) > worth:
                replicas.restore(*aside.pop())
            self._scheduler.place(sizing)
        evicted = [
            Stop(workload=filler, key=key, node=replicas.node(replica), reason=f"makes room for {name}")
            for filler, key, replica in reversed(aside)
            if not replicas.put_back(filler, key, replica)
        ]
        return [*evicted, *replicas.started(name, kept, reason)]

    def _move(
        self, name: str, place: int, reason: str, least: float, avoided: Iterable[str] = ()
    ) -> list[Action]:
        """Move a replica to another node if performance changes by at least a factor; else leave all."""
        replicas, sizing = self._replicas, self._sizings[name]
        before = sizing.forecast().performance
        key, gone = replicas.remove(name, place)
        node = replicas.node(gone)
        kept = len(sizing.replicas)
        with replicas.without(node, *avoided):
            self._scheduler.place(sizing)
        if len(sizing.replicas) > kept and sizing.forecast().performance >= least * before:
            started = replicas.started(name, kept, reason)
            new = tuple(action.key for action in started)
            self._moving |= dict.fromkeys(new, _Moved(key, gone, by_use=False))
            stop = Stop(workload=name, key=key, node=node, reason=f"moved: {reason}", after=new)
            return [*started, stop]
        sizing.clear(kept)
        replicas.restore(name, key, gone)
        return []
