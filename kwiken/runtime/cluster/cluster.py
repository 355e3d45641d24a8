"""Local cluster: runs gateways and every stage's replicas as child processes, and restarts them."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import os
import ssl
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import aiohttp
import msgspec

from kwiken.base.errors import InputError, KwikenError
from kwiken.model.plan.plan import Plan
from kwiken.model.service.service import Service
from kwiken.model.service.stage import MAX_REPLICAS
from kwiken.runtime.base.event_loop import cancel_and_wait
from kwiken.runtime.base.log_events import Event, about
from kwiken.runtime.base.process_id import Identity
from kwiken.runtime.base.target import load_target
from kwiken.runtime.cluster.child_process import Child, ChildError
from kwiken.runtime.cluster.gateway_sockets import GatewaySockets
from kwiken.runtime.cluster.layout import Layout, ReplicaPlace
from kwiken.runtime.cluster.liveness import Liveness, check_liveness
from kwiken.runtime.cluster.processes import KILL_AFTER_S, Processes
from kwiken.runtime.cluster.settings import ClusterSettings
from kwiken.runtime.cluster.slot import Slot
from kwiken.runtime.cluster.specs import gateway_spec, replica_spec
from kwiken.runtime.cluster.state.documents import STATE_VERSION, ClusterState, NodeState, RestartState
from kwiken.runtime.cluster.state.folder import StateFolder
from kwiken.runtime.engine.status_document import merged_status
from kwiken.runtime.gateway.control.client import ControlClient
from kwiken.runtime.process.critical_tasks import CriticalTasks
from kwiken.runtime.process.log_file import LogFile
from kwiken.runtime.process.specs import GatewaySpec
from kwiken.runtime.wire.tls.certificates import Certificates
from kwiken.runtime.wire.tls.clients import client_variables

LOG = logging.getLogger("kwiken.cluster")
CHECK_S: Final = 2.0  # interval of checks of the state files and the log
RETRY_S: Final = 0.1  # pause before the gateways are updated again
LOST_STARTS: Final = (
    2  # failed starts on a node whose replicas were all killed, after which it counts as lost
)
MAX_GATEWAYS: Final = 64
MAX_ACTIONS: Final = 20  # shown in the state
STDERR: Final = 2


class Cluster:
    """Gateways and replicas as local processes; an asynchronous context manager, ready once entered.

    A process that dies is restarted, with growing pauses if it dies repeatedly; a process that has not
    answered for too long is killed first. The gateways are told of every change at once. When this process
    ends in any way, the kernel ends the others. If the supervision itself fails, the body of the context is
    cancelled, everything is stopped, and the failure is raised.

    Args:
        target: service, as `MODULE:SERVICE` that is importable from here, or as `FILE.yaml`.
        port: port for requests, 0 for any free port; None for that of the settings.
        state: folder for the state files that `down` and `status` read; None for none.
        replicas: number of replicas by stage, 1 to `MAX_REPLICAS`, where it differs from the service's own;
            None for the service's own throughout.
        layout: nodes that this machine emulates, with the places of replicas; None for none. Its stages are
            not in `replicas`.

    Raises:
        InputError: the target is not a service, a number of replicas is out of range, or, on entering, the
            service is up already.
        DefinitionError: replicas are given for a stage that does not exist.
        KwikenError: on entering, a process does not start; names the process and the reason.
    """

    def __init__(
        self,
        target: str,
        settings: ClusterSettings = ClusterSettings(),  # noqa: B008 - frozen
        *,
        port: int | None = None,
        state: Path | None = None,
        replicas: Mapping[str, int] | None = None,
        layout: Layout | None = None,
    ) -> None:
        self.service: Service = load_target(target)
        self._target = target
        self._settings = settings
        if not 1 <= settings.gateways <= MAX_GATEWAYS:
            raise InputError(
                f"must be from 1 to {MAX_GATEWAYS}, not {settings.gateways}", where="number of gateways"
            )
        self.layout = layout
        self._processes = Processes(
            settings.gateways,
            _places(self.service, replicas or {}, layout),
            self._start,
            grace_s=settings.grace_s,
            silence_s=_silence_s(self.service, settings.unresponsive_s),
        )
        self._port = settings.port if port is None else port
        self._state_path = state
        self._folder: StateFolder | None = None
        self._clients: list[ControlClient] = []
        self._session: aiohttp.ClientSession | None = None  # for checks of processes
        self._tls: Callable[[], ssl.SSLContext] | None = None
        self._sockets: GatewaySockets | None = None
        self._plan: Plan | None = None
        self._ready = False
        self._keepers: dict[str, asyncio.Task[None]] = {}  # by name of the slot
        self._slots_change = asyncio.Lock()
        self._restart = RestartState()
        self._actions: deque[str] = deque(maxlen=MAX_ACTIONS)
        self._crowded: frozenset[str] = frozenset()  # nodes without headroom

    @property
    def gateway_url(self) -> str:
        """URL for requests from this machine."""
        return self._listening.url

    @property
    def gateway_urls(self) -> list[str]:
        """URL of each gateway, for its control routes."""
        return [self._listening.url_of(number) for number in range(self._settings.gateways)]

    @property
    def _listening(self) -> GatewaySockets:
        assert self._sockets is not None, "use the cluster as an asynchronous context manager"
        return self._sockets

    @property
    def token(self) -> str:
        """Token of the gateway's control routes."""
        return self._opened.token

    @property
    def client_variables(self) -> dict[str, str]:
        """Variables of the environment for a client of the control routes beside this process."""
        files = self._settings.tls
        return {"KWIKEN_TOKEN": self.token} | (client_variables(files) if files is not None else {})

    @property
    def gateway_pids(self) -> list[int]:
        """Pids of the gateways that are running."""
        return [slot.child.identity.pid for slot in self._processes.gateways if slot.child is not None]

    @property
    def replicas(self) -> dict[str, list[tuple[int, str]]]:
        """Pid and address of the running replicas, by stage."""
        return {
            stage: [(child.identity.pid, child.url) for _, child in running]
            for stage, running in self._processes.running.items()
        }

    @property
    def _opened(self) -> StateFolder:
        assert self._folder is not None, "use the cluster as an asynchronous context manager"
        return self._folder

    async def __aenter__(self) -> Self:
        """Start every process and wait until the gateways are ready."""
        self._folder = folder = StateFolder(self._state_path, self.service.name)
        self._supervisor = _this_process()
        self._critical_tasks = CriticalTasks()
        try:
            self._listen()
            folder.begin(self._state())
            self._tls = self._own_tls()
            # Processes that hang must not delay the checks of others.
            self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
            self._clients = [
                ControlClient(self._listening.url_of(number), folder.token, tls=self._tls)
                for number in range(self._settings.gateways)
            ]
            await self._processes.start_all()
            for slot in self._processes.slots:
                self._keep(slot)
            self._critical_tasks.add(self._tell())
            self._critical_tasks.add(_shorten_log(folder.files.log))
            self._processes.changed.set()
            for client in self._clients:
                await client.until_ready()
            self._ready = True
            folder.save(self._state())
        except BaseException:
            await self._stop_all(0.0)
            self._critical_tasks.check()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop every process gracefully.

        Raises:
            BaseException: the failure of the supervision, if there was one.
        """
        await self._stop_all(self._settings.grace_s)
        self._critical_tasks.check()

    def _own_tls(self) -> Callable[[], ssl.SSLContext] | None:
        """Context of connections to the gateways, which show the certificate that they were given here."""
        if self._settings.tls is None:
            return None
        certificates = Certificates(self._settings.tls)
        self._critical_tasks.add(certificates.watch())
        return lambda: certificates.peer

    def _listen(self) -> None:
        """Open the gateways' sockets."""
        try:
            settings = self._settings
            self._sockets = GatewaySockets(
                settings.host,
                self._port,
                settings.gateways,
                grpc_port=settings.grpc_port,
                secure=settings.tls is not None,
            )
        except InputError as error:
            raise ChildError(f"gateway: {error}") from error

    async def _start(self, slot: Slot) -> Child:
        """Start the process of a slot."""
        if slot.stage is not None:
            spec = replica_spec(
                self._target, self._settings, stage=slot.stage, name=slot.name, node=slot.node
            )
            if self.layout is None or slot.place is None:
                return await Child.start(spec, name=slot.name, log=self._settings.log)
            launch = functools.partial(_launch_on, self.layout, self._limited(slot), slot.place)
            return await Child.start(spec, name=slot.name, log=self._settings.log, launch=launch)
        # The token is not passed by its file, which may have been removed.
        env = {"KWIKEN_TOKEN": self._opened.token}
        number = self._processes.gateways.index(slot)
        gateway = self._gateway_spec(number)
        child = await Child.start(
            gateway, name=slot.name, env=env, files=gateway.sockets, log=self._settings.log
        )
        child.url = self._listening.url_of(number)  # it tells where it listens, which may be every address
        return child

    def _gateway_spec(self, number: int) -> GatewaySpec:
        return gateway_spec(
            self._target,
            self._settings,
            sockets=self._listening.files_of(number),
            port=self._listening.port,
            grpc_port=self._listening.grpc_port,
            shown=self.gateway_urls,
            kept=self._opened.files.plan,
            takes_over=self._ready,
            known=self._processes.addresses(),
            name=self._processes.gateways[number].name,
        )

    async def _tell(self) -> None:
        """Update the gateways and the state file whenever the running processes change."""
        told: list[Child | None] = [None for _ in self._clients]
        crowded: list[frozenset[str]] = [frozenset() for _ in self._clients]  # as each gateway knows them
        folder = self._opened
        while True:
            if not await self._has_changed():
                continue
            folder.save(self._state())
            addresses = self._processes.addresses()
            for number, slot in enumerate(self._processes.gateways):
                client, gateway = self._clients[number], slot.child
                if gateway is None:
                    continue
                try:
                    if gateway is not told[number] and self._plan is not None and not folder.has_plan:
                        await client.put_plan(self._plan, keeps=True)
                    await client.put_replicas(addresses)
                    if (now := self._crowded) != (
                        crowded[number] if gateway is told[number] else frozenset()
                    ):
                        await client.put_crowded_nodes(now)
                    told[number], crowded[number] = gateway, now
                except KwikenError as error:
                    LOG.warning(
                        "%s could not be updated with the replicas: %s",
                        slot.name,
                        error,
                        extra=about(Event.GATEWAY_NOT_TOLD),
                    )
                    await asyncio.sleep(RETRY_S)
                    self._processes.changed.set()

    async def _has_changed(self) -> bool:
        """Wait for a change of the processes; after a timeout, write what is not in the folder."""
        changed = self._processes.changed
        try:
            async with asyncio.timeout(CHECK_S):
                await changed.wait()
        except TimeoutError:
            if self._opened.unsaved or not self._opened.files.intact:
                self._opened.save(self._state())
            return False
        changed.clear()
        return True

    def _keep(self, slot: Slot) -> None:
        self._keepers[slot.name] = self._critical_tasks.add(self._processes.keep(slot, self._check))

    async def _check(self, url: str, within_s: float) -> Liveness:
        """Check whether a process of the cluster is alive."""
        assert self._session is not None, "use the cluster as an asynchronous context manager"
        return await check_liveness(
            self._session, url, within_s, tls=self._tls() if self._tls is not None else True
        )

    def _limited(self, slot: Slot) -> str:
        """Name of a slot's process among the limits, which several clusters may share."""
        return f"{self.service.name}/{slot.name}"

    @property
    def places(self) -> dict[str, tuple[str, ReplicaPlace]]:
        """Stage and place of the replicas that have a place, by name, whether or not they run now."""
        return {
            slot.name: (slot.stage, slot.place)
            for slot in self._processes.replicas
            if slot.stage is not None and slot.place is not None
        }

    @property
    def lost_nodes(self) -> list[str]:
        """Nodes whose replicas were all killed, and on which starting them again has failed repeatedly.

        Neither sign is enough: a process is killed on a node that lives when its memory is short, and starts
        fail there when a file is missing.
        """
        failed: dict[str, int] = {}
        alive: set[str] = set()
        for slot in self._processes.replicas:
            if slot.place is not None:
                failed[slot.node] = failed.get(slot.node, 0) + slot.failed_starts
                if slot.child is not None or not slot.killed:
                    alive.add(slot.node)
        return [node for node, count in failed.items() if node not in alive and count >= LOST_STARTS]

    async def add_replica(self, stage: str, place: ReplicaPlace) -> str:
        """Start another replica and route calls to it; returns its name.

        Raises:
            ChildError: the process does not start.
        """
        slot = self._processes.new_slot(self.service[stage].name, place)
        await self._processes.add(slot)
        self._keep(slot)
        return slot.name

    async def remove_replica(self, name: str) -> None:
        """Stop a replica in good order: it gets no more calls, and those in flight finish.

        Args:
            name: name of the replica; nothing happens if there is none.
        """
        async with self._slots_change:
            slot = next((slot for slot in self._processes.replicas if slot.name == name), None)
            if slot is None:
                return
            await cancel_and_wait([self._keepers.pop(name)])
            child = self._processes.remove(slot)
        await self._route()
        if child is not None:
            await child.stop(self._settings.grace_s)
        if self.layout is not None:
            await self.layout.limits.end(self._limited(slot))

    async def _route(self) -> None:
        """Send the gateways the present replicas; one that does not answer gets them from `_tell`."""
        addresses = self._processes.addresses()
        for client in self._asked:
            with contextlib.suppress(KwikenError):
                await client.put_replicas(addresses)

    async def resize_replica(self, name: str, cores: float) -> None:
        """Change the number of cores that a replica may use; nothing happens if there is none.

        Args:
            cores: number of cores, above 0.
        """
        for slot in self._processes.replicas:
            if slot.name == name and slot.place is not None and self.layout is not None:
                slot.place = ReplicaPlace(slot.place.node, cores)
                with contextlib.suppress(InputError):  # it is being restarted, and gets the new limit then
                    self.layout.limits.resize(self._limited(slot), self.layout.limit(slot.place))
                self._processes.changed.set()

    async def drop_node(self, node: str) -> list[str]:
        """Give a node up: its replicas are not restarted; returns the names of those that it had."""
        async with self._slots_change:
            on_node = [slot for slot in self._processes.replicas if slot.place is not None]
            slots = [slot for slot in on_node if slot.node == node]
            for slot in slots:
                await cancel_and_wait([self._keepers.pop(slot.name)])
                child = self._processes.remove(slot)
                if child is not None:
                    child.kill()
                if self.layout is not None:
                    await self.layout.limits.end(self._limited(slot))
        return [slot.name for slot in slots]

    async def restart(self) -> None:
        """Replace every process, one after another, by one that runs the code now on disk; never fails.

        If a successor does not start, those that were not reached go on, and the state tells the reason.
        """
        self._restart = RestartState(number=self._restart.number + 1, running=True)
        error = ""
        try:
            for slot in self._processes.slots[::-1]:  # replicas before gateways, as versions require
                async with self._slots_change:
                    if slot in self._processes.slots:
                        await self._replace(slot)
        except KwikenError as failure:
            error = str(failure)
            LOG.error("not restarted: %s", error, extra=about(Event.PROCESS_NOT_STARTED))  # noqa: TRY400
        self._restart = msgspec.structs.replace(self._restart, running=False, error=error)
        self._processes.changed.set()

    async def _replace(self, slot: Slot) -> None:
        """Replace the process of a slot in good order. There are two cases.

        1. The old process ends first: a gateway, whose port waits, or a replica whose node has room for one.
        2. The old process ends once the gateways send calls to its successor.
        """
        await cancel_and_wait([self._keepers.pop(slot.name)])
        old, grace_s = slot.child, self._settings.grace_s + KILL_AFTER_S
        try:
            if old is not None and (slot.stage is None or slot.place is not None):  # 1.
                slot.child = None
                self._processes.changed.set()
                await old.stop(grace_s)
            slot.fill(await self._start(slot))
            slot.restarts += 1
            if slot.stage is None:
                await self._asked[self._processes.gateways.index(slot)].until_ready()
            await self._route()
            if old is not None:  # 2.
                await old.stop(grace_s)
        finally:
            if old is not None and old is not slot.child:
                old.kill()
            self._keep(slot)
            self._processes.changed.set()

    def withhold_copies(self, nodes: Collection[str]) -> None:
        """Let the gateways send no copies of calls to replicas on some nodes.

        Args:
            nodes: names of all such nodes from now on.
        """
        self._crowded = frozenset(nodes)
        self._processes.changed.set()

    def note_action(self, line: str) -> None:
        """Show an action that keeps a target in the state, beside those before."""
        LOG.info("%s", line)
        self._actions.append(line)
        self._processes.changed.set()

    async def put_plan(self, plan: Plan | None) -> None:
        """Put a plan in force at every gateway, or none; the plan survives restarts of the gateways.

        Raises:
            InputError: a gateway refuses the plan; with its reason.
        """
        for client in self._asked:
            await client.put_plan(plan, keeps=True)
        self._plan = plan

    async def status(self) -> dict[str, Any]:
        """Content of the state file and, as `runtime`, the combined figures of the gateways.

        Raises:
            InputError: a gateway refuses to answer.
        """
        figures = [await client.status(alone=True) for client in self._asked]
        return {**msgspec.to_builtins(self._state()), "runtime": merged_status(figures)}

    @property
    def _asked(self) -> list[ControlClient]:
        assert self._clients, "use the cluster as an asynchronous context manager"
        return self._clients

    def _state(self) -> ClusterState:
        return ClusterState(
            version=STATE_VERSION,
            service=self.service.name,
            target=self._target,
            supervisor=self._supervisor,
            ready=self._ready,
            token_file=str(self._opened.files.token),
            url=self.gateway_url,
            gateways=self._processes.states(self._processes.gateways),
            replicas=self._processes.states(self._processes.replicas),
            nodes=[
                NodeState(node=name, node_class=node.node_class, cores=node.cores, speed=node.speed)
                for name, node in (self.layout.nodes if self.layout is not None else {}).items()
            ],
            actions=list(self._actions),
            restart=self._restart,
        )

    async def _stop_all(self, grace_s: float) -> None:
        """Stop the supervision and every process, and remove the state."""
        await self._critical_tasks.stop()
        if self._sockets is not None:
            self._sockets.close()
        try:
            await self._processes.stop_all(grace_s)
        finally:
            if self._session is not None:
                await self._session.close()
            if self._folder is not None:
                self._folder.close()
                self._folder = None


