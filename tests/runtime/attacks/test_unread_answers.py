"""Answers that clients do not read, and answers of stages that a gateway holds: bounded in memory and in time.

Memory is that of the server's process. All of it goes through the public doors, so that it holds whatever carries
the calls between the gateway and its replicas.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, Self

import pytest
import uvloop

from kwiken.runtime.cluster.cluster import Cluster
from kwiken.runtime.cluster.settings import ClusterSettings
from kwiken.runtime.wire.grpc.server import hang_up
from kwiken.runtime.wire.http_server.aiohttp_server import ClientTimeouts
from tests.support.peers.grpc_messages import Request
from tests.support.peers.raw_http import Servers, servers
from tests.support.peers.raw_http2 import Http2Client
from tests.support.runtime.door_processes import DoorProcess, server_process
from tests.support.runtime.server_processes import ask, free_port
from tests.support.runtime.waiting import soon, until

TARGET: Final = "tests.support.services.bodies:sized"
ASK: Final = "/kwiken.v1.Gateway/Ask"
MIB: Final = 1 << 20
BUDGET_MIB: Final = 32
# Memory above the start: the budget, twice as much for what is encoded at the moment, and the allocator's rest.
MAX_MIB: Final = 2 * BUDGET_MIB + 32
LOOPS: Final[list[Callable[[], asyncio.AbstractEventLoop]]] = [asyncio.new_event_loop, uvloop.new_event_loop]


@pytest.fixture
def gateway() -> Iterator[DoorProcess]:
    port, grpc_port = free_port(), free_port()
    with server_process(
        "serve", TARGET, "--port", str(port), "--grpc-port", str(grpc_port), "--local",
        "--bodies-mib", str(BUDGET_MIB), port=port, grpc_port=grpc_port,
    ) as found:  # fmt: skip
        soon(lambda: asked(port, answer=1) == 200)
        yield found


def asked(port: int, **sizes: int) -> int:
    return ask(f"http://127.0.0.1:{port}", "/v1/request", sizes)[0]


class Peak:
    """Highest memory of a process while something runs, MiB above the start."""

    def __init__(self, pid: int) -> None:
        self._file = Path(f"/proc/{pid}/statm")
        self._before = self.now
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self.mib = 0.0

    @property
    def now(self) -> float:
        return int(self._file.read_text().split()[1]) * 4096 / MIB

    def _watch(self) -> None:
        while not self._over.wait(0.01):
            self.mib = max(self.mib, self.now - self._before)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()


def post(**sizes: int) -> bytes:
    body = json.dumps(sizes).encode()
    return (
        b"POST /v1/request HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
    )


def unread(port: int, text: bytes) -> socket.socket:
    """Connection that sends requests and takes as little of the answers as a kernel can."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.settimeout(5.0)
    sock.connect(("127.0.0.1", port))
    with contextlib.suppress(OSError):
        sock.sendall(text)
    return sock


METRICS: Final = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.mark.parametrize(("size", "clients"), [(6 * MIB, 60), (400_000, 400), (15_000, 1500)])
def test_answers_that_http_clients_do_not_read_are_bounded(
    gateway: DoorProcess, size: int, clients: int
) -> None:
    with Peak(gateway.pid) as peak, contextlib.ExitStack() as stack:
        for _ in range(clients):
            stack.enter_context(unread(gateway.port, post(answer=size)))
        time.sleep(1.0)
    assert peak.mib < MAX_MIB
    soon(lambda: asked(gateway.port, answer=size) == 200)


@pytest.mark.parametrize("text", [post(answer=10_000), METRICS], ids=["requests", "metrics"])
def test_requests_that_are_sent_ahead_wait_until_their_client_reads(
    gateway: DoorProcess, text: bytes
) -> None:
    with Peak(gateway.pid) as peak, contextlib.ExitStack() as stack:
        for _ in range(40):
            stack.enter_context(unread(gateway.port, text * 2000))
        time.sleep(1.0)
    assert peak.mib < MAX_MIB


def test_pages_of_a_replica_that_clients_do_not_read_are_bounded() -> None:
    port = free_port()
    with server_process(
        "stage", TARGET, "--stage", "inner", "--port", str(port), "--bodies-mib", str(BUDGET_MIB),
        port=port, grpc_port=0,
    ) as replica, Peak(replica.pid) as peak, contextlib.ExitStack() as stack:  # fmt: skip
        for _ in range(40):
            stack.enter_context(unread(port, METRICS * 2000))
        time.sleep(1.0)
    assert peak.mib < MAX_MIB


