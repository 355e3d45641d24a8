"""Exceptions of a stage's own code, in this process or in a replica: each ends one request and nothing else."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator

import pytest

from kwiken.base.errors import DefinitionError
from kwiken.model.service.service import Service
from kwiken.model.service.stage import Stage
from kwiken.runtime.base.clock import SystemClock
from kwiken.runtime.base.errors import HandlerError
from kwiken.runtime.engine.executor import Executor
from kwiken.runtime.replica.server import ReplicaServer
from kwiken.runtime.wire.frames.transport import FrameTransport
from kwiken.runtime.wire.transport.base import Replica
from kwiken.runtime.wire.transport.local import LocalTransport, local_replicas
from tests.support.runtime.waiting import until


class PanicError(BaseException):
    """Exception like those of extensions that are not meant to be caught."""


async def odd(what: str) -> str:
    """Stage that fails in the requested way."""
    await asyncio.sleep(0)
    match what:
        case "exit":
            raise SystemExit(3)
        case "exit in a thread":
            await asyncio.to_thread(leave)
        case "keyboard":
            raise KeyboardInterrupt
        case "cancel":
            raise asyncio.CancelledError
        case "task cancelled":
            other = asyncio.create_task(asyncio.sleep(60))
            asyncio.get_running_loop().call_soon(other.cancel)
            await other
        case "panic":
            raise PanicError("unwrap of nothing")
    return what


def leave() -> None:
    raise SystemExit("bad usage")


SERVICE = Service.of("odd", [Stage(name="a", handler=odd, idempotent=True, replicas=2, timeout_ms=5000)])
WAYS = {
    "exit": "stage 'a': SystemExit: 3",
    "exit in a thread": "stage 'a': SystemExit: bad usage",
    "keyboard": "stage 'a': KeyboardInterrupt: ",
    "cancel": "stage 'a': CancelledError: its handler cancelled itself",
    "task cancelled": "stage 'a': CancelledError: its handler cancelled itself",
    "panic": "stage 'a': PanicError: unwrap of nothing",
}


@contextlib.asynccontextmanager
async def local() -> AsyncIterator[Executor]:
    yield Executor(
        SERVICE,
        LocalTransport(SERVICE),
        replicas=local_replicas(SERVICE),
        clock=SystemClock(),
        rng=random.Random(1),
    )


@contextlib.asynccontextmanager
async def remote() -> AsyncIterator[Executor]:
    async with contextlib.AsyncExitStack() as stack:
        replicas = []
        for number in range(2):
            server = ReplicaServer(SERVICE, "a")
            await server.start()
            stack.push_async_callback(server.stop, grace_s=0.0)
            replicas.append(Replica(f"a-{number}", "local", server.url))
        transport = await stack.enter_async_context(FrameTransport(SERVICE))
        yield Executor(
            SERVICE, transport, replicas={"a": replicas}, clock=SystemClock(), rng=random.Random(1)
        )


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("place", [local, remote], ids=["local", "remote"])
async def test_any_exception_of_a_handler_is_a_final_handler_error(way: str, place: type) -> None:
    async with place() as executor:
        with pytest.raises(HandlerError) as caught:
            await executor.run(way)
        assert str(caught.value) == WAYS[way]
        figures = executor.status()
        assert figures["stages"]["a"]["retries"] == 0
        assert not any(replica["ejected"] for replica in figures["stages"]["a"]["replicas"])
        assert (await executor.run("fine")).value == "fine"


@pytest.mark.parametrize("place", [local, remote], ids=["local", "remote"])
async def test_a_caller_that_gives_up_still_cancels_the_handler(place: type) -> None:
    """The client's cancellation must not count as the handler's own."""
    ended = []

    async def wait(_: str) -> str:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise
        return ""

    service = Service.of("waits", [Stage(name="a", handler=wait)])
    server = ReplicaServer(service, "a")
    await server.start()
    transport: LocalTransport | FrameTransport
    async with FrameTransport(service) as far:
        transport = LocalTransport(service) if place is local else far
        executor = Executor(
            service,
            transport,
            replicas={"a": [Replica("a-0", "local", server.url)]},
            clock=SystemClock(),
            rng=random.Random(1),
        )
        run = asyncio.create_task(executor.run("x"))
        await asyncio.sleep(0.05)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        await until(lambda: ended)
    await server.stop(grace_s=0.0)
    assert ended == ["cancelled"]


@pytest.mark.parametrize("way", [RuntimeError("no data"), SystemExit("no data")])
async def test_a_setup_that_raises_is_named_with_its_place(way: BaseException) -> None:
    def load() -> None:
        raise way

    service = Service.of("loads", [Stage(name="a", handler=odd, setup=load)])
    reason = (
        rf"stage 'a': its setup failed: {type(way).__name__}: no data \(at .*test_handler_errors\.py:\d+\)"
    )
    with pytest.raises(DefinitionError, match=reason):
        await LocalTransport(service).setup()
    server = ReplicaServer(service, "a")
    try:
        with pytest.raises(DefinitionError, match=reason):
            await server.start()
    finally:
        await server.stop(grace_s=0.0)
