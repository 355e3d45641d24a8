"""Gateway process: builds the gateway's parts, runs them, and shuts them down in order."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import os
import random
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any, Final

from kwiken.base.errors import InputError
from kwiken.base.machine import read_file
from kwiken.model.service import NO_LINES, RequestKinds, Service
from kwiken.runtime.base.clock import SystemClock
from kwiken.runtime.base.log_events import Event, about
from kwiken.runtime.decisions import TraceSampler
from kwiken.runtime.engine import Executor
from kwiken.runtime.gateway import Gateway, GatewaySettings
from kwiken.runtime.gateway.control import (
    Author,
    Control,
    NameResolver,
    PlanFile,
    PlanStore,
    SharedPlan,
    SiblingNames,
    Siblings,
    parse_endpoint,
)
from kwiken.runtime.gateway.observation import watch_replicas
from kwiken.runtime.gateway.steering import AutopilotProcess
from kwiken.runtime.metrics import pushed
from kwiken.runtime.process.critical_tasks import CriticalTasks
from kwiken.runtime.process.span_export import request_observer
from kwiken.runtime.process.specs import Announce, GatewaySpec
from kwiken.runtime.wire.foreign import ForeignTransport
from kwiken.runtime.wire.grpc import RemoteTransport
from kwiken.runtime.wire.transport import LocalTransport, Transport, local_replicas, log_handler_error

LOG = logging.getLogger("kwiken.gateway")
MAX_TOKEN: Final = 4096  # bytes
TOKEN_VARIABLE: Final = "KWIKEN_TOKEN"  # noqa: S105 - the variable's name
DOORS: Final = 2  # of a gateway that takes requests over gRPC too


async def serve_gateway(spec: GatewaySpec, service: Service, stop: asyncio.Event, announce: Announce) -> None:
    """Serve until told to stop, then stop gracefully.

    Args:
        stop: set when the process is told to stop.
        announce: called with the URL once the gateway is ready.

    Raises:
        KwikenError: the gateway cannot be served as specified; names the option or file.
    """
    told = {
        name: stage.remote_call.endpoints
        for name, stage in service.stages.items()
        if stage.remote_call is not None
    }
    endpoints = {
        stage: [parse_endpoint(text) for text in those] for stage, those in (told | spec.replicas).items()
    }
    kinds = _kinds(spec, service)
    clock = SystemClock()
    async with _own_transport(spec, service) as own, _transport(service, own) as transport:
        with request_observer(spec, service) as observer:
            executor = Executor(
                service,
                transport,
                replicas=local_replicas(service) if spec.local else {name: [] for name in service.stages},
                clock=clock,
                rng=random.Random(),  # noqa: S311 - no secrets
                observer=observer,
                sampler=TraceSampler(spec.trace_share) if spec.trace == "sampled" else None,
                lines=kinds is not None,
            )
            gateway = Gateway(
                service,
                executor,
                GatewaySettings(
                    host=spec.host,
                    port=spec.port,
                    token=_token(spec.token_file),
                    remote=not spec.local,
                    max_bodies=spec.max_bodies,
                    allowed_hosts=spec.allowed_hosts,
                    metrics=spec.metrics,
                    doors=DOORS if spec.grpc_port is not None else 1,
                    name=spec.name,
                    kinds=kinds,
                    sockets=[socket.socket(fileno=number) for number in spec.sockets],
                ),
            )
            if isinstance(own, RemoteTransport):
                gateway.control.prepare = own.prepare
            gateway.control.set_replicas(spec.known)
            gateway.control.gateways = tuple(spec.gateways)
            siblings = SiblingNames([parse_endpoint(text) for text in spec.siblings])
            if spec.siblings or len(spec.gateways) > 1:
                gateway.control.siblings = Siblings(
                    lambda: [*spec.gateways, *siblings.urls()], _token(spec.token_file)
                )
                gateway.control.passes_plans_on = bool(spec.siblings)
            foreign = transport if isinstance(transport, ForeignTransport) else None
            names = NameResolver(endpoints, gateway.control, foreign.healthy if foreign else None)
            watch = functools.partial(watch_replicas, executor.replica_states)
            async with pushed(spec.metrics_otlp, lambda: gateway.metrics.resource, gateway.metrics.collect):
                watches = [siblings.watch] if spec.siblings else []
                watches += [] if spec.local else [watch]
                await _serve(spec, gateway, watches, names if endpoints else None, foreign, stop, announce)


def _kinds(spec: GatewaySpec, service: Service) -> RequestKinds | None:
    """Place in which requests name their kind: as specified, else as the service says; None for no lines."""
    told = service.lines if spec.lines is None else spec.lines
    return None if told in (None, NO_LINES) else RequestKinds.parse(told, where="--lines")


async def _serve(
    spec: GatewaySpec,
    gateway: Gateway,
    watches: list[Callable[[], Coroutine[Any, Any, None]]],
    names: NameResolver | None,
    foreign: ForeignTransport | None,
    stop: asyncio.Event,
    announce: Announce,
) -> None:
    plan_file = PlanFile(Path(spec.plan), gateway.control) if spec.plan is not None else None
    _begin_with_plan(spec, gateway.control, plan_file)
    if plan_file is not None:
        watches.append(plan_file.watch)
    if spec.kept is not None and spec.follows_kept:
        watches.append(SharedPlan(PlanStore(Path(spec.kept)), gateway.control).watch)
    if names is not None:
        found = await names.resolve()
        if foreign is not None:
            await foreign.check(found)
        watches.append(names.watch)
    critical_tasks = CriticalTasks()
    for watch in watches:
        critical_tasks.add(watch())
    try:
        async with _over_grpc(spec, gateway):
            try:
                await gateway.start()
                announce(gateway.url)
                if spec.autopilot:
                    command = [*spec.autopilot, "--url", gateway.url]
                    critical_tasks.add(AutopilotProcess(command, _token_variable(spec)).keep())
                await stop.wait()
            finally:
                await gateway.stop(grace_s=spec.grace_s)
    finally:
        await critical_tasks.stop()
        critical_tasks.check()


@contextlib.asynccontextmanager
async def _over_grpc(spec: GatewaySpec, gateway: Gateway) -> AsyncIterator[None]:
    """Take requests over gRPC too, if the specification says so, until the gateway has stopped."""
    if spec.grpc_port is None:
        yield
        return
    from kwiken.runtime.gateway import GrpcGatewayServer

    server = GrpcGatewayServer(
        gateway.door,
        host=spec.host,
        port=spec.grpc_port,
        budget=gateway.budget,
        doors=DOORS,
        shared=spec.shares_grpc_port,
    )
    gateway.report_stopping = server.report_stopping
    try:
        await server.start()
        LOG.warning("requests over gRPC at %s", server.url, extra=about(Event.GRPC_SERVING))
        yield
    finally:
        await server.stop()


def _begin_with_plan(spec: GatewaySpec, control: Control, plan_file: PlanFile | None) -> None:
    """Put the first plan in force, and save each plan for a gateway that takes over."""
    kept = PlanStore(Path(spec.kept)) if spec.kept is not None else None
    if kept is not None:

        def save(plan: bytes, *, author: Author | None, must: bool) -> None:
            stamp = plan_file.seen if plan_file is not None else None
            kept.save(plan, stamp, author=author, must=must)

        control.save_plan = save
        control.unsaved_reason = lambda: kept.trouble
    if kept is None or not spec.takes_over:
        if plan_file is not None:
            plan_file.load()
    elif plan_file is not None:
        plan_file.resume(kept)
    elif (note := kept.read()) is not None:
        kept.restore(note, control.apply)


@contextlib.asynccontextmanager
async def _transport(service: Service, own: LocalTransport | RemoteTransport) -> AsyncIterator[Transport]:
    """Transport of all stages: the given one, within one for foreign services if there are any."""
    if all(stage.remote_call is None for stage in service.stages.values()):
        yield own
        return
    async with ForeignTransport(service, own) as foreign:
        yield foreign


@contextlib.asynccontextmanager
async def _own_transport(
    spec: GatewaySpec, service: Service
) -> AsyncIterator[LocalTransport | RemoteTransport]:
    if spec.local:
        local = LocalTransport(service, report=functools.partial(log_handler_error, LOG))
        await local.setup()
        yield local
        return
    async with RemoteTransport(service, raw=True) as remote:
        yield remote


def _token_variable(spec: GatewaySpec) -> dict[str, str]:
    """Variable that hands the token of the control routes to a process beside the gateway."""
    token = _token(spec.token_file)
    return {TOKEN_VARIABLE: token} if token is not None else {}


def _token(path: str | None) -> str | None:
    """Token of the control routes: from the file, else from the environment, else None."""
    if path is None:
        return os.environ.get(TOKEN_VARIABLE, "").strip() or None
    try:
        token = read_file(Path(path), MAX_TOKEN).decode("utf-8").strip()
    except OSError as error:
        raise InputError(error.strerror or str(error), where=path) from error
    except UnicodeDecodeError as error:
        raise InputError("is not text", where=path) from error
    if not token:
        raise InputError("is empty; it must hold the control routes' token", where=path)
    return token
