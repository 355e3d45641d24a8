"""Foreign HTTP servers on aiohttp, and transports and executors that call them."""

from __future__ import annotations

import contextlib
import random
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

from aiohttp import web

from kwiken.model.service.service import Service
from kwiken.runtime.base.clock import SystemClock
from kwiken.runtime.engine.executor import Executor
from kwiken.runtime.wire.foreign.transport import ForeignTransport
from kwiken.runtime.wire.transport.base import Call, Replica
from kwiken.runtime.wire.transport.local import LocalTransport, local_replicas
from kwiken.runtime.wire.transport.wire import format_traceparent

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


@contextlib.asynccontextmanager
async def http_server(answer: Answer, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[Replica]:
    """A server that answers every request by a function, over TLS if it gets a context for that.

    The replica's id is its address.
    """
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", answer)
    runner = web.AppRunner(app, handle_signals=False, shutdown_timeout=0.2)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    try:
        port = runner.addresses[0][1]
        yield Replica(f"127.0.0.1:{port}", "local", f"http://127.0.0.1:{port}")
    finally:
        await runner.cleanup()


@contextlib.asynccontextmanager
async def executing(
    service: Service, replicas: dict[str, Sequence[Replica]], **settings: Any
) -> AsyncIterator[Executor]:
    """An executor whose foreign stages have these replicas; all others run in this process."""
    async with ForeignTransport(service, LocalTransport(service)) as transport:
        yield Executor(
            service,
            transport,
            replicas={**local_replicas(service), **replicas},
            clock=SystemClock(),
            rng=random.Random(1),
            control_share=0.0,
            **settings,
        )


def call_of(stage: str, *inputs: Any, shard: int = 0, within_s: float = 5.0) -> Call:
    """A call with these inputs."""
    return Call(
        stage=stage,
        args=inputs,
        shard=shard,
        attempt=0,
        deadline=time.monotonic() + within_s,
        priority=0,
        trace_id=0xABC,
        traceparent=format_traceparent(0xABC, 0xDEF),
    )
