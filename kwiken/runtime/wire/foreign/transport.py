"""Foreign transport: calls of foreign services; all others are left to another transport."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Final, Protocol, Self

from kwiken.base.errors import DefinitionError, InputError
from kwiken.model.service.remote import GrpcCall, HttpCall
from kwiken.model.service.service import Service
from kwiken.model.service.stage import Stage
from kwiken.runtime.base.clock import Clock, SystemClock
from kwiken.runtime.base.errors import DeadlineError
from kwiken.runtime.base.event_loop import cancel_and_wait
from kwiken.runtime.base.log_events import Event, about
from kwiken.runtime.wire.foreign.http_calls import HttpCaller
from kwiken.runtime.wire.foreign.http_pool import Pool
from kwiken.runtime.wire.tls.outside import OutsideTls
from kwiken.runtime.wire.transport.base import Call, Replica, Reply, Transport
from kwiken.runtime.wire.transport.wire import MAX_BODY

LOG = logging.getLogger("kwiken.foreign")
# Seconds for which a connection is kept without use: shorter than common servers keep it (Node.js and
# uvicorn: 5 s), so that no call is sent into a connection that is being closed.
IDLE_S: Final = 4.0
PROBE_TIMEOUT_S: Final = 5.0  # of a probe after a lost race
CHECK_TIMEOUT_S: Final = 2.0  # of a regular health check
CHECKS_TO_LEAVE_OUT: Final = 2  # failed health checks in a row after which a replica gets no calls
MAX_ADDRESSES: Final = 65_536


class Caller(Protocol):
    """Calls one stage's foreign service."""

    @property
    def checks_health(self) -> bool:
        """Whether the service has a health check of its own."""

    async def check(self, replicas: Sequence[Replica]) -> str | None:
        """Check the definition at the service; returns why it could not be asked, None if it was.

        Raises:
            DefinitionError: the service cannot be called as defined.
        """

    async def close(self) -> None:
        """Close what the caller opened."""

    async def call(self, replica: Replica, call: Call, remaining_s: float) -> Reply:
        """Send one call within the time until its deadline, seconds; errors as in `Transport.call`."""

    async def healthy(self, replica: Replica) -> bool:
        """Whether a replica answers, and reports no trouble where it has a health check."""


