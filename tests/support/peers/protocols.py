"""Calls between gateway and replicas, and faults at their sockets."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest
from grpc import aio

from kwiken.model.service.service import Service
from kwiken.runtime.replica.server import ReplicaServer
from kwiken.runtime.wire.frames.transport import FrameTransport
from kwiken.runtime.wire.transport.base import Call, Replica
from kwiken.runtime.wire.transport.wire import format_traceparent
from tests.support.peers.misbehaving import answer, answering, framed, misbehaving, saying, scripted_replica
from tests.support.runtime.waiting import until

Server = ReplicaServer
UNFIT = msgspec.msgpack.encode(5)  # an answer of another type than any stage's in the tests


@dataclass(frozen=True)
class Protocol:
    """One protocol: its client, its server, and a server that answers every call in one wrong way."""

    scheme: Literal["http", "grpc"]
    transport: type[FrameTransport]
    server: type[Server]
    answering: Callable[[str], contextlib.AbstractAsyncContextManager[Replica]]

    @contextlib.asynccontextmanager
    async def serving(
        self, target: Service, stage: str, **settings: Any
    ) -> AsyncIterator[tuple[Server, Replica]]:
        """A replica of a stage in this process."""
        server = self.server(target, stage, **settings)
        await server.start()
        try:
            yield server, self.replica_at(server.url)
        finally:
            await server.stop(grace_s=0.0)

    def replica_at(self, url: str, name: str = "r0") -> Replica:
        return Replica(id=name, node="here", address=url)

    def __str__(self) -> str:
        return self.scheme


# How a server that is no good replica answers a call, in the words of both protocols.
WRONG_ANSWERS = ("of another type", "without figures", "of no message", "of another service", "full")


@contextlib.asynccontextmanager
async def _answering(how: str) -> AsyncIterator[Replica]:
    if how == "of another service":
        async with misbehaving(saying(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")) as stranger:
            yield stranger
        return
    said: dict[str, Callable[[int], bytes]] = {
        "of another type": lambda number: framed(answer(number, UNFIT)),
        "without figures": lambda number: framed(answer(number, UNFIT, busy_ms=float("nan"))),
        "of no message": lambda _: b"220 mail.example ESMTP\r\n\r\n",
        "full": lambda number: framed(answer(number, b"full", status=503, refused="full")),
    }
    async with scripted_replica(answering(said[how])) as replica:
        yield replica


HTTP = Protocol("http", FrameTransport, ReplicaServer, _answering)
GRPC = Protocol("grpc", FrameTransport, ReplicaServer, _answering)  # at the door of gateways
PROTOCOLS = pytest.mark.parametrize("protocol", [HTTP], ids=str)


def call_of(
    stage: str,
    *args: Any,
    shard: int = 0,
    deadline_s: float = 5.0,
    priority: int = 0,
    span_id: int = 7,
    threads: int = 1,
) -> Call:
    return Call(
        stage=stage,
        args=args,
        shard=shard,
        attempt=0,
        deadline=time.monotonic() + deadline_s,
        priority=priority,
        trace_id=5,
        traceparent=format_traceparent(5, span_id),
        threads=threads,
    )


class Relay:
    """Relay of bytes before a server, at which connections can be held or cut."""

    def __init__(self, target: Replica) -> None:
        self._scheme, _, place = target.address.partition("://")
        self._target = place.rpartition(":")
        self._replica = target
        self._writers: set[asyncio.StreamWriter] = set()
        self._flows = asyncio.Event()
        self._flows.set()
        self._held: list[asyncio.Event] = []
        self.carried = 0  # bytes

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Replica]:
        """The replica, as it is reached through the relay."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        try:
            yield msgspec.structs.replace(
                self._replica, id="relayed", address=f"{self._scheme}://127.0.0.1:{port}"
            )
        finally:
            server.close()
            self.flow()
            self.cut()
            await server.wait_closed()
            await until(lambda: not self._writers)

    def hold(self) -> None:
        """Carry nothing more, and keep connections open: as a paused process does."""
        self._flows.clear()

    def flow(self) -> None:
        for flows in (self._flows, *self._held):
            flows.set()

    def freeze_open(self) -> None:
        """Carry nothing more on the connections that are open, as after a change of routes; new ones work."""
        self._flows.clear()
        self._held.append(self._flows)
        self._flows = asyncio.Event()
        self._flows.set()

    def cut(self) -> None:
        """Reset every connection."""
        for writer in self._writers:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, _, port = self._target
        flows = self._flows
        there, to_there = await asyncio.open_connection(host, int(port))
        self._writers |= {writer, to_there}
        try:
            await asyncio.gather(self._carry(reader, to_there, flows), self._carry(there, writer, flows))
        finally:
            self._writers -= {writer, to_there}

    async def _carry(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, flows: asyncio.Event
    ) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await source.read(1 << 16):
                await flows.wait()
                self.carried += len(data)
                sink.write(data)
                await sink.drain()
        sink.close()


@contextlib.asynccontextmanager
async def nothing_leaked() -> AsyncIterator[None]:
    """Check that a block leaves no task and no descriptor behind."""
    gc.freeze()  # a collection then scans what the block made, and not what all tests before it left
    try:
        await _warm_up()
        tasks, descriptors = asyncio.all_tasks(), _descriptors()
        yield

        def is_clean() -> bool:
            gc.collect()
            return asyncio.all_tasks() <= tasks and _descriptors() <= descriptors

        await until(is_clean)
    finally:
        gc.unfreeze()


async def _warm_up() -> None:
    """Open what gRPC's core opens once in a process, and never closes."""
    async with aio.insecure_channel("ipv4:127.0.0.1:1") as channel:
        with contextlib.suppress(aio.AioRpcError):
            await channel.unary_unary("/a.B/C")(b"", timeout=5.0)
    server = aio.server()
    server.add_insecure_port("127.0.0.1:0")
    await server.start()
    await server.stop(None)
    del channel, server
    gc.collect()
    await asyncio.sleep(0)


def _descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())
