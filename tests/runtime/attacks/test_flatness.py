"""Memory, files and threads under mixed load with every kind of bad peer at once: they do not grow.

The slow test lasts five minutes and prints the slope of each with its error. What comes before, a third of that
time, is left out: pools start their threads (scrapes that come at once need them all), the live page and the queue of
spans get their memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import grpc
import numpy as np
import pytest

from tests.support.peers.foreign_grpc import Stock, grpc_server
from tests.support.peers.grpc_messages import Request, ask_of
from tests.support.peers.raw_http2 import Http2Client
from tests.support.runtime.door_processes import DoorProcess, server_process
from tests.support.runtime.flatness import GRAINS, KINDS, described, sample_of
from tests.support.runtime.server_processes import ask, free_port
from tests.support.runtime.waiting import soon
from tests.support.services import mixed

TARGET: Final = "tests.support.services.mixed:service"
ASK, WATCH = "/kwiken.v1.Gateway/Ask", "/grpc.health.v1.Health/Watch"
EVERY_S: Final = 0.5  # interval of samples
# Beside what one event may add: gRPC's own memory comes and goes in steps of 7.15 MiB, of which two are no growth.
SPARE: Final = (2 * 7.15, *GRAINS[1:])
# Ends of a peer's talk; one that is cancelled must not end by that, which `asyncio.streams` would log.
GONE: Final = (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError)
SCRAPES: Final = 64  # of a process at once, so that its pool of eight threads is full
PAUSE_S: Final = 0.02  # between two requests of one client
OK: Final = b"HTTP/1.1 200 OK\r\n"
# One of these answers in ten comes from the foreign HTTP service; all others are sound.
STRANGE: Final = (
    b"HTTP/1.1 103 Early Hints\r\n\r\n" * 10_000,
    OK + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\n1\r\n" * 10_000,
    OK + b"Content-Length: 5\r\n\r\n" + b"1" * 100_000,
    OK + b"Content-Length: 500\r\n\r\n1",
    b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",
    b"\0" * 5000,
    b"",
)


class Peers:
    """Bad peers of the gateway in a loop of their own: foreign services, and a collector of which every tenth answer drips.

    A collector that never answers fills the queue of spans first, which holds 65,536 of them.

    Attributes:
        ports: ports of the HTTP service and the collector; that of gRPC comes once it runs.
    """

    def __init__(self) -> None:
        self.http_port = self.grpc_port = self.collector_port = 0
        self._number = itertools.count()

    async def _http(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer), contextlib.suppress(*GONE):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
                await reader.readexactly(int(length or 0))
                number = next(self._number)
                if number % 10 == 0:
                    writer.write(STRANGE[number // 10 % len(STRANGE)])
                    break
                writer.write(OK + b"Content-Length: 1\r\n\r\n7")
                await writer.drain()

    async def _collects(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer), contextlib.suppress(*GONE):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
                await reader.readexactly(int(length or 0))
                if next(self._number) % 10 == 0:
                    break
                writer.write(OK + b"Content-Length: 0\r\n\r\n")
                await writer.drain()
            writer.write(OK + b"Content-Length: 100000\r\n\r\n")
            for _ in range(4):
                writer.write(b"x")
                await writer.drain()
                await asyncio.sleep(0.5)

    async def _stock(self, question: Any, context: Any) -> Any:
        number = next(self._number)
        if number % 10 == 5:
            kind = number // 10 % 3
            if kind == 0:
                return Stock(sku="x" * 3_000_000)
            if kind == 1:
                await context.abort(grpc.StatusCode.UNAVAILABLE, "gone " * 50)
            await asyncio.sleep(3.0)
        return Stock(sku=question.sku, pieces=1)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with contextlib.AsyncExitStack() as stack:
            for name, serve in (("http_port", self._http), ("collector_port", self._collects)):
                server = await asyncio.start_server(serve, "127.0.0.1", 0)
                stack.callback(server.close)
                setattr(self, name, server.sockets[0].getsockname()[1])
            replica = await stack.enter_async_context(grpc_server(self._stock))
            self.grpc_port = int(replica.address.rpartition(":")[2])
            yield


@contextlib.contextmanager
def peers() -> Iterator[Peers]:
    """Bad peers in a thread."""
    found, ready, loop = Peers(), threading.Event(), asyncio.new_event_loop()
    over = asyncio.Event()

    async def main() -> None:
        async with found.running():
            ready.set()
            await over.wait()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        await asyncio.sleep(0.1)  # transports that were closed end

    thread = threading.Thread(target=lambda: loop.run_until_complete(main()))
    thread.start()
    try:
        assert ready.wait(20)
        yield found
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join()
        loop.close()


class Mixed:
    """Sound clients over both doors, and one attacker after the other, until the end."""

    def __init__(self, gateway: DoorProcess) -> None:
        self._gateway = gateway
        self._over = threading.Event()
        self.ended: Counter[str] = Counter()

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        threads = [threading.Thread(target=each) for each in (self._http, self._grpc, self._attacks)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._over.set()
            for thread in threads:
                thread.join()

    def _http(self) -> None:
        url = f"http://127.0.0.1:{self._gateway.port}"
        while not self._over.wait(PAUSE_S):
            try:
                self.ended[f"http {ask(url, '/v1/request', {'sku': 'tea'})[0]}"] += 1
            except OSError as error:
                self.ended[type(error).__name__] += 1

    def _grpc(self) -> None:
        with grpc.insecure_channel(f"127.0.0.1:{self._gateway.grpc_port}") as channel:
            send = ask_of(channel)
            while not self._over.wait(PAUSE_S):
                try:
                    send(Request(json=json.dumps({"sku": "tea"})), timeout=5.0)
                except grpc.RpcError as error:
                    self.ended[f"grpc {error.code().name}"] += 1
                else:
                    self.ended["grpc OK"] += 1

    def _attacks(self) -> None:
        attacks: tuple[Callable[[], None], ...] = (
            self._empty_streams, self._watches, self._parts_over_grpc, self._fields, self._parts_over_http,
            self._noise, self._idle_connections,
        )  # fmt: skip
        for attack in itertools.cycle(attacks):
            if self._over.wait(0.2):
                return
            with contextlib.suppress(OSError):
                attack()

    def _on_streams(self, method: str, data: bytes, *, count: int, ends: bool = False) -> None:
        client = Http2Client(self._gateway.grpc_port)
        for stream in client.open(method, count=count):
            client.write(stream, data, ends=ends)
        self._over.wait(0.3)
        client.read()
        client.close()

    def _empty_streams(self) -> None:
        self._on_streams(ASK, b"", count=200)

    def _watches(self) -> None:
        self._on_streams(WATCH, b"\0\0\0\0\0", count=100, ends=True)

    def _parts_over_grpc(self) -> None:
        self._on_streams(ASK, b"\0\0\x40\0\0" + bytes(60_000), count=50)

    def _fields(self) -> None:
        many = b"\x50\x01" * 20_000
        self._on_streams(ASK, b"\0" + len(many).to_bytes(4) + many, count=5, ends=True)

    def _http_text(self, text: bytes, count: int) -> None:
        with contextlib.ExitStack() as stack:
            socks = [
                stack.enter_context(socket.create_connection(("127.0.0.1", self._gateway.port)))
                for _ in range(count)
            ]
            for sock in socks:
                sock.sendall(text)
            self._over.wait(0.3)

    def _parts_over_http(self) -> None:
        head = b"POST /v1/request HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4000000\r\n\r\n"
        self._http_text(head + bytes(200_000), 20)

    def _noise(self) -> None:
        self._http_text(os.urandom(3000), 20)

    def _idle_connections(self) -> None:
        self._http_text(b"", 50)


@contextlib.contextmanager
def processes(bad: Peers, folder: Path) -> Iterator[dict[str, DoorProcess]]:
    """A gateway with both doors, and replicas."""
    collector = ("--otlp", f"http://127.0.0.1:{bad.collector_port}")
    with contextlib.ExitStack() as stack:
        found, options = {}, []
        for stage in ("begin", "end"):
            port = free_port()
            words = ("stage", TARGET, "--stage", stage, "--port", str(port), *collector)
            found[stage] = stack.enter_context(server_process(*words, grpc_port=0, port=port))
            options += ["--replica", f"{stage}=127.0.0.1:{port}"]
        port, grpc_port = free_port(), free_port()
        doors = ("serve", TARGET, "--port", str(port), "--grpc-port", str(grpc_port), *options, *collector)
        traced = ("--traces", str(folder), "--trace", "all")
        found["gateway"] = stack.enter_context(
            server_process(*doors, *traced, port=port, grpc_port=grpc_port)
        )
        yield found


def fill_pools(found: dict[str, DoorProcess]) -> None:
    """Start the threads of pools, which start when they are first needed."""
    with ThreadPoolExecutor(SCRAPES) as threads:
        for server in found.values():
            if server.port:
                url = f"http://127.0.0.1:{server.port}"
                answers = list(threads.map(lambda _, url=url: ask(url, "/metrics"), range(SCRAPES)))
                assert {status for status, _ in answers} == {200}


def watched(
    seconds: float, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[dict[str, np.ndarray], Counter[str]]:
    """Samples of every process under load with all peers at once, after a third of the time to warm up."""
    with peers() as bad:
        monkeypatch.setenv(mixed.HTTP_PORT, str(bad.http_port))
        monkeypatch.setenv(mixed.GRPC_PORT, str(bad.grpc_port))
        with processes(bad, folder) as found:
            gateway = found["gateway"]
            url = f"http://127.0.0.1:{gateway.port}"
            soon(lambda: ask(url, "/v1/request", {"sku": "tea"})[0] == 200)
            fill_pools(found)
            load = Mixed(gateway)
            with load.running():
                time.sleep(seconds / 3)
                samples: dict[str, list[tuple[float, int, int]]] = {name: [] for name in found}
                end = time.monotonic() + seconds
                while time.monotonic() < end:
                    for name, server in found.items():
                        assert server.resident_mib, name
                        samples[name].append(sample_of(server.pid))
                    time.sleep(EVERY_S)
            soon(lambda: ask(url, "/v1/request", {"sku": "tea"})[0] == 200)
    return {name: np.array(each) for name, each in samples.items()}, load.ended


def test_nothing_grows_beyond_bounds_with_all_bad_peers_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    samples, ended = watched(12.0, tmp_path, monkeypatch)
    assert ended["http 200"] > 0 < ended["grpc OK"], ended
    for name, values in samples.items():
        memory, files, threads = values[:, 0], values[:, 1], values[:, 2]
        assert memory[-1] - memory[0] < 30, (name, memory)
        assert files.max() < 600, (name, files)
        assert threads[-1] - threads[0] < 5, (name, threads)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_nothing_grows_over_five_minutes_with_all_bad_peers_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seconds = float(os.environ.get("KWIKEN_TEST_FLAT_S", "300"))
    samples, ended = watched(seconds, tmp_path, monkeypatch)
    lines, growing = [str(dict(ended))], []
    for name, values in samples.items():
        told, risen = described(name, values, seconds, series=len(KINDS) * len(samples), spare=SPARE)
        lines += told
        growing += risen
    with capsys.disabled():
        sys.stdout.write("\n".join(["", *lines, ""]))
    assert not growing, "\n".join(growing)