class ForeignTransport:
    """Sends calls to foreign services; use as an asynchronous context manager.

    Args:
        inner: transport of all stages without `remote`.
        clock: clock of the executor, by which deadlines are given; None for the system's.
        max_body: longest answer, bytes; a longer one is an error.
    """

    def __init__(
        self, service: Service, inner: Transport, *, clock: Clock | None = None, max_body: int = MAX_BODY
    ) -> None:
        self._service = service
        self._inner = inner
        clocks = clock if clock is not None else SystemClock()
        self._now, self._time_ns = clocks.monotonic, clocks.time_ns
        self._max_body = max_body
        self._callers: dict[str, Caller] = {}
        self._stage_at: dict[str, str] = {}  # by address, the stage whose call went there last
        self._failed_checks: dict[tuple[str, str], int] = {}
        self._probes: set[asyncio.Task[None]] = set()
        self._opened = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Open the connections.

        Raises:
            DefinitionError: a stage's foreign service cannot be called as defined; names the stage.
        """
        async with contextlib.AsyncExitStack() as opening:
            plain = self._pool(None)
            opening.push_async_callback(plain.close)
            for stage in self._service.stages.values():
                if stage.remote_call is None:
                    continue
                tls = tls_of(stage.name, stage.remote_call)
                pool = plain
                if tls is not None and isinstance(stage.remote_call, HttpCall):
                    pool = self._pool(tls)
                    opening.push_async_callback(pool.close)
                caller = self._callers[stage.name] = self._caller(stage, pool, tls)
                opening.push_async_callback(caller.close)
            self._opened = opening.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Drop every probe and close every connection."""
        await cancel_and_wait(tuple(self._probes))
        self._callers.clear()
        await self._opened.aclose()

    def _pool(self, tls: OutsideTls | None) -> Pool:
        pool = partial(Pool, max_body=self._max_body, idle_s=IDLE_S, now=self._now)
        return pool() if tls is None else pool(tls=lambda: tls.client, tls_name=tls.name)

    def _caller(self, stage: Stage, pool: Pool, tls: OutsideTls | None) -> Caller:
        if isinstance(stage.remote_call, HttpCall):
            return HttpCaller(self._service, stage, pool, self._time_ns)
        from kwiken.runtime.wire.foreign.grpc_calls import GrpcCaller

        return GrpcCaller(self._service, stage, self._max_body, self._now, tls)

    def call(self, replica: Replica, call: Call) -> Coroutine[Any, Any, Reply]:
        """Send one call; see `Transport`.

        Raises:
            DeadlineError: the deadline has passed before the call is sent.
        """
        caller = self._callers.get(call.stage)
        return self._inner.call(replica, call) if caller is None else self._call(caller, replica, call)

    async def _call(self, caller: Caller, replica: Replica, call: Call) -> Reply:
        remaining_s = call.deadline - self._now()
        if remaining_s <= 0:
            raise DeadlineError(f"stage {call.stage!r}: the deadline passed before the call was sent")
        if self._stage_at.get(replica.address) != call.stage:
            if len(self._stage_at) >= MAX_ADDRESSES:
                self._stage_at.clear()
            self._stage_at[replica.address] = call.stage
        return await caller.call(replica, call, remaining_s)

    def ask(self, replica: Replica, heard: Callable[[bool], None]) -> None:
        """Probe whether a replica is alive; see `Transport`."""
        caller = self._callers.get(self._stage_at.get(replica.address, ""))
        if caller is None:
            self._inner.ask(replica, heard)
            return
        task = asyncio.get_running_loop().create_task(self._ask(caller, replica, heard))
        self._probes.add(task)
        task.add_done_callback(self._probes.discard)

    async def _ask(self, caller: Caller, replica: Replica, heard: Callable[[bool], None]) -> None:
        heard(await _healthy(caller, replica, PROBE_TIMEOUT_S))

    async def check(self, replicas: Mapping[str, Sequence[Replica]]) -> None:
        """Check the definitions of foreign stages at their services; those that do not answer are logged.

        Raises:
            DefinitionError: a service cannot be called as defined, for example for an unknown method; names
                the stage.
        """
        for stage, caller in self._callers.items():
            reason = await caller.check(replicas.get(stage, ()))
            if reason is not None:
                LOG.warning(
                    "stage %r: its service cannot be asked for its types yet: %s",
                    stage,
                    reason,
                    extra=about(Event.FOREIGN_SILENT),
                )

    async def healthy(self, stage: str, replicas: Sequence[Replica]) -> list[Replica]:
        """Replicas of a stage without those whose own health checks failed; all of them if all failed."""
        caller = self._callers.get(stage)
        if caller is None or not caller.checks_health or not replicas:
            return list(replicas)
        checked = await asyncio.gather(*(_healthy(caller, each, CHECK_TIMEOUT_S) for each in replicas))
        known = {key: count for key, count in self._failed_checks.items() if key[0] != stage}
        for replica, passed in zip(replicas, checked, strict=True):
            key = stage, replica.address
            known[key] = 0 if passed else self._failed_checks.get(key, 0) + 1
        self._failed_checks = known
        kept = [each for each in replicas if known[stage, each.address] < CHECKS_TO_LEAVE_OUT]
        return kept or list(replicas)


def tls_of(stage: str, remote: HttpCall | GrpcCall) -> OutsideTls | None:
    """TLS of the calls of a stage; None for calls without.

    Raises:
        DefinitionError: a file that the definition names cannot be used; names stage and file.
    """
    if not remote.over_tls:
        return None
    try:
        return OutsideTls(
            remote.host, authorities=remote.tls_ca, certificate=remote.tls_cert, key=remote.tls_key
        )
    except InputError as error:
        raise DefinitionError(f"remote: {error}", stage=stage) from error


async def _healthy(caller: Caller, replica: Replica, within_s: float) -> bool:
    try:
        async with asyncio.timeout(within_s):
            return await caller.healthy(replica)
    except TimeoutError:
        return False
