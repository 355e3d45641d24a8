"""Open-loop HTTP client: requests start when they are due, whether or not earlier ones were answered."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterator
from typing import cast

MAX_AT_ONCE = 1000


async def open_load(url: str, path: str, body: bytes, *, rate: float, seconds: float) -> list[float]:
    """Send requests at random times (Poisson, the same ones for the same rate) over kept connections.

    Args:
        url: `http://HOST:PORT`.
        path: of the requests.
        body: of each.
        rate: requests a second.
        seconds: how long.

    Returns:
        Latencies in seconds, from the time that each was due.

    Raises:
        ExceptionGroup: with the first answer that is not 200, or where too many wait for an answer.
    """
    host, _, port = url.removeprefix("http://").rpartition(":")
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    pool = _Pool(host, int(port), head.encode() + body)
    try:
        start = time.perf_counter() + 0.01
        async with asyncio.timeout(seconds + 30), asyncio.TaskGroup() as group:
            for due in arrivals(rate, seconds):
                await asyncio.sleep(max(0.0, start + due - time.perf_counter()))
                group.create_task(pool.ask(start + due))
    finally:
        pool.close()
    return pool.latencies


def arrivals(rate: float, seconds: float) -> Iterator[float]:
    """Intended starts of requests, seconds from the start of the run."""
    chance = random.Random(20)
    due = chance.expovariate(rate)
    while due < seconds:
        yield due
        due += chance.expovariate(rate)


class _Pool:
    """Connections to one server; the one that was used last is used next."""

    def __init__(self, host: str, port: int, request: bytes) -> None:
        self._host = host
        self._port = port
        self._request = request
        self._idle: list[_Connection] = []
        self._all: list[_Connection] = []
        self.latencies: list[float] = []

    async def ask(self, due: float) -> None:
        """Send a request and note its latency."""
        connection = self._idle.pop() if self._idle else await self._connect()
        await connection.ask(self._request)
        self.latencies.append(time.perf_counter() - due)
        self._idle.append(connection)

    def close(self) -> None:
        for connection in self._all:
            connection.close()

    async def _connect(self) -> _Connection:
        if len(self._all) == MAX_AT_ONCE:
            raise RuntimeError(f"{MAX_AT_ONCE} requests wait for an answer: this load is too much")
        connection = _Connection()
        self._all.append(connection)
        await asyncio.get_running_loop().create_connection(lambda: connection, self._host, self._port)
        return connection


class _Connection(asyncio.Protocol):
    """One kept connection, with one request at a time."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._answered: asyncio.Future[None] | None = None
        self._answer = b""

    async def ask(self, request: bytes) -> None:
        """Send a request and wait for the whole of its answer."""
        assert self._transport is not None
        self._answer = b""
        self._answered = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        await self._answered

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is none by its class

    def connection_lost(self, exc: Exception | None) -> None:
        if self._answered is not None and not self._answered.done():
            self._answered.set_exception(exc or ConnectionError("the server closed the connection"))

    def data_received(self, data: bytes) -> None:
        self._answer += data
        head, blank, body = self._answer.partition(b"\r\n\r\n")
        if not blank or self._answered is None or self._answered.done():
            return
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        if len(body) < length:
            return
        if head.startswith(b"HTTP/1.1 200 "):
            self._answered.set_result(None)
        else:
            self._answered.set_exception(RuntimeError(head.decode()))
