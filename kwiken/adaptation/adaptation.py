"""Adaptation of a placement to load, latencies and lost nodes: a state machine over the placer's own model.

Order of measures, the most conservative first (Quasar section 3.8): 1. larger replicas where they stand, with
best-effort work there evicted if needed; 2. more replicas; 3. a replica moves to a better node. What is still
missing then is said as a shortage.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from kwiken.adaptation.actions import Action, Resize, Revision, Shortage, Start, Stop
from kwiken.adaptation.drift import Drift
from kwiken.adaptation.retries import Retries
from kwiken.adaptation.watch import Need, Observation, Watch
from kwiken.placement import (
    Cluster,
    Draw,
    DrawKind,
    NodeLedger,
    Placement,
    Replica,
    Request,
    Scheduler,
    Sizing,
)
from kwiken.placement import resume as resume_placement

GROWTH: Final = 1.15  # need of a workload that misses its target, as a factor of what it was given
MAX_FACTOR: Final = 8.0  # of need over the predicted one; beyond it the prediction is wrong in kind
ROOM_FOR_LOAD: Final = 1.1  # factor over a load that is higher than the target's
SPARE_TO_SHRINK: Final = 1.15  # predicted performance over need before anything is given back
SPARE_LEFT: Final = 1.05  # and after
MIN_GAIN_OF_MOVE: Final = 1.05  # factor of performance
LEAST_OF_STRAGGLER: Final = 0.95  # of the performance before, by prediction, for a straggler to move
AVOID_S: Final = 3600.0  # time for which a straggler does not return to a node that it was moved from


class Adaptation:
    """Replicas of workloads on nodes, kept at their targets. Pure: time is handed in.

    Args:
        requests: workloads, with targets or best effort.
        cluster: nodes.
        placement: replicas at the start; their keys are those of `keys`.
        scheduler: what chooses nodes and sizes.
        service_targets_ms: largest p99 latency of whole services, milliseconds, by name.
    """

    def __init__(
        self,
        requests: Sequence[Request],
        cluster: Cluster,
        placement: Placement,
        scheduler: Scheduler,
        service_targets_ms: Mapping[str, float] | None = None,
    ) -> None:
        self._ledger = NodeLedger(cluster)
        self._scheduler = scheduler
        there = resume_placement(placement, {one.name: one for one in requests}, self._ledger)
        running = {sizing.request.name: sizing for sizing in there}
        ordered = sorted(requests, key=lambda one: (one.workload.best_effort, -one.workload.priority))
        self._sizings = {one.name: running.get(one.name, Sizing(one, self._ledger)) for one in ordered}
        self._stated = {one.name: one for one in requests}  # as the operator stated them
        self._numbers = {name: itertools.count() for name in self._sizings}
        self._keys = {
            name: [self._new_key(name) for _ in sizing.replicas] for name, sizing in self._sizings.items()
        }
        self._watches = {name: Watch(_latency_target(one)) for name, one in self._stated.items()}
        self._drifts = {name: Drift() for name in self._sizings}
        self._factors = dict.fromkeys(self._sizings, 1.0)  # of need over the predicted one
        self._rates = dict.fromkeys(self._sizings, 0.0)
        self._blocks: dict[str, Draw] = {}  # by lost node
        self._short: set[str] = set()  # workloads whose shortage was told
        targets_ms = service_targets_ms or {}
        self._services = {
            one.workload.service: Watch(targets_ms.get(one.workload.service)) for one in requests
        }
        self._slow: dict[tuple[str, str], float] = {}  # moment until which a workload avoids a node
        self._moving: dict[str, tuple[str, Replica]] = {}  # by key of the new replica, the one it replaces
        self._retries = Retries()

    @property
    def keys(self) -> Mapping[str, Sequence[tuple[str, str, float]]]:
        """Key, node and cores of every replica, by workload."""
        return {
            name: [
                (key, self._node(replica), self._cores(sizing, replica))
                for key, replica in zip(self._keys[name], sizing.replicas, strict=True)
            ]
            for name, sizing in self._sizings.items()
        }

    @property
    def lost(self) -> list[str]:
        """Nodes that are not used because they were lost."""
        return list(self._blocks)

    def performance(self, workload: str) -> tuple[float, float]:
        """Predicted performance of a workload, and the one that it needs at present, work per second."""
        forecast = self._sizings[workload].forecast()
        return forecast.performance, forecast.needed

    def observe(self, now_s: float, seen: Mapping[str, Observation]) -> list[Action]:
        """Take account of a window of measurements.

        Args:
            now_s: moment on a monotonic clock, seconds.
            seen: measurements by workload; workloads without one are left as they are.

        Returns:
            Actions, in order.
        """
        self._moving.clear()  # moves of earlier windows have been carried out
        actions = self._retried(now_s)
        for name, sizing in self._sizings.items():
            if name not in seen or sizing.request.workload.best_effort:
                continue
            watch, one = self._watches[name], seen[name]
            if self._drifted(name, one):
                actions += self._revise(name, now_s, one)
            need = watch.observe(now_s, one)
            if need is not Need.NOTHING:
                self._rates[name] = one.rate_per_s
            if need is Need.MORE:
                actions += self._more(name, now_s, one)
            elif (slow := watch.straggler(now_s, one, self._expected(name))) is not None:
                actions += self._replace(name, slow, now_s)
            elif need is Need.LESS:
                actions += self._less(name, now_s)
        return actions

    def observe_service(
        self, service: str, now_s: float, whole: Observation, stages: Mapping[str, Observation]
    ) -> list[Action]:
        """Take account of a window of a whole service: the stage with the least room gets more if it misses.

        Call it after `observe` for the same window. While a stage's change takes effect, the service waits.

        Args:
            service: name of the service.
            now_s: moment on a monotonic clock, seconds.
            whole: measurements of whole requests.
            stages: measurements of its stages, by workload.
        """
        watch = self._services[service]
        if watch.observe(now_s, whole) is not Need.MORE:
            return []
        if any(self._watches[name].waits(now_s) for name in stages):
            return []
        tightest = self._tightest(stages)
        if tightest is None:
            return []
        watch.grew(now_s)
        reason = f"service {service}: {watch.missed(whole)}, and this stage has the least room"
        return self._more(tightest, now_s, stages[tightest], reason)

    def _tightest(self, stages: Mapping[str, Observation]) -> str | None:
        """Workload with the least predicted room over its load; None for none with load."""
        room = {
            name: self._sizings[name].forecast().performance / one.rate_per_s
            for name, one in stages.items()
            if one.rate_per_s > 0 and not self._sizings[name].request.workload.best_effort
        }
        return min(room, key=lambda name: room[name], default=None)

    def nodes_lost(self, nodes: Sequence[str], now_s: float) -> list[Action]:
        """Place the replicas of lost nodes elsewhere; nothing is placed on a lost node until it is back.

        Args:
            nodes: names of nodes that were lost together, so that none of them is taken for another one.
            now_s: moment on a monotonic clock, seconds.

        Returns:
            Actions, in order; the replicas of the nodes are gone already.
        """
        lost = {self._ledger.cluster.index_of[node] for node in nodes}
        touched = []
        for name, sizing in self._sizings.items():
            for place in reversed(range(len(sizing.replicas))):
                if sizing.replicas[place].node in lost:
                    sizing.remove(place)
                    self._keys[name].pop(place)
                    touched.append(name)
        for node in nodes:
            self._block(node)
        actions: list[Action] = []
        reason = f"node {nodes[0]} was lost" if len(nodes) == 1 else f"nodes {', '.join(nodes)} were lost"
        for name in dict.fromkeys(touched):
            self._short.discard(name)
            if not self._sizings[name].request.workload.best_effort:
                actions += self._fit(name, reason)
                self._watches[name].changed(now_s)
        return actions + self._fill(reason) if touched else actions

    def node_back(self, node: str) -> list[Action]:
        """Use a node again: for workloads that are short, and for best-effort work.

        Args:
            node: name of the node; nothing happens unless it was lost.
        """
        if node not in self._blocks:
            return []
        self._ledger.release(self._blocks.pop(node))
        actions: list[Action] = []
        for name, sizing in self._sizings.items():
            if not sizing.request.workload.best_effort and not sizing.forecast().met:
                actions += self._fit(name, f"node {node} is back")
        return actions + self._fill(f"node {node} is back")

    def start_failed(self, workload: str, key: str, now_s: float) -> list[Action]:
        """Take note that a replica could not be started: a later `observe` places it anew.

        Args:
            workload: name of the workload.
            key: key of the replica; nothing happens if the replica was given up meanwhile.
            now_s: moment on a monotonic clock, seconds.

        Returns:
            Actions: the replica that was to be replaced has to stop where its room was given away meanwhile.
        """
        if key not in self._keys[workload]:
            return []
        place = self._keys[workload].index(key)
        self._keys[workload].pop(place)
        gone = self._sizings[workload].remove(place)
        if not self._sizings[workload].request.workload.best_effort:
            self._retries.failed(workload, self._node(gone), now_s)
        old_key, old = self._moving.pop(key, (key, gone))
        # The other replicas that were to replace the same one do not put it back again.
        self._moving = {new: pair for new, pair in self._moving.items() if pair[0] != old_key}
        if old_key == key or self._put_back(workload, old_key, old):
            return []
        reason = f"its room was given away while {key} was to take its place"
        return [Stop(workload=workload, key=old_key, node=self._node(old), reason=reason)]

    # Measures

    def _drifted(self, name: str, seen: Observation) -> bool:
        """Whether the work of requests has changed by more than the headroom is for."""
        sizing = self._sizings[name]
        cluster = self._ledger.cluster
        classes = {cluster.nodes[replica.node].node_class for replica in sizing.replicas}
        covered = math.log1p(sizing.request.caution.headroom(sizing.forecast().deviation))
        return self._drifts[name].observe(seen.work_ms, seen.requests, classes, covered)

    def _revise(self, name: str, now_s: float, seen: Observation) -> list[Action]:
        """Correct the prediction, and give the workload at once what it needs by it, before it misses."""
        sizing, drift = self._sizings[name], self._drifts[name]
        before = sizing.forecast().performance
        self._rates[name] = seen.rate_per_s
        self._require(name, self._stated[name])
        change = sizing.forecast().performance / before if before else 1.0
        # What the correction explains is not to be asked for twice.
        self._factors[name] = max(1.0, self._factors[name] * min(1.0, change))
        self._require(name, self._stated[name])
        was_ms, is_ms = drift.work_ms
        reason = (
            f"a request takes {is_ms:.3g} ms of processor time and took {was_ms:.3g} ms, so "
            f"{drift.belief:.0%} of the predicted performance are believed"
        )
        actions: list[Action] = [Revision(workload=name, reason=reason)]
        if not sizing.forecast().met and (found := self._fit(name, reason)):
            actions += found
            self._watches[name].grew(now_s)
        return actions

    def _more(self, name: str, now_s: float, seen: Observation, reason: str | None = None) -> list[Action]:
        stated, sizing = self._stated[name], self._sizings[name]
        if reason is None:
            reason = f"{self._watches[name].missed(seen)} at {seen.rate_per_s:.3g} requests/s"
        self._rates[name] = seen.rate_per_s
        before = self._factors[name]
        if seen.rate_per_s <= sizing.request.required:  # the load is as foreseen, so the prediction was not
            self._factors[name] = 1.0
            self._require(name, stated)
            forecast = sizing.forecast()
            given = forecast.performance / forecast.needed
            self._factors[name] = min(MAX_FACTOR, GROWTH * max(before, given))
        self._require(name, stated)
        actions = self._fit(name, reason)
        if not sizing.forecast().met:  # a need that cannot be met does not pile up
            self._factors[name] = before
            self._require(name, stated)
        self._watches[name].grew(now_s)
        return actions

    def _less(self, name: str, now_s: float) -> list[Action]:
        """Give back one replica, or one size, if the target stays met with room."""
        stated, sizing = self._stated[name], self._sizings[name]
        self._factors[name] = max(1.0, self._factors[name] / GROWTH)
        self._require(name, stated)
        forecast = sizing.forecast()
        spare = forecast.performance >= SPARE_TO_SHRINK * forecast.needed
        action = self._give_back(name) if spare else None
        if action is None:
            self._watches[name].changed(now_s)
            return []
        self._watches[name].shrank(now_s)
        return [action, *self._fill("there is room again")]

    def _give_back(self, name: str) -> Action | None:
        sizing = self._sizings[name]
        reason = f"its p99 has been well below {self._watches[name].target_ms:.3g} ms"
        for place in reversed(range(len(sizing.replicas))):
            kept = sizing.supposed(place, None)
            if len(sizing.replicas) > 1 and kept.performance >= SPARE_LEFT * kept.needed:
                gone = sizing.remove(place)
                key = self._keys[name].pop(place)
                return Stop(workload=name, key=key, node=self._node(gone), reason=reason)
        sizes = [replica.size for replica in sizing.replicas]
        for place in reversed(range(len(sizes))):
            for size in range(sizes[place]):
                kept = sizing.supposed(place, size)
                cheaper = sizing.request.cores[size] < sizing.request.cores[sizes[place]]
                if cheaper and kept.performance >= SPARE_LEFT * kept.needed:
                    sizing.resize(place, size)
                    return self._resized(name, place, reason)
        return None

    def _retried(self, now_s: float) -> list[Action]:
        """Place replicas anew that could not be started, on other nodes where there are any."""
        actions: list[Action] = []
        for name, node in self._retries.due(now_s):
            if self._sizings[name].forecast().met:  # later starts went well, or there is no need any more
                self._retries.done(name)
                continue
            reason = f"a replica could not be started on {node}"
            with self._blocked(node):
                actions += self._grow(name, reason)
            actions += self._fit(name, reason)
            self._watches[name].changed(now_s)
        return actions

    def _fit(self, name: str, reason: str) -> list[Action]:
        """Give a workload what it needs, and say what is missing after that."""
        sizing = self._sizings[name]
        actions = [] if sizing.forecast().met else self._grow(name, reason)
        after = sizing.forecast()
        if after.met:
            self._short.discard(name)
        elif name not in self._short or actions:
            self._short.add(name)
            actions.append(
                Shortage(
                    workload=name,
                    reason=f"{reason}; {after.needed:.4g}/s are needed, and the nodes can give "
                    f"{after.performance:.4g}/s",
                )
            )
        return actions

    def _grow(self, name: str, reason: str) -> list[Action]:
        """Give a workload more: up, then out, then by moves; best-effort work makes room."""
        sizing = self._sizings[name]
        actions = self._up(name, reason) if sizing.replicas else []
        if not sizing.forecast().met:
            actions += self._out(name, reason)
        if not sizing.forecast().met and sizing.replicas:
            actions += self._move_worst(name, reason)
        return actions

    def _up(self, name: str, reason: str) -> list[Action]:
        """Larger replicas where they stand, the greatest gain for its cores first."""
        sizing, request = self._sizings[name], self._sizings[name].request
        resized: dict[int, None] = {}
        evicted: list[Action] = []
        while not (best := sizing.forecast()).met:
            choices = []
            for place, replica in enumerate(sizing.replicas):
                for size in range(replica.size + 1, len(request.cores)):
                    more = float(request.all_cores[size] - request.all_cores[replica.size])
                    memory = float(request.memory_gb[size] - request.memory_gb[replica.size])
                    if more <= 0 or not self._could_fit(replica.node, more, memory):
                        continue
                    grown = sizing.supposed(place, size)
                    gain = min(grown.performance, grown.needed) - best.performance
                    if gain > 0:
                        choices.append((gain / more, place, size, more, memory))
            if not choices:
                break
            _, place, size, more, memory = max(choices)
            evicted += self._evict_from(sizing.replicas[place].node, more, memory, name)
            sizing.resize(place, size)
            resized[place] = None
        return [*evicted, *(self._resized(name, place, reason) for place in resized)]

    def _out(self, name: str, reason: str) -> list[Action]:
        """More replicas; first beside best-effort work, then in its place."""
        sizing = self._sizings[name]
        kept = len(sizing.replicas)
        self._scheduler.place(sizing)
        aside: list[tuple[str, str, Replica]] = []
        while not sizing.forecast().met and (victim := self._victim()) is not None:
            filler, place = victim
            aside.append((filler, self._keys[filler].pop(place), self._sizings[filler].remove(place)))
            sizing.clear(kept)
            self._scheduler.place(sizing)
        evicted = [
            Stop(workload=filler, key=key, node=self._node(replica), reason=f"makes room for {name}")
            for filler, key, replica in reversed(aside)
            if not self._put_back(filler, key, replica)
        ]
        return [*evicted, *self._started(name, kept, reason)]

    def _move_worst(self, name: str, reason: str) -> list[Action]:
        sizing = self._sizings[name]
        worst = min(range(len(sizing.replicas)), key=sizing.rate)
        return self._move(name, worst, reason, MIN_GAIN_OF_MOVE)

    def _replace(self, name: str, key: str, now_s: float) -> list[Action]:
        """Move a straggling replica to another node, if there is one that is as good by prediction."""
        place = self._keys[name].index(key)
        node = self._node(self._sizings[name].replicas[place])
        self._slow = {pair: until_s for pair, until_s in self._slow.items() if until_s > now_s}
        avoided = [there for workload, there in self._slow if workload == name]
        reason = "it is much slower than the other replicas"
        if actions := self._move(name, place, reason, LEAST_OF_STRAGGLER, avoided):
            self._slow[name, node] = now_s + AVOID_S
            self._watches[name].changed(now_s)
        else:
            self._watches[name].stays()
        return actions

    def _move(
        self, name: str, place: int, reason: str, least: float, avoided: Iterable[str] = ()
    ) -> list[Action]:
        """Move a replica to another node if performance changes by at least a factor; else leave all."""
        sizing = self._sizings[name]
        before = sizing.forecast().performance
        key = self._keys[name].pop(place)
        gone = sizing.remove(place)
        node = self._node(gone)
        kept = len(sizing.replicas)
        with self._blocked(node, *avoided):
            self._scheduler.place(sizing)
        if len(sizing.replicas) > kept and sizing.forecast().performance >= least * before:
            started = self._started(name, kept, reason)
            new = tuple(action.key for action in started)
            self._moving |= dict.fromkeys(new, (key, gone))
            stop = Stop(workload=name, key=key, node=node, reason=f"moved: {reason}", after=new)
            return [*started, stop]
        sizing.clear(kept)
        sizing.add(gone.node, gone.size)
        self._keys[name].append(key)
        return []

    def _fill(self, reason: str) -> list[Action]:
        """Start best-effort work where there is room."""
        actions: list[Action] = []
        for name, sizing in self._sizings.items():
            if sizing.request.workload.best_effort:
                kept = len(sizing.replicas)
                self._scheduler.place(sizing)
                actions += self._started(name, kept, reason)
        return actions

    # Bookkeeping

    def _require(self, name: str, stated: Request) -> None:
        load = self._rates[name]
        base = max(stated.required, ROOM_FOR_LOAD * load if load > stated.required else 0.0)
        belief = self._drifts[name].belief
        needed = dataclasses.replace(
            stated,
            required=base * self._factors[name],
            base=stated.base * belief,
            rate=stated.rate * belief,
        )
        self._sizings[name].renew(needed)

    def _expected(self, name: str) -> dict[str, tuple[float, float]]:
        """Predicted rate of each replica, and performance of its class of node, by key."""
        sizing = self._sizings[name]
        class_of, factor = self._ledger.cluster.class_of, sizing.request.class_factor
        return {
            key: (sizing.rate(place), float(factor[class_of[replica.node]]))
            for place, (key, replica) in enumerate(zip(self._keys[name], sizing.replicas, strict=True))
        }

    def _started(self, name: str, kept: int, reason: str) -> list[Start]:
        sizing = self._sizings[name]
        actions: list[Start] = []
        for replica in sizing.replicas[kept:]:
            key = self._new_key(name)
            self._keys[name].append(key)
            cores = self._cores(sizing, replica)
            actions.append(
                Start(workload=name, key=key, node=self._node(replica), cores=cores, reason=reason)
            )
        return actions

    def _resized(self, name: str, place: int, reason: str) -> Resize:
        sizing = self._sizings[name]
        replica = sizing.replicas[place]
        return Resize(
            workload=name,
            key=self._keys[name][place],
            node=self._node(replica),
            cores=self._cores(sizing, replica),
            reason=reason,
        )

    def _could_fit(self, node: int, cores: float, memory_gb: float) -> bool:
        """Whether a node has the room, or would without best-effort work."""
        for sizing in self._sizings.values():
            if sizing.request.workload.best_effort:
                for replica in sizing.replicas:
                    if replica.node == node:
                        cores -= float(sizing.request.all_cores[replica.size])
                        memory_gb -= float(sizing.request.memory_gb[replica.size])
        return self._ledger.fits(node, cores, memory_gb)

    def _evict_from(self, node: int, cores: float, memory_gb: float, by: str) -> list[Action]:
        actions: list[Action] = []
        while not self._ledger.fits(node, cores, memory_gb):
            victim = self._victim(node)
            assert victim is not None, "the caller has checked that eviction makes the room"
            name, place = victim
            self._sizings[name].remove(place)
            key = self._keys[name].pop(place)
            where = self._ledger.cluster.nodes[node].name
            actions.append(Stop(workload=name, key=key, node=where, reason=f"makes room for {by}"))
        return actions

    def _victim(self, node: int | None = None) -> tuple[str, int] | None:
        """Replica of best-effort work to evict next: of the lowest priority, then the youngest."""
        found = [
            (sizing.request.workload.priority, -place, name)
            for name, sizing in self._sizings.items()
            if sizing.request.workload.best_effort
            for place, replica in enumerate(sizing.replicas)
            if node is None or replica.node == node
        ]
        if not found:
            return None
        _, place, name = min(found)
        return name, -place

    def _put_back(self, name: str, key: str, replica: Replica) -> bool:
        sizing, request = self._sizings[name], self._sizings[name].request
        cores, memory_gb = float(request.all_cores[replica.size]), float(request.memory_gb[replica.size])
        room = self._ledger.fits(replica.node, cores, memory_gb)
        if not (room and self._ledger.bears(replica.node, request.all_caused)):
            return False
        sizing.add(replica.node, replica.size)
        self._keys[name].append(key)
        return True

    @contextlib.contextmanager
    def _blocked(self, *nodes: str) -> Iterator[None]:
        """Place nothing on some nodes for a moment."""
        blocked = [node for node in dict.fromkeys(nodes) if node not in self._blocks]
        for node in blocked:
            self._block(node)
        yield
        for node in blocked:
            self._ledger.release(self._blocks.pop(node))

    def _block(self, node: str) -> None:
        """Draw all that is free on a node, so that nothing is placed on it, again if it is blocked."""
        if node in self._blocks:
            self._ledger.release(self._blocks.pop(node))
        index, ledger = self._ledger.cluster.index_of[node], self._ledger
        draw = Draw(
            DrawKind.REPLICA,
            f"lost node {node}",
            index,
            float(ledger.free_cores[index]),
            float(ledger.free_memory_gb[index]),
            0.0 * ledger.pressure[:, index],
        )
        ledger.take(draw)
        self._blocks[node] = draw

    def _new_key(self, name: str) -> str:
        return f"{name}-{next(self._numbers[name])}"

    def _node(self, replica: Replica) -> str:
        return self._ledger.cluster.nodes[replica.node].name

    def _cores(self, sizing: Sizing, replica: Replica) -> float:
        return float(sizing.request.all_cores[replica.size])


def _latency_target(request: Request) -> float | None:
    target = request.workload.target
    return target.p99_ms if target is not None else None
