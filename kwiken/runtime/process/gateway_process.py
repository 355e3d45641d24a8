"""Gateway process: builds the gateway's parts, runs them, and shuts them down in order."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import os
import random
import socket
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any, Final

from kwiken.model.service.request_kinds import NO_LINES, RequestKinds
from kwiken.model.service.service import Service
from kwiken.runtime.base.clock import SystemClock
from kwiken.runtime.base.log_events import Event, about
from kwiken.runtime.decisions.ledger.shared_budget import SharedBudget
from kwiken.runtime.decisions.trace_sampling import TraceSampler
from kwiken.runtime.engine.executor import Executor
from kwiken.runtime.gateway.control.exchange import Exchange
from kwiken.runtime.gateway.control.name_resolver import NameResolver, SiblingNames, parse_endpoint
from kwiken.runtime.gateway.control.plan_in_force import PlanFile, PlanInForce
from kwiken.runtime.gateway.control.plan_store import PlanStore
from kwiken.runtime.gateway.control.siblings import NO_SIBLINGS, Siblings
from kwiken.runtime.gateway.observation.replica_watch import watch_replicas
from kwiken.runtime.gateway.server import Gateway
from kwiken.runtime.gateway.settings import GatewayConfig, GatewaySettings
from kwiken.runtime.gateway.steering.process import AutopilotProcess
from kwiken.runtime.metrics.push import pushed
from kwiken.runtime.process.critical_tasks import CriticalTasks
from kwiken.runtime.process.span_export import request_observer
from kwiken.runtime.process.specs import Announce, GatewaySpec
from kwiken.runtime.process.tokens import TokenFile, read_tokens
from kwiken.runtime.wire.foreign.transport import ForeignTransport
from kwiken.runtime.wire.frames.transport import FrameTransport
from kwiken.runtime.wire.tls.certificates import Certificates
from kwiken.runtime.wire.tls.clients import client_variables
from kwiken.runtime.wire.transport.base import Transport
from kwiken.runtime.wire.transport.handler_errors import log_handler_error
from kwiken.runtime.wire.transport.local import LocalTransport, local_replicas

LOG = logging.getLogger("kwiken.gateway")
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
    tls = Certificates(spec.tls) if spec.tls is not None else None
    to_replicas = Certificates(spec.replica_tls) if spec.replica_tls is not None else None
    tokens = _tokens(spec.token_file)
    token = tokens[0] if tokens else None
    async with _own_transport(spec, service, to_replicas) as own, _transport(service, own) as transport:
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
            siblings = SiblingNames([parse_endpoint(text) for text in spec.siblings], secure=tls is not None)
            exchange = _exchange(spec, executor, _siblings(spec, siblings, token, tls))
            gateway = Gateway(
                service,
                executor,
                GatewaySettings(
                    **spec.part(GatewayConfig),
                    token=token,
                    remote=not spec.local,
                    doors=DOORS if spec.grpc_port is not None else 1,
                    name=spec.name,
                    kinds=kinds,
                    sockets=[socket.socket(fileno=number) for number in spec.sockets],
                    certificates=tls,
                ),
                exchange=exchange,
                gateways=spec.gateways,
            )
            gateway.control.take_tokens(tokens)
            gateway.control.set_replicas(spec.known)
            foreign = transport if isinstance(transport, ForeignTransport) else None
            names = NameResolver(endpoints, gateway.control, foreign.healthy if foreign else None)
            watch = functools.partial(watch_replicas, executor.replica_states)
            async with pushed(spec.metrics_otlp, lambda: gateway.metrics.resource, gateway.metrics.collect):
                watches: list[Callable[[], Coroutine[Any, Any, None]]] = []
                watches += [each.watch for each in (tls, to_replicas) if each is not None]
                watches += [siblings.watch] if spec.siblings else []
                watches += [] if spec.local else [watch]
                watches += _token_watches(spec, gateway)
                if spec.kept is not None or spec.siblings:
                    watches.append(exchange.run)
                resolver = names if endpoints else None
                await _serve(spec, gateway, exchange, watches, resolver, foreign, stop, announce)


def _kinds(spec: GatewaySpec, service: Service) -> RequestKinds | None:
    """Place in which requests name their kind: as specified, else as the service says; None for no lines."""
    told = service.lines if spec.lines is None else spec.lines
    return None if told in (None, NO_LINES) else RequestKinds.parse(told, where="--lines")


def _siblings(
    spec: GatewaySpec, names: SiblingNames, token: str | None, tls: Certificates | None
) -> Siblings:
    if not spec.siblings and len(spec.gateways) <= 1:
        return NO_SIBLINGS
    return Siblings(lambda: [*spec.gateways, *names.urls()], token, tls=tls)


def _exchange(spec: GatewaySpec, executor: Executor, siblings: Siblings) -> Exchange:
    """Exchange with the siblings; a gateway without any has the whole budget."""
    name = spec.name or siblings.instance
    budget = SharedBudget(
        executor.ledger,
        name,
        time.monotonic(),
        least=0 if spec.siblings else max(1, len(spec.gateways)),
        first=not (spec.siblings or spec.takes_over) or len(spec.gateways) == 1,
    )
    store = PlanStore(Path(spec.kept)) if spec.kept is not None else None
    accounts = Path(f"{spec.kept}.{spec.name}") if spec.kept is not None else None
    plans = PlanInForce(executor, name, store)
    return Exchange(plans, siblings, budget, executor.ledger, accounts)


async def _serve(
    spec: GatewaySpec,
    gateway: Gateway,
    exchange: Exchange,
    watches: list[Callable[[], Coroutine[Any, Any, None]]],
    names: NameResolver | None,
    foreign: ForeignTransport | None,
    stop: asyncio.Event,
    announce: Announce,
) -> None:
    plan_file = PlanFile(Path(spec.plan), exchange.plans) if spec.plan is not None else None
    _begin_with_plan(exchange.plans, plan_file, takes_over=spec.takes_over and spec.kept is not None)
    exchange.restore()
    if plan_file is not None:
        watches.append(plan_file.watch)
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
                    command += ["--token-file", spec.token_file] if spec.token_file is not None else []
                    autopilot = AutopilotProcess(command, functools.partial(_autopilot_variables, spec))
                    critical_tasks.add(autopilot.keep())
                await stop.wait()
            finally:
                if spec.siblings:
                    await exchange.leave()
                await gateway.stop(grace_s=spec.grace_s)
                exchange.save(last=True)
    finally:
        await critical_tasks.stop()
        critical_tasks.check()


@contextlib.asynccontextmanager
async def _over_grpc(spec: GatewaySpec, gateway: Gateway) -> AsyncIterator[None]:
    """Take requests over gRPC too, if the specification says so, until the gateway has stopped."""
    if spec.grpc_port is None:
        yield
        return
    from kwiken.runtime.gateway.grpc_server import GrpcGatewayServer

    server = GrpcGatewayServer(
        gateway.door,
        host=spec.host,
        port=spec.grpc_port,
        doors=DOORS,
        shared=spec.shares_grpc_port,
        tls=gateway.tls,
    )
    gateway.report_stopping = server.report_stopping
    try:
        await server.start()
        LOG.warning("requests over gRPC at %s", server.url, extra=about(Event.GRPC_SERVING))
        yield
    finally:
        await server.stop()


def _begin_with_plan(plans: PlanInForce, plan_file: PlanFile | None, *, takes_over: bool) -> None:
    """Put the first plan in force."""
    if plan_file is not None and takes_over:
        plan_file.resume()
    elif plan_file is not None:
        plan_file.load(first=True)
    elif takes_over and (saved := plans.saved()) is not None:
        plans.resume(saved)


@contextlib.asynccontextmanager
async def _transport(service: Service, own: LocalTransport | FrameTransport) -> AsyncIterator[Transport]:
    """Transport of all stages: the given one, within one for foreign services if there are any."""
    if all(stage.remote_call is None for stage in service.stages.values()):
        yield own
        return
    async with ForeignTransport(service, own) as foreign:
        yield foreign


@contextlib.asynccontextmanager
async def _own_transport(
    spec: GatewaySpec, service: Service, tls: Certificates | None
) -> AsyncIterator[LocalTransport | FrameTransport]:
    if spec.local:
        local = LocalTransport(service, report=functools.partial(log_handler_error, LOG))
        await local.setup()
        yield local
        return
    async with FrameTransport(service, raw=True, tls=tls) as remote:
        yield remote


def _autopilot_variables(spec: GatewaySpec) -> dict[str, str]:
    """Variables that hand the token and the certificate of this gateway to a process beside it."""
    tokens = _tokens(spec.token_file)
    found = {TOKEN_VARIABLE: tokens[0]} if tokens else {}
    return found | (client_variables(spec.tls) if spec.tls is not None else {})


def _tokens(path: str | None) -> tuple[str, ...]:
    """Tokens of the control routes: from the file, else from the environment, else none."""
    if path is None:
        token = os.environ.get(TOKEN_VARIABLE, "").strip()
        return (token,) if token else ()
    return read_tokens(path)


def _token_watches(spec: GatewaySpec, gateway: Gateway) -> list[Callable[[], Coroutine[Any, Any, None]]]:
    """What follows the file of tokens, if there is one."""
    if spec.token_file is None:
        return []

    def take(tokens: tuple[str, ...]) -> None:
        gateway.control.take_tokens(tokens)
        gateway.control.siblings.take_token(tokens[0])

    return [TokenFile(spec.token_file, take).watch]
