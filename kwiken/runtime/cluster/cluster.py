"""Local cluster: runs a gateway and every stage's replicas as child processes, and restarts them."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import os
import secrets
import shutil
import socket
import tempfile
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import aiohttp
import msgspec

from kwiken.errors import InputError, KwikenError
from kwiken.plan import Plan
from kwiken.runtime.cluster.child_process import Child, ChildError
from kwiken.runtime.cluster.liveness import check_liveness, until_unresponsive
from kwiken.runtime.cluster.process_id import Identity
from kwiken.runtime.cluster.slot import Slot
from kwiken.runtime.cluster.state import VERSION, ClusterState, StateFiles
from kwiken.runtime.http_server import listen
from kwiken.runtime.process import CriticalTasks, GatewaySpec, LogFile, ReplicaSpec
from kwiken.runtime.target import load_target
from kwiken.runtime.tasks import cancel_and_wait
from kwiken.runtime.transport import Replica, wire
from kwiken.service import Service

LOG = logging.getLogger("kwiken.cluster")
CHECK_S: Final = 2.0  # interval of checks of the state files and the log
RETRY_S: Final = 0.1  # pause before the gateway is updated again
READY_S: Final = 30.0  # for the gateway to become ready
REQUEST_TIMEOUT_S: Final = 5.0  # timeout of a request to the gateway
KILL_AFTER_S: Final = 3.0  # after the grace period
STDERR: Final = 2
MOST_KNOWN: Final = 500  # replicas that fit into a process's arguments


class Cluster:
    """Gateway and replicas as local processes; an asynchronous context manager, ready once entered.

    A process that dies is restarted, with growing pauses if it dies repeatedly; a process that has not
    answered for too long is killed first. The gateway is told of every change at once. When this process ends
    in any way, the kernel ends the others. If the supervision itself fails, the body of the context is
    cancelled, everything is stopped, and the failure is raised.

    Args:
        target: service, as `MODULE:SERVICE`, importable from here.
        host: address to listen on.
        port: port of the gateway; 0 for any free port.
        state: folder for the state files that `down` and `status` read; None for none.
        traces: folder for spans; None for none.
        otlp: endpoint for spans; None for none.
        plan: file with the plan, followed when it changes; None for none.
        replicas: number of replicas by stage, where it differs from the service's own.
        max_inflight: largest number of calls that a replica holds at once, 1 or more.
        grace_s: seconds that requests and calls in flight get at the end.
        unresponsive_s: seconds without an answer to `/livez` after which a process is killed and restarted, a
            replica not before its stage's timeout has passed too; 0 for never.
        max_bodies: bytes that all requests at the gateway together may hold; None for a share of the memory.
        allowed_hosts: further host names that the gateway answers to, and whose pages may send requests.

    Raises:
        InputError: the target is not a service, or the service is up already.
        KwikenError: on entering, a process does not start; names the process and the reason.
    """

    def __init__(
        self,
        target: str,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        state: Path | None = None,
        traces: Path | None = None,
        otlp: str | None = None,
        plan: Path | None = None,
        replicas: Mapping[str, int] | None = None,
        max_inflight: int = 64,
        grace_s: float = 10.0,
        unresponsive_s: float = 10.0,
        max_bodies: int | None = None,
        allowed_hosts: Collection[str] = (),
    ) -> None:
        self.target = target
        self.service: Service = load_target(target)
        counts = {name: stage.replicas for name, stage in self.service.stages.items()} | dict(replicas or {})
        for stage in replicas or {}:
            _ = self.service[stage]
        self._host = host
        self._port = port
        self._traces = str(traces) if traces is not None else None
        self._otlp = otlp
        self._plan_file = str(plan) if plan is not None else None
        self._max_inflight = max_inflight
        self._grace_s = grace_s
        self._unresponsive_s = unresponsive_s
        self._max_bodies = max_bodies
        self._allowed_hosts = list(allowed_hosts)
        self._gateway = Slot("gateway", None)
        self._slots = [
            Slot(f"{stage}-{number}", stage) for stage, count in counts.items() for number in range(count)
        ]
        self._folder = state
        self._files: StateFiles | None = None
        self._token = secrets.token_urlsafe(32)
        self._plan: Plan | None = None
        self._unsaved = False
        self._changed = asyncio.Event()
        self._ready = False
        self._sockets: list[socket.socket] = []
        self._session: aiohttp.ClientSession | None = None

    @property
    def gateway_url(self) -> str:
        """URL for requests."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._port}"

    @property
    def token(self) -> str:
        """Token of the gateway's control routes."""
        return self._token

    @property
    def gateway_pid(self) -> int | None:
        """Pid of the gateway; None while it is being restarted."""
        return self._gateway.child.identity.pid if self._gateway.child is not None else None

    @property
    def replicas(self) -> dict[str, list[tuple[int, str]]]:
        """Pid and address of the running replicas, by stage."""
        found: dict[str, list[tuple[int, str]]] = {name: [] for name in self.service.stages}
        for slot in self._slots:
            if slot.child is not None and slot.stage is not None:
                found[slot.stage].append((slot.child.identity.pid, slot.child.url))
        return found

    async def __aenter__(self) -> Self:
        """Start every process and wait until the gateway is ready."""
        files = StateFiles(self._folder or Path(tempfile.mkdtemp(prefix="kwiken-")), self.service.name)
        files.lock()
        self._files = files
        self._supervisor = _this_process()
        self._critical_tasks = CriticalTasks()
        try:
            self._listen()
            files.remove()  # left by a killed supervisor
            files.write_token(self._token)
            files.write(self._state())
            self._session = aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=REQUEST_TIMEOUT_S),
                connector=aiohttp.TCPConnector(
                    limit=0
                ),  # processes that hang must not delay the checks of others
            )
            await self._start_all()
            for slot in (self._gateway, *self._slots):
                self._critical_tasks.add(self._keep(slot))
            self._critical_tasks.add(self._tell())
            self._critical_tasks.add(self._shorten_log())
            self._changed.set()
            await self._until_ready()
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
        await self._stop_all(self._grace_s)
        self._critical_tasks.check()

    def _listen(self) -> None:
        """Open the gateway's sockets here: during a restart clients wait and are not refused."""
        try:
            self._sockets = listen(self._host, self._port)
        except InputError as error:
            raise ChildError(f"gateway: {error}") from error
        self._port = self._sockets[0].getsockname()[1]

    async def _start_all(self) -> None:
        slots = (self._gateway, *self._slots)
        starts = [asyncio.create_task(self._start(slot)) for slot in slots]
        try:
            done, _ = await asyncio.wait(starts, return_when=asyncio.FIRST_EXCEPTION)
            for task in done:
                await task
        finally:
            for task in starts:
                task.cancel()
            await asyncio.gather(*starts, return_exceptions=True)

    async def _start(self, slot: Slot) -> None:
        """Start the process of a slot."""
        env = (
            {"KWIKEN_TOKEN": self._token} if slot.stage is None else {}
        )  # not by a file, which may have been removed
        spec = self._spec(slot)
        files = spec.sockets if isinstance(spec, GatewaySpec) else []
        slot.fill(await Child.start(spec, name=slot.name, env=env, files=files))

    def _spec(self, slot: Slot) -> ReplicaSpec | GatewaySpec:
        if slot.stage is None:
            assert self._files is not None
            return GatewaySpec(
                target=self.target,
                host=self._host,
                port=self._port,
                plan=self._plan_file,
                traces=self._traces,
                otlp=self._otlp,
                grace_s=self._grace_s,
                kept=str(self._files.plan),
                takes_over=self._ready,
                sockets=[sock.fileno() for sock in self._sockets],
                max_bodies=self._max_bodies,
                allowed_hosts=self._allowed_hosts,
                known=self._addresses() if len(self._slots) <= MOST_KNOWN else {},
            )
        return ReplicaSpec(
            target=self.target,
            stage=slot.stage,
            host=self._host,
            replica=slot.name,
            traces=self._traces,
            otlp=self._otlp,
            max_inflight=self._max_inflight,
            grace_s=self._grace_s,
        )

    async def _keep(self, slot: Slot) -> None:
        """Restart a slot's process whenever it ends."""
        while True:
            if slot.child is None:
                await self._refill(slot)
                self._changed.set()
            code = await self._end_of(slot)
            wait_s = slot.emptied()
            self._changed.set()
            LOG.warning("%s ended with exit code %s; restart in %g s", slot.name, code, wait_s)
            await asyncio.sleep(wait_s)

    async def _end_of(self, slot: Slot) -> int:
        """Wait for the end of a slot's process, kill it if it hangs; returns its exit code."""
        child = slot.child
        assert child is not None
        assert self._session is not None
        if not self._unresponsive_s:
            return await child.wait()
        timeout_s = self.service[slot.stage].timeout_ms / 1000 if slot.stage is not None else 0.0
        end = asyncio.create_task(child.wait())
        silence = asyncio.create_task(
            until_unresponsive(
                functools.partial(check_liveness, self._session, child.url),
                silent_s=max(self._unresponsive_s, timeout_s),
                closed_s=self._grace_s + KILL_AFTER_S,
            )
        )
        try:
            await asyncio.wait({end, silence}, return_when=asyncio.FIRST_COMPLETED)
            if not end.done():
                LOG.error("%s is unresponsive and is killed: %s", slot.name, silence.result().value)
                child.kill()
            return await end
        finally:
            await cancel_and_wait((end, silence))

    async def _refill(self, slot: Slot) -> None:
        while True:
            try:
                await self._start(slot)
            except ChildError as error:
                wait_s = slot.emptied()
                LOG.error("%s; next try in %g s", error, wait_s)  # noqa: TRY400 - the message has the reason
                await asyncio.sleep(wait_s)
            else:
                slot.restarts += 1
                return

    async def _tell(self) -> None:
        """Update the gateway and the state file whenever the running processes change."""
        told: Child | None = None
        while True:
            if not await self._has_changed():
                continue
            self._save()
            gateway = self._gateway.child
            if gateway is None:
                continue
            try:
                if gateway is not told and self._plan is not None and not self._kept():
                    await self._ask("PUT", "/v1/plan", msgspec.json.encode(self._plan))
                await self._ask("PUT", "/v1/replicas", msgspec.json.encode(self._addresses()))
                told = gateway
            except (KwikenError, aiohttp.ClientError, TimeoutError) as error:
                LOG.warning("the gateway could not be updated with the replicas: %s", error)
                await asyncio.sleep(RETRY_S)
                self._changed.set()

    async def _shorten_log(self) -> None:
        """Limit the size of the log that this process and its children write to."""
        assert self._files is not None
        log = LogFile(self._files.log)
        while True:
            await asyncio.sleep(CHECK_S)
            if log.written_by(STDERR):
                await asyncio.to_thread(log.shorten)

    def _kept(self) -> bool:
        """Whether the plan in force is saved, so that a new gateway has found it by itself."""
        assert self._files is not None
        return self._files.plan.is_file()

    async def _has_changed(self) -> bool:
        """Wait for a change of the processes; after a timeout, restore removed state files instead."""
        try:
            async with asyncio.timeout(CHECK_S):
                await self._changed.wait()
        except TimeoutError:
            if self._files is not None and not self._files.intact:
                self._save()
            return False
        self._changed.clear()
        return True

    def _addresses(self) -> dict[str, list[Replica]]:
        found: dict[str, list[Replica]] = {name: [] for name in self.service.stages}
        for slot in self._slots:
            if slot.child is not None and slot.stage is not None:
                found[slot.stage].append(Replica(slot.name, "local", slot.child.url))
        return found

    async def _until_ready(self) -> None:
        assert self._session is not None
        deadline = time.monotonic() + READY_S
        while time.monotonic() < deadline:
            with contextlib.suppress(aiohttp.ClientError, TimeoutError):
                async with self._session.get(self.gateway_url + "/readyz") as response:
                    if response.ok:
                        self._ready = True
                        self._save()
                        return
            await asyncio.sleep(RETRY_S / 5)
        raise ChildError(f"gateway: was not ready within {READY_S:g} s")

    async def put_plan(self, plan: Plan | None) -> None:
        """Put a plan in force at the gateway, or none; the plan survives a restart of the gateway.

        Args:
            plan: plan to put in force; None for none.

        Raises:
            InputError: the gateway refuses the plan; with its reason.
        """
        await self._ask("PUT", "/v1/plan", msgspec.json.encode(plan))
        self._plan = plan

    async def status(self) -> dict[str, Any]:
        """Content of the state file and, as `runtime`, the gateway's own figures.

        Raises:
            InputError: the gateway refuses to answer.
        """
        figures = msgspec.json.decode(await self._ask("GET", "/v1/status", None))
        return {**msgspec.to_builtins(self._state()), "runtime": figures}

    async def _ask(self, method: str, path: str, body: bytes | None) -> bytes:
        assert self._session is not None, "use the cluster as an asynchronous context manager"
        async with self._session.request(
            method,
            self.gateway_url + path,
            data=body,
            headers={"Authorization": f"Bearer {self._token}", wire.KEEPS: "1"},
        ) as response:
            data = await response.read()
        if not response.ok:
            with contextlib.suppress(msgspec.MsgspecError, KeyError):
                raise InputError(msgspec.json.decode(data, type=dict[str, str])["error"], where="gateway")
            raise InputError(f"answered {response.status}", where="gateway")
        return data

    def _state(self) -> ClusterState:
        assert self._files is not None
        states = [slot.state() for slot in self._slots]
        return ClusterState(
            version=VERSION,
            service=self.service.name,
            target=self.target,
            supervisor=self._supervisor,
            ready=self._ready,
            token_file=str(self._files.token),
            gateway=self._gateway.state(),
            replicas=[state for state in states if state is not None],
        )

    def _save(self) -> None:
        """Write the state file if possible: a full disk or a removed folder must not end the service."""
        assert self._files is not None
        try:
            self._files.restore(self._token)
            self._files.write(self._state())
        except (OSError, InputError) as error:
            if not self._unsaved:
                LOG.warning("the state cannot be saved, so `down` and `status` do not see it: %s", error)
            self._unsaved = True
        else:
            self._unsaved = False

    async def _stop_all(self, grace_s: float) -> None:
        """Stop the supervision, then the gateway, whose requests need the replicas, then the replicas."""
        await self._critical_tasks.stop()
        for sock in self._sockets:
            sock.close()
        self._sockets = []
        try:
            for group in ([self._gateway], self._slots):
                children = [slot.child for slot in group if slot.child is not None]
                await asyncio.gather(*(child.stop(grace_s and grace_s + KILL_AFTER_S) for child in children))
        finally:
            for slot in (self._gateway, *self._slots):
                if slot.child is not None:
                    slot.child.kill()
                    slot.child = None
            if self._session is not None:
                await self._session.close()
            self._forget()

    def _forget(self) -> None:
        if self._files is None:
            return
        with contextlib.suppress(OSError):
            if self._files.claimed:  # else the folder may belong to another cluster by now
                self._files.remove()
        self._files.unlock()
        if self._folder is None:
            shutil.rmtree(self._files.folder, ignore_errors=True)
        self._files = None


def _this_process() -> Identity:
    """Identity of this process; looked up once, since a lookup fails without file descriptors or memory."""
    identity = Identity.of(os.getpid())
    assert identity is not None
    return identity