def _places(
    service: Service, given: Mapping[str, int], layout: Layout | None
) -> dict[str, Sequence[ReplicaPlace | None]]:
    """Places of the replicas by stage, in the order of the service."""
    placed = layout.replicas if layout is not None else {}
    for stage in placed:
        service[stage]  # raises for an unknown stage
    counts = _replica_counts(service, given)
    return {stage: placed.get(stage) or [None] * count for stage, count in counts.items()}


async def _launch_on(
    layout: Layout, name: str, place: ReplicaPlace, *command: str, **options: Any
) -> asyncio.subprocess.Process:
    """Start a command under the limit of its place."""
    await layout.limits.end(name)  # what is left of the process before
    options.pop("start_new_session")  # it has one always
    try:
        return await layout.limits.start(
            command, name=name, limit=layout.limit(place), node=place.node, **options
        )
    except KwikenError as error:  # the node may be lost
        raise ChildError(f"{name}: {error}") from error


def _replica_counts(service: Service, given: Mapping[str, int]) -> dict[str, int]:
    """Number of replicas by stage, in the order of the service, without foreign services' stages."""
    for stage, count in given.items():
        name = service[stage].name  # raises for an unknown stage
        if service[name].remote_call is not None:
            raise InputError(
                "a foreign service serves it, so there are no replicas to start", where=f"stage {name!r}"
            )
        if not 1 <= count <= MAX_REPLICAS:
            raise InputError(
                f"the number of replicas must be from 1 to {MAX_REPLICAS}, not {count}",
                where=f"stage {name!r}",
            )
    return {
        name: given.get(name, stage.replicas)
        for name, stage in service.stages.items()
        if stage.remote_call is None
    }


def _silence_s(service: Service, unresponsive_s: float) -> dict[str | None, float]:
    """Seconds without a sign of life that end a process, by stage and, under None, for the gateway."""
    if not unresponsive_s:
        return {}
    silence_s: dict[str | None, float] = {None: unresponsive_s}
    for name, stage in service.stages.items():
        silence_s[name] = max(unresponsive_s, stage.timeout_ms / 1000)
    return silence_s


async def _shorten_log(path: Path) -> None:
    """Limit the size of the log that this process and its children write to."""
    log = LogFile(path)
    while True:
        await asyncio.sleep(CHECK_S)
        if log.written_by(STDERR):
            await asyncio.to_thread(log.shorten)


def _this_process() -> Identity:
    """Identity of this process; looked up once, since a lookup fails without file descriptors or memory."""
    identity = Identity.of(os.getpid())
    assert identity is not None
    return identity