@pytest.mark.parametrize(("size", "streams"), [(6 * MIB, 60), (100_000, 800), (30, 3000)])
def test_answers_that_grpc_clients_do_not_read_are_bounded(
    gateway: DoorProcess, size: int, streams: int
) -> None:
    message = Request(json=json.dumps({"answer": size})).SerializeToString()
    framed = b"\0" + len(message).to_bytes(4, "big") + message
    with contextlib.ExitStack() as stack, Peak(gateway.pid) as peak:
        clients = [
            stack.enter_context(contextlib.closing(Http2Client(gateway.grpc_port, takes=0)))
            for _ in range(max(1, streams // 1000))
        ]
        for number in range(streams):
            client = clients[number % len(clients)]
            client.read()
            for stream in client.open(ASK):
                client.write(stream, framed, ends=True)
        end = time.monotonic() + 2.0
        while time.monotonic() < end:
            for client in clients:
                client.read()
            time.sleep(0.02)
    assert peak.mib < MAX_MIB
    soon(lambda: asked(gateway.port, answer=1) == 200)


def test_a_client_that_does_not_read_keeps_nobody_else_from_small_answers(gateway: DoorProcess) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(4):
            stack.enter_context(unread(gateway.port, post(answer=4 * MIB)))
        time.sleep(0.5)
        assert {asked(gateway.port, answer=100) for _ in range(20)} == {200}


async def test_answers_of_stages_are_bounded_while_requests_hold_them() -> None:
    settings = ClusterSettings(max_bodies=BUDGET_MIB * MIB)
    async with Cluster(TARGET, settings, replicas={}) as cluster:
        port = int(cluster.gateway_url.rpartition(":")[2])
        (pid,) = cluster.gateway_pids
        assert await asyncio.to_thread(asked, port, inner=MIB) == 200
        with Peak(pid) as peak, ThreadPoolExecutor(24) as pool:
            loop = asyncio.get_running_loop()
            calls = [
                loop.run_in_executor(pool, lambda: asked(port, inner=3 * MIB, answer=1)) for _ in range(48)
            ]
            statuses = Counter(await asyncio.gather(*calls))
        assert set(statuses) == {200, 503}
        assert peak.mib < MAX_MIB
        await asyncio.to_thread(soon, lambda: asked(port, inner=MIB) == 200)


def impatient(running: Servers) -> None:
    """Clients get half a second to read something."""
    running.gateway._listener._timeouts = ClientTimeouts(send_s=0.5, sweep_s=0.1)


@pytest.mark.parametrize("loop", LOOPS, ids=["asyncio", "uvloop"])
def test_a_client_that_reads_nothing_of_its_answer_is_hung_up_on(
    loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    with servers(loop=loop, adapt=impatient) as running:
        place = running.places["gateway"]
        page = METRICS * 200
        with unread(place.port, page) as sock:
            soon(lambda: not list(running.gateway._listener._web.connections))  # type: ignore[union-attr]
            assert running.gateway.door.budget.taken == 0
            del sock
        with place.connect() as slow:  # reads a little all the time
            slow.sendall(page)
            total = 0
            for _ in range(20):
                total += len(slow.recv(20_000))
                time.sleep(0.1)
            assert total > 100_000


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_a_grpc_client_that_takes_too_long_loses_its_connection(host: str) -> None:
    peers: list[str] = []
    ended: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, port = writer.get_extra_info("peername")[:2]
        peer = f"ipv4:{host}:{port}" if ":" not in host else f"ipv6:%5B{host}%5D:{port}"
        peers.append(peer)
        await reader.read()
        writer.close()
        ended.append(peer)

    async with await asyncio.start_server(serve, host, 0) as server:
        port = server.sockets[0].getsockname()[1]
        _, writer = await asyncio.open_connection(host, port)
        await until(lambda: len(peers) == 1)
        _, other = await asyncio.open_connection(host, port)
        await until(lambda: len(peers) == 2)
        hang_up(peers[0])
        await until(lambda: ended == peers[:1])
        other.write(b"still open")
        await other.drain()
        for each in (writer, other):
            each.close()
        await until(lambda: ended == peers)
