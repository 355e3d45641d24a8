"""Raw HTTP test bench: gateway and replica in a thread of their own, and sockets that send raw bytes."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec
import uvloop

from kwiken.runtime.base.clock import SystemClock
from kwiken.runtime.engine.executor import Executor
from kwiken.runtime.gateway.server import Gateway
from kwiken.runtime.gateway.settings import GatewaySettings
from kwiken.runtime.process.log_limits import log_loop_error
from kwiken.runtime.replica.server import ReplicaServer
from kwiken.runtime.wire.transport.local import LocalTransport, local_replicas
from tests.support.services.http import service

WAIT_S = 20.0


@dataclass(frozen=True)
class Place:
    """Server under test, and the parts of a valid request to it."""

    port: int
    target: bytes
    kind: bytes
    body: bytes

    def good(self, *more: bytes, body: bytes | None = None, length: int | None = None) -> bytes:
        """Request with further headers; with another length than the body's if one is given."""
        body = self.body if body is None else body
        head = [
            b"POST %b HTTP/1.1" % self.target,
            b"Host: localhost",
            b"Content-Type: %b" % self.kind,
            b"Content-Length: %d" % (len(body) if length is None else length),
            *more,
        ]
        return b"\r\n".join(head) + b"\r\n\r\n" + body

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=WAIT_S)

    def status(self, *pieces: bytes) -> int:
        """Status of the response to these bytes; 0 if the connection is closed without one."""
        with self.connect() as sock:
            return status_of(sock, *pieces)

    def serves(self) -> bool:
        return self.status(self.good(b"Connection: close")) == 200


def status_of(sock: socket.socket, *pieces: bytes) -> int:
    """Send and read the first final status; 0 for none."""
    with contextlib.suppress(OSError):
        for piece in pieces:
            sock.sendall(piece)
    came = b""
    while True:
        while b"\r\n\r\n" not in came:
            try:
                data = sock.recv(65_536)
            except ConnectionError:
                return 0
            if not data:
                return 0
            came += data
        head, _, came = came.partition(b"\r\n\r\n")
        status = int(head.split(b" ", 2)[1])
        if status >= 200:
            return status


def until(condition: Callable[[], object], *, within_s: float = WAIT_S) -> None:
    """Wait until a condition holds; fails after a timeout."""
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.02)


@dataclass
class Servers:
    """Servers that run in the thread."""

    gateway: Gateway
    replica: ReplicaServer
    places: dict[str, Place]
    loop: asyncio.AbstractEventLoop
    stop: asyncio.Event = field(default_factory=asyncio.Event)


@contextlib.contextmanager
def servers(
    *,
    loop: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop,
    adapt: Callable[[Servers], None] | None = None,
    **settings: Any,
) -> Iterator[Servers]:
    """A gateway and a replica of the small test service, both with these settings.

    Args:
        loop: creates their event loop.
        adapt: called with the servers in their thread, before they listen.
        settings: settings of both servers.
    """
    up = threading.Event()
    made: list[Servers] = []

    async def main() -> None:
        executor = Executor(
            service,
            LocalTransport(service),
            replicas=local_replicas(service),
            clock=SystemClock(),
            rng=random.Random(1),
        )
        gateway = Gateway(service, executor, GatewaySettings(remote=False, **settings))
        replica = ReplicaServer(service, "middle", **settings)
        here = asyncio.get_running_loop()
        here.set_exception_handler(log_loop_error)
        running = Servers(gateway, replica, {}, here)
        if adapt is not None:
            adapt(running)
        await gateway.start()
        await replica.start()
        running.places = {
            "gateway": Place(
                int(gateway.url.rpartition(":")[2]), b"/v1/request", b"application/json", b'{"text":"a"}'
            ),
            "replica": Place(
                int(replica.url.rpartition(":")[2]),
                b"/call",
                b"application/msgpack",
                msgspec.msgpack.encode([{"text": "a"}]),
            ),
        }
        made.append(running)
        up.set()
        await running.stop.wait()
        await gateway.stop(grace_s=0.0)
        await replica.stop(grace_s=0.0)

    def run() -> None:
        with asyncio.Runner(loop_factory=loop) as runner:
            runner.run(main())

    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert up.wait(WAIT_S)
        yield made[0]
    finally:
        if made:
            made[0].loop.call_soon_threadsafe(made[0].stop.set)
        thread.join(WAIT_S)
