"""Loop that keeps targets: status of the gateways in, replicas started, resized and stopped."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Final

from kwiken.allocator.adaptation.actions import Action, Resize, Shortage, Start, Stop
from kwiken.allocator.adaptation.adaptation import Adaptation
from kwiken.allocator.adaptation.watch import WINDOW_S, Observation
from kwiken.allocator.provisioning.renting import NodeOrder, NodeReturn
from kwiken.base.errors import InputError, KwikenError
from kwiken.runtime.base.event_loop import cancel_and_wait
from kwiken.runtime.base.log_events import Event, about
from kwiken.runtime.cluster.layout import ReplicaPlace
from kwiken.runtime.node_classes.limit import Limit
from kwiken.upkeep.assignment import Assignment
from kwiken.upkeep.jobs.job_runner import JobRunner
from kwiken.upkeep.node_repacker import NodeRepacker
from kwiken.upkeep.readings import Readings
from kwiken.upkeep.rented_nodes import RentedNodes
from kwiken.upkeep.substrate import Ground, Substrate

LOG = logging.getLogger("kwiken.upkeep")
CHECK_S: Final = 0.05  # interval of checks for lost nodes; a replica takes longer to be started again
FAILED_S: Final = 1.0  # pause after a step that failed
NODE_LOST_S: Final = 60.0  # time for which nothing is placed on a node that was lost
MIN_SHORTAGE: Final = 1e-3  # cores that a workload lacks whose prediction does not say how many


class Upkeep:
    """Keeps the targets of one or several clusters on the same nodes.

    Args:
        adaptation: decides; its replicas at the start are those of the clusters.
        assignment: which replica of a cluster is which one of the adaptation.
        clusters: replicas that run, by the name of their service.
        limits: nodes that all of them stand on.
        say: told each action with its reason, as one line.
        rented: nodes that come and go; None where all nodes are there.
        jobs: batch jobs beside the services; None for none.
        repacker: moves replicas by what they use; None to move them for their targets alone.
        pend: told class of node and cores of the replicas without room, by stage; None to tell nobody.
    """

    def __init__(
        self,
        adaptation: Adaptation,
        assignment: Assignment,
        clusters: Mapping[str, Substrate],
        limits: Ground,
        *,
        say: Callable[[str], None],
        rented: RentedNodes | None = None,
        jobs: JobRunner | None = None,
        repacker: NodeRepacker | None = None,
        pend: Callable[[Mapping[str, Sequence[tuple[str, float]]]], Awaitable[None]] | None = None,
    ) -> None:
        self._adaptation = adaptation
        self._assignment = assignment
        self._clusters = clusters
        self._limits = limits
        self._say = say
        self._rented = rented
        self._jobs = jobs
        self._repacker = repacker
        self._pend = pend
        self._readings = Readings()
        self._back_at_s: dict[str, float] = {}  # by lost node

    async def start_best_effort(self) -> None:
        """Start the commands of best-effort work where the placement has it."""
        for name, replicas in self._adaptation.keys.items():
            for key, node, cores in list(replicas):
                try:
                    await self._start_command(name, key, node, cores)
                except (KwikenError, OSError) as error:
                    await self._not_started(name, key, error)

    async def begin(self, started: Mapping[str, str | KwikenError]) -> None:
        """Take note of the replicas that were started for the adaptation's first placement.

        Args:
            started: by key, the name of the replica, or why it was not started.
        """
        for workload, replicas in self._adaptation.keys.items():
            for key, _, _ in list(replicas):
                found = started.get(key)
                if isinstance(found, KwikenError):
                    await self._not_started(workload, key, found)
                elif found is not None:
                    self._assignment.names[key] = found

    async def run(self) -> None:
        """Keep the targets; never returns. A step that fails is logged, and the next ones are taken."""
        next_window_s = time.monotonic() + WINDOW_S
        while True:
            await asyncio.sleep(CHECK_S)
            now_s = time.monotonic()
            await self._survived(self._check_nodes(now_s))
            await self._survived(self.use_booted(now_s))
            if now_s >= next_window_s:
                next_window_s = now_s + WINDOW_S
                await self._survived(self.observe(now_s))

    async def _survived(self, step: Coroutine[Any, Any, None]) -> None:
        """Take a step; its failure must not end what it keeps."""
        try:
            await step
        except Exception as error:
            LOG.exception(
                "a step of the upkeep failed: %s: %s",
                type(error).__name__,
                error,  # noqa: TRY401 - the line has the reason, also where it is shown without what follows
                extra=about(Event.UPKEEP_FAILED),
            )
            await asyncio.sleep(FAILED_S)

    async def _check_nodes(self, now_s: float) -> None:
        """Give up nodes that are lost, and use those again that were given up long ago.

        The actions that follow check the nodes as well while they wait, so each entry is taken out first.
        """
        if lost := self._lost():
            for node in lost:
                if self._rented is None:
                    self._back_at_s[node] = now_s + NODE_LOST_S
                else:  # another one is ordered where room is short
                    self._rented.give_back(NodeReturn(node, "it was lost"), now_s)
            await self._withdraw(lost, now_s)
        due = [node for node, at_s in self._back_at_s.items() if at_s <= now_s]
        for node in due:
            del self._back_at_s[node]
        usable = [node for node in due if self._usable(node)]
        self._back_at_s.update({node: now_s + NODE_LOST_S for node in due if node not in usable})
        await self._apply([action for node in usable for action in self._adaptation.node_back(node)])

    async def _withdraw(self, nodes: Collection[str], now_s: float) -> None:
        """Use some nodes no longer; what stood there is placed elsewhere."""
        for node in nodes:
            for cluster in self._clusters.values():
                await cluster.drop_node(node)
        for replicas in self._adaptation.keys.values():
            for key, where, _ in list(replicas):
                if where in nodes:
                    self._assignment.names.pop(key, None)
                    await self._limits.end(key)
        await self._apply(self._adaptation.nodes_lost(list(nodes), now_s))

    def _usable(self, node: str) -> bool:
        """Whether a node that was lost can be emulated again."""
        try:
            with contextlib.suppress(InputError):  # it was never removed
                self._limits.add_node(node, self._assignment.nodes[node].limit)
        except KwikenError as error:
            self._say(f"node {node} is not back: {error}")
            return False
        return True

    def _lost(self) -> list[str]:
        """Nodes that are lost to a cluster, and on which no other one has replicas that live."""
        lost: set[str] = set()
        alive: set[str] = set()
        for cluster in self._clusters.values():
            gone = set(cluster.lost_nodes)
            lost |= gone
            alive |= {place.node for _, place in cluster.places.values()} - gone
        return sorted(lost - alive)

    async def observe(self, now_s: float) -> None:
        """Take account of a window of measurements."""
        seen: dict[str, dict[str, Observation]] = {}  # by service
        wholes: dict[str, Observation] = {}
        told: dict[str, Mapping[str, Any]] = {}  # by service
        for service, cluster in self._clusters.items():
            self._follow(cluster)
            try:
                figures = (await cluster.status())["runtime"]
            except KwikenError as error:
                LOG.warning("%s: its gateway tells nothing, so nothing is adapted: %s", service, error)
                continue
            told[service] = figures
            wholes[service] = whole = self._readings.of_service(service, figures, now_s)
            seen[service] = self._readings.of_stages(
                cluster.service, figures, self._replicas_of(service), whole.rate_per_s
            )
        together = {name: one for stages in seen.values() for name, one in stages.items()}
        if self._rented is not None:
            self._adaptation.prefer_to_empty(self._rented.renter.saved_per_hour)
        actions = self._adaptation.observe(now_s, together)
        for service, whole in wholes.items():
            actions += self._adaptation.observe_service(service, now_s, whole, seen[service])
        await self._apply(actions)
        if self._repacker is not None:
            await self._apply(self._repacker.window(time.monotonic(), told))
        if self._pend is not None:
            lacking = self._adaptation.on_new_nodes()
            await self._pend({self._assignment.workloads[name].stage: each for name, each in lacking.items()})
        if self._rented is not None:
            of = {name: wholes[self._assignment.workloads[name].service] for name in together}
            short = {one.workload for one in actions if isinstance(one, Shortage)}
            await self._rent(self._rented, now_s, of, short)

    def _follow(self, cluster: Substrate) -> None:
        """Take note of replicas that stand elsewhere: a scheduler may choose another node of the class."""
        names, places = self._assignment.names, cluster.places
        for workload, replicas in self._adaptation.keys.items():
            for key, node, _ in list(replicas):
                _, place = places.get(names.get(key, ""), ("", None))
                if place is not None and place.node != node and place.node in self._assignment.nodes:
                    self._say(f"{workload}: {key} stands on {place.node}, not on {node}")
                    self._adaptation.stands(workload, key, place.node)

    async def use_booted(self, now_s: float) -> None:
        """Use the nodes that have booted."""
        if self._rented is not None:
            for node in self._rented.booted(now_s):
                await self._apply(self._adaptation.node_back(node))

    async def _rent(
        self, rented: RentedNodes, now_s: float, seen: Mapping[str, Observation], short: Collection[str]
    ) -> None:
        """Prepare for loads that rise, order nodes where room is short, and give idle ones back.

        Args:
            seen: measurements of each workload's service, by workload.
            short: workloads of which a shortage was told in this window; each lacks a core at least in part.
        """
        ahead = rented.loads_ahead(seen)
        await self._apply(self._adaptation.prepare(now_s, ahead))
        missing = dict.fromkeys(short, MIN_SHORTAGE) | self._adaptation.missing_cores()
        for action in rented.renter.observe(now_s, missing, self._occupied()):
            self._note(action.line)
            if isinstance(action, NodeOrder):
                rented.order(action, now_s)
            elif isinstance(action, NodeReturn):
                await self._withdraw([action.node], now_s)
                with contextlib.suppress(InputError):  # it was lost meanwhile
                    await self._limits.remove_node(action.node)
                rented.give_back(action, now_s)
        rented.seen(now_s)

    def _occupied(self) -> set[str]:
        """Nodes that have replicas with a target, or jobs."""
        jobs = self._jobs.occupied if self._jobs is not None else set()
        return jobs | {
            node
            for name, replicas in self._adaptation.keys.items()
            if not self._assignment.workloads[name].best_effort
            for _, node, _ in replicas
        }

    def _note(self, line: str) -> None:
        """Show an action of all services beside theirs."""
        for cluster in self._clusters.values():
            cluster.note_action(line)

    def _replicas_of(self, service: str) -> dict[str, tuple[str, dict[str, str]]]:
        """Stage of each workload of a service, with the keys of its replicas by their names, by workload."""
        placed, names = self._adaptation.keys, self._assignment.names
        return {
            name: (workload.stage, {names[key]: key for key, _, _ in placed[name] if key in names})
            for name, workload in self._assignment.workloads.items()
            if workload.service == service and workload.stage
        }

    async def _apply(self, actions: Iterable[Action]) -> None:
        """Carry actions out in their order; starts that follow one another go at the same time."""
        for starts, group in itertools.groupby(actions, key=lambda action: isinstance(action, Start)):
            if starts:
                await self._start_all([self._survived(self._one(action)) for action in group])
            else:
                for action in group:
                    await self._survived(self._one(action))

    async def _start_all(self, starts: Iterable[Coroutine[Any, Any, None]]) -> None:
        """Start replicas, which may take minutes; nodes that are lost meanwhile are given up meanwhile."""
        tasks = [asyncio.create_task(start) for start in starts]
        pending = set(tasks)
        try:
            while pending:
                _, pending = await asyncio.wait(pending, timeout=CHECK_S)
                if pending:
                    await self._survived(self._check_nodes(time.monotonic()))
        finally:
            await cancel_and_wait(tasks)

    async def _one(self, action: Action) -> None:
        if isinstance(action, Stop) and not self._wanted_for(action):
            return
        self._say(action.line)
        workload = self._assignment.workloads[action.workload]
        cluster = self._clusters.get(workload.service) if workload.stage else None
        for one in [cluster] if cluster is not None else self._clusters.values():
            one.note_action(action.line)
        if isinstance(action, Start):
            await self._start(action, cluster, workload.stage)
        elif cluster is None:
            if isinstance(action, Stop):
                await self._limits.end(action.key)
        elif isinstance(action, Stop):
            await cluster.remove_replica(self._assignment.names.pop(action.key, ""))
        elif isinstance(action, Resize):
            try:
                await cluster.resize_replica(self._assignment.names.get(action.key, ""), action.cores)
            except KwikenError as error:
                self._say(f"{action.workload}: {action.key} keeps its cores: {error}")

    def _runs(self, workload: str, key: str) -> bool:
        """Whether a replica is one of those that the adaptation counts on."""
        return any(key == other for other, _, _ in self._adaptation.keys[workload])

    def _wanted_for(self, action: Stop) -> bool:
        """Whether a stop is still to be carried out: not if what was to replace the replica did not start."""
        if not action.after or all(self._runs(action.workload, key) for key in action.after):
            return True
        return not self._runs(action.workload, action.key)

    async def _start(self, action: Start, cluster: Substrate | None, stage: str) -> None:
        try:
            if cluster is None:
                await self._start_command(action.workload, action.key, action.node, action.cores)
            else:
                place = ReplicaPlace(action.node, action.cores)
                name = await cluster.add_replica(stage, place)
                if self._runs(action.workload, action.key):
                    self._assignment.names[action.key] = name
                else:  # given up while it started
                    await cluster.remove_replica(name)
        except (KwikenError, OSError) as error:
            await self._not_started(action.workload, action.key, error)

    async def _not_started(self, workload: str, key: str, error: Exception) -> None:
        self._say(f"{workload}: {key} could not be started: {error}")
        for stop in self._adaptation.start_failed(workload, key, time.monotonic()):
            await self._one(stop)

    async def _start_command(self, name: str, key: str, node: str, cores: float) -> None:
        """Start the command of best-effort work, if it has one; other work is started elsewhere."""
        workload = self._assignment.workloads[name]
        if workload.best_effort and workload.command:
            await self._limits.start(
                workload.command,
                name=key,
                limit=Limit(cores, self._assignment.nodes[node].speed),
                node=node,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
            )
