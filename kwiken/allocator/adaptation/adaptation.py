"""Adaptation of a placement to load, latencies and lost nodes: a state machine over the placer's own model.

It decides when a workload needs more or less. What the workload then gets is decided in `measures`, and where
the replicas of a lost node go in `lost_nodes`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kwiken.allocator.adaptation.actions import Action, Revision
from kwiken.allocator.adaptation.drift import WorkDrift
from kwiken.allocator.adaptation.job_room import JobRoom
from kwiken.allocator.adaptation.live_repacking import LiveRepacking, LiveRepackSettings
from kwiken.allocator.adaptation.measures import Measures
from kwiken.allocator.adaptation.replicas import Replicas
from kwiken.allocator.adaptation.watch import Need, Observation, WorkloadWatch
from kwiken.allocator.placement.order import Scheduler
from kwiken.allocator.placement.request import PlacementRequest
from kwiken.model.nodes.nodes import Cluster
from kwiken.model.nodes.placement import Placement

GROWTH: Final = 1.15  # need of a workload that misses its target, as a factor of what it was given
MAX_FACTOR: Final = 8.0  # of need over the predicted one; beyond it the prediction is wrong in kind
ROOM_FOR_LOAD: Final = 1.1  # factor over a load that is higher than the target's
SPARE_TO_SHRINK: Final = 1.15  # predicted performance over need before anything is given back
AVOID_S: Final = 3600.0  # time for which a straggler does not return to a node that it was moved from
FIRST_WAIT_S: Final = 20.0
MAX_WAIT_S: Final = 600.0


@dataclass(frozen=True, slots=True)
class _Retry:
    at_s: float
    wait_s: float
    node: str


@dataclass(slots=True)
class Retries:
    """Pauses before starts are tried again, each twice as long as the one before."""

    _of: dict[str, _Retry] = field(default_factory=dict)  # by workload

    def failed(self, workload: str, node: str, now_s: float) -> None:
        """Record that a replica could not be started.

        Args:
            now_s: moment on a monotonic clock, seconds.
        """
        wait_s = self._of[workload].wait_s if workload in self._of else FIRST_WAIT_S
        self._of[workload] = _Retry(now_s + wait_s, wait_s, node)

    def due(self, now_s: float) -> list[tuple[str, str]]:
        """Workloads whose pause is over, with the node that failed them; the next pause of each begins.

        Args:
            now_s: moment on a monotonic clock, seconds.
        """
        due = [(name, retry.node) for name, retry in self._of.items() if now_s >= retry.at_s]
        for name, node in due:
            wait_s = min(MAX_WAIT_S, 2 * self._of[name].wait_s)
            self._of[name] = _Retry(now_s + wait_s, wait_s, node)
        return due

    def done(self, workload: str) -> None:
        """Record that a workload has what it needs."""
        del self._of[workload]


class LostNodes:
    """Nodes that are not used because they were lost.

    Args:
        replicas: replicas of all workloads, which are changed.
        measures: how a workload gets what it needs.
    """

    def __init__(self, replicas: Replicas, measures: Measures) -> None:
        self._replicas = replicas
        self._measures = measures

    @property
    def names(self) -> list[str]:
        """Names of the nodes."""
        return self._replicas.blocked_nodes

    def lose(self, nodes: Sequence[str]) -> tuple[list[Action], list[str]]:
        """Place the replicas of lost nodes elsewhere; nothing is placed on a lost node until it is back.

        Workloads with targets are served first, by falling priority: each gets what it needs, be it by larger
        replicas where others stand, by new replicas, or in place of best-effort work. Best-effort work that
        stood on the nodes is started again where there is room left.

        Args:
            nodes: names of nodes that were lost together, so that none of them is taken for another one.

        Returns:
            Actions, in order; and the workloads with targets that have lost replicas.
        """
        gone = self._removed(nodes)
        for node in nodes:
            self._replicas.block(node)
        if not gone:
            return [], []
        reason = f"node {nodes[0]} was lost" if len(nodes) == 1 else f"nodes {', '.join(nodes)} were lost"
        targeted = [name for name in gone if not self._replicas.is_best_effort(name)]
        actions: list[Action] = []
        for name in targeted:
            actions += self._measures.fit(name, reason, tell_again=True)
        return actions + self._measures.fill(reason), targeted

    def back(self, node: str) -> list[Action]:
        """Use a node again: for workloads that are short, and for best-effort work.

        Args:
            node: name of the node; nothing happens unless it was lost.
        """
        if node not in self.names:
            return []
        self._replicas.unblock(node)
        reason = f"node {node} is back"
        actions: list[Action] = []
        for name in self._replicas.sizings:
            actions += self._measures.fit(name, reason)  # nothing for best-effort work, which needs nothing
        return actions + self._measures.fill(reason)

    def _removed(self, nodes: Sequence[str]) -> list[str]:
        """Remove the replicas that stand on nodes; returns the workloads that they were of."""
        lost = {self._replicas.ledger.cluster.index_of[node] for node in nodes}
        touched = []
        for name, sizing in self._replicas.sizings.items():
            for place in reversed(range(len(sizing.replicas))):
                if sizing.replicas[place].node in lost:
                    self._replicas.remove(name, place)
                    touched.append(name)
        return list(dict.fromkeys(touched))


class Adaptation:
    """Replicas of workloads on nodes, kept at their targets. Pure: time is handed in.

    Args:
        requests: workloads, with targets or best effort.
        placement: replicas at the start; their keys are those of `keys`.
        service_targets_ms: largest p99 latency of whole services, milliseconds, by name.

    Attributes:
        replicas: replicas of all workloads and the resources that they draw.
        measures: what gives a workload more or less, at once.
    """

    def __init__(
        self,
        requests: Sequence[PlacementRequest],
        cluster: Cluster,
        placement: Placement,
        scheduler: Scheduler,
        service_targets_ms: Mapping[str, float] | None = None,
    ) -> None:
        self.replicas = Replicas(requests, cluster, placement)
        self.measures = Measures(self.replicas, scheduler)
        self._lost_nodes = LostNodes(self.replicas, self.measures)
        self._stated = {one.name: one for one in requests}  # as the operator stated them
        self._watches = {name: WorkloadWatch(_latency_target(one)) for name, one in self._stated.items()}
        self._drifts = {name: WorkDrift() for name in self.replicas.sizings}
        self._factors = dict.fromkeys(self.replicas.sizings, 1.0)  # of need over the predicted one
        self._rates = dict.fromkeys(self.replicas.sizings, 0.0)
        targets_ms = service_targets_ms or {}
        self._services = {
            one.workload.service: WorkloadWatch(targets_ms.get(one.workload.service)) for one in requests
        }
        self._slow: dict[tuple[str, str], float] = {}  # moment until which a workload avoids a node
        self._retries = Retries()

    @property
    def keys(self) -> Mapping[str, Sequence[tuple[str, str, float]]]:
        """Key, node and cores of every replica, by workload."""
        return self.replicas.places()

    @property
    def learned(self) -> dict[str, float]:
        """Factor of each workload's need over the predicted one, 1 or more, as measurements taught it."""
        return dict(self._factors)

    def resume(self, learned: Mapping[str, float], others: Mapping[str, float]) -> None:
        """Continue after a restart.

        Args:
            learned: factor of need by workload, as `learned` gave it; one that is missing is 1.
            others: number of cores by node that are no workload's here.
        """
        for name, factor in learned.items():
            self._factors[name] = min(MAX_FACTOR, max(1.0, factor))
            self._require(name, self._stated[name])
        ledger = self.replicas.ledger
        for node, cores in others.items():
            ledger.occupy(ledger.cluster.index_of[node], cores)

    def job_room(self, speeds: Mapping[str, float]) -> JobRoom:
        """Room that jobs may draw beside the replicas.

        Args:
            speeds: speed of each node as a share of the fastest one's, above 0 and at most 1, by name.
        """
        return JobRoom(self.replicas, speeds)

    def repacking(self, settings: LiveRepackSettings, now_s: float) -> LiveRepacking:
        """What repacks these replicas by what they use.

        Args:
            now_s: moment at which the first period begins, on a monotonic clock, seconds.
        """

        def service_misses(workload: str) -> bool:
            return self._services[self._stated[workload].workload.service].slow

        return LiveRepacking(
            self.replicas,
            self.measures,
            self._watches,
            settings,
            service_misses=service_misses,
            now_s=now_s,
        )

    @property
    def targets_ms(self) -> dict[str, tuple[float | None, dict[str, float]]]:
        """Largest p99 latency of each service, and those of its stages by workload, milliseconds."""
        found: dict[str, tuple[float | None, dict[str, float]]] = {
            name: (watch.target_ms, {}) for name, watch in self._services.items()
        }
        for name, watch in self._watches.items():
            if watch.target_ms is not None:
                found[self._stated[name].workload.service][1][name] = watch.target_ms
        return found

    @property
    def lost(self) -> list[str]:
        """Nodes that are not used because they were lost."""
        return self._lost_nodes.names

    def prefer_to_empty(self, saved_per_hour: Mapping[str, float]) -> None:
        """Give back replicas on some nodes before those on others.

        Args:
            saved_per_hour: money that an empty node saves, by name; nodes that save most come first.
        """
        self.measures.saved_per_hour = saved_per_hour

    def performance(self, workload: str) -> tuple[float, float]:
        """Predicted performance of a workload, and the one that it needs at present, work per second."""
        forecast = self.replicas.sizings[workload].forecast()
        return forecast.performance, forecast.needed

    def missing_cores(self) -> dict[str, float]:
        """Number of cores that workloads with targets lack, by workload; those with enough are left out."""
        missing = {}
        for name, sizing in self.replicas.sizings.items():
            forecast = sizing.forecast()
            if sizing.request.workload.best_effort or forecast.met:
                continue
            drawn = sum(cores for _, _, cores in self.keys[name])
            least = float(sizing.request.all_cores.min())
            lacking = forecast.needed / forecast.performance - 1 if forecast.performance > 0 else 1.0
            missing[name] = max(least, drawn * lacking)
        return missing

    def on_new_nodes(self) -> dict[str, list[tuple[str, float]]]:
        """Class of node and cores of the replicas that workloads lack, if nodes were added; by workload."""
        return {name: self.measures.on_new_nodes(name) for name in self.replicas.sizings}

    def stands(self, workload: str, key: str, node: str) -> None:
        """Take note that a replica stands on another node than it was placed on.

        Args:
            key: key of the replica.
            node: name of a node of the cluster.
        """
        self.replicas.moved(workload, key, node)

    def prepare(self, now_s: float, rates_per_s: Mapping[str, float]) -> list[Action]:
        """Give workloads what loads that are to come need, before they miss their targets.

        Args:
            now_s: moment on a monotonic clock, seconds.
            rates_per_s: load to come, requests per second by workload; one within the target's is left out.
        """
        actions: list[Action] = []
        for name, rate_per_s in rates_per_s.items():
            if rate_per_s <= max(self._rates[name], self._stated[name].required):
                continue
            self._rates[name] = rate_per_s
            self._require(name, self._stated[name])
            found = self.measures.fit(name, f"the load rises to {rate_per_s:.3g} requests/s")
            if found:
                self._watches[name].grew(now_s)
            actions += found
        return actions

    def observe(self, now_s: float, seen: Mapping[str, Observation]) -> list[Action]:
        """Take account of a window of measurements.

        Args:
            now_s: moment on a monotonic clock, seconds.
            seen: measurements by workload; workloads without one are left as they are.

        Returns:
            Actions, in order.
        """
        self.measures.moves_are_done()  # those of earlier windows
        actions = self._retried(now_s)
        for name, sizing in self.replicas.sizings.items():
            if name not in seen or sizing.request.workload.best_effort:
                continue
            watch, one = self._watches[name], seen[name]
            if self._drifted(name, one):
                actions += self._revise(name, now_s, one)
            need = watch.observe(now_s, one)
            if need is Need.MORE:
                actions += self._more(name, now_s, one)
            elif (slow := watch.straggler(now_s, one, self.replicas.expected(name))) is not None:
                actions += self._replace(name, slow, now_s)
            elif need is Need.LESS:
                actions += self._less(name, now_s, one)
        return actions

    def observe_service(
        self, service: str, now_s: float, whole: Observation, stages: Mapping[str, Observation]
    ) -> list[Action]:
        """Take account of a window of a whole service: the stage with the least room gets more if it misses.

        Call it after `observe` for the same window. While a stage's change takes effect, the service waits.

        Args:
            now_s: moment on a monotonic clock, seconds.
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
            name: self.replicas.sizings[name].forecast().performance / one.rate_per_s
            for name, one in stages.items()
            if one.rate_per_s > 0 and not self.replicas.sizings[name].request.workload.best_effort
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
        actions, touched = self._lost_nodes.lose(nodes)
        for name in touched:
            self._watches[name].changed(now_s)
        return actions

    def node_back(self, node: str) -> list[Action]:
        """Use a node again: for workloads that are short, and for best-effort work.

        Args:
            node: name of the node; nothing happens unless it was lost.
        """
        return self._lost_nodes.back(node)

    def start_failed(self, workload: str, key: str, now_s: float) -> list[Action]:
        """Take note that a replica could not be started: a later `observe` places it anew.

        Args:
            key: key of the replica; nothing happens if the replica was given up meanwhile.
            now_s: moment on a monotonic clock, seconds.

        Returns:
            Actions: the replica that was to be replaced has to stop where its room was given away meanwhile.
        """
        if not self.replicas.has(workload, key):
            return []
        gone, actions = self.measures.start_failed(workload, key)
        if not self.replicas.is_best_effort(workload):
            self._retries.failed(workload, self.replicas.node(gone), now_s)
        return actions

    # What a window says of one workload

    def _drifted(self, name: str, seen: Observation) -> bool:
        """Whether the work of requests has changed by more than the headroom is for."""
        sizing = self.replicas.sizings[name]
        cluster = self.replicas.ledger.cluster
        classes = {cluster.nodes[replica.node].node_class for replica in sizing.replicas}
        covered = math.log1p(sizing.request.caution.headroom(sizing.forecast().deviation))
        return self._drifts[name].observe(seen.work_ms, seen.requests, classes, covered)

    def _revise(self, name: str, now_s: float, seen: Observation) -> list[Action]:
        """Correct the prediction, and give the workload at once what it needs by it, before it misses."""
        sizing, drift = self.replicas.sizings[name], self._drifts[name]
        before = sizing.forecast().performance
        self._rates[name] = seen.rate_per_s
        self._require(name, self._stated[name])
        if before:  # what the correction explains is not to be asked for twice
            change = sizing.forecast().performance / before
            self._factors[name] = max(1.0, self._factors[name] * min(1.0, change))
            self._require(name, self._stated[name])
        was_ms, is_ms = drift.work_ms
        reason = (
            f"a request takes {is_ms:.3g} ms of processor time and took {was_ms:.3g} ms, so "
            f"{drift.belief:.0%} of the predicted performance are believed"
        )
        actions: list[Action] = [Revision(workload=name, reason=reason)]
        if not sizing.forecast().met and (found := self.measures.fit(name, reason)):
            actions += found
            self._watches[name].grew(now_s)
        return actions

    def _more(self, name: str, now_s: float, seen: Observation, reason: str | None = None) -> list[Action]:
        stated, sizing = self._stated[name], self.replicas.sizings[name]
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
        actions = self.measures.fit(name, reason)
        if not sizing.forecast().met:  # a need that cannot be met does not pile up
            self._factors[name] = before
            self._require(name, stated)
        self._watches[name].grew(now_s)
        return actions

    def _less(self, name: str, now_s: float, seen: Observation) -> list[Action]:
        """Give back one replica, or one size, if the target stays met with room."""
        stated, sizing = self._stated[name], self.replicas.sizings[name]
        self._rates[name] = seen.rate_per_s
        self._factors[name] = max(1.0, self._factors[name] / GROWTH)
        self._require(name, stated)
        forecast = sizing.forecast()
        action = None
        if forecast.performance >= SPARE_TO_SHRINK * forecast.needed:
            reason = f"its p99 has been well below {self._watches[name].target_ms:.3g} ms"
            action = self.measures.give_back(name, reason)
        if action is None:
            self._watches[name].changed(now_s)
            return []
        self._watches[name].shrank(now_s)
        return [action, *self.measures.fill("there is room again")]

    def _retried(self, now_s: float) -> list[Action]:
        """Place replicas anew that could not be started, on other nodes where there are any."""
        actions: list[Action] = []
        for name, node in self._retries.due(now_s):
            if self.replicas.sizings[name].forecast().met:  # later starts went well, or the need has gone
                self._retries.done(name)
                continue
            reason = f"a replica could not be started on {node}"
            with self.replicas.without(node):
                actions += self.measures.grow(name, reason)
            actions += self.measures.fit(name, reason)
            self._watches[name].changed(now_s)
        return actions

    def _replace(self, name: str, key: str, now_s: float) -> list[Action]:
        """Move a straggling replica to another node, if there is one that is as good by prediction."""
        place = self.replicas.position(name, key)
        node = self.replicas.node(self.replicas.sizings[name].replicas[place])
        self._slow = {pair: until_s for pair, until_s in self._slow.items() if until_s > now_s}
        avoided = [there for workload, there in self._slow if workload == name]
        reason = "it is much slower than the other replicas"
        if actions := self.measures.move_straggler(name, place, reason, avoided):
            self._slow[name, node] = now_s + AVOID_S
            self._watches[name].changed(now_s)
        else:
            self._watches[name].stays()
        return actions

    def _require(self, name: str, stated: PlacementRequest) -> None:
        load = self._rates[name]
        base = ROOM_FOR_LOAD * load if load > stated.required else stated.required
        belief = self._drifts[name].belief
        loaded = stated.at_load(base)
        needed = dataclasses.replace(loaded, required=base * self._factors[name], rate=loaded.rate * belief)
        self.replicas.sizings[name].renew(needed)


def _latency_target(request: PlacementRequest) -> float | None:
    target = request.workload.target
    return target.p99_ms if target is not None else None
