"""Benchmark of the gateway and three stages over HTTP, against the same calls by hand on aiohttp.

Both have the same processes (a gateway and one process a stage), the same loop (uvloop), bodies of the same
size and the same client, which keeps a fixed number of requests in flight and measures each.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator
from functools import partial
from typing import Any, cast

import msgspec
import uvloop

from benchmarks.gateway.chain import STAGES, Item
from benchmarks.harness import Row, paired
from kwiken.runtime.cluster.cluster import Cluster

CALLERS = 16
TEXT = "x" * 200
LEAST = 1.6  # times as many requests as the calls by hand


def run(quick: bool) -> list[Row]:  # noqa: FBT001 - every benchmark is called alike
    rounds, seconds = (2, 0.5) if quick else (9, 2.0)
    measured: list[Row] = uvloop.run(_compare(rounds, seconds))
    return measured


async def _compare(rounds: int, seconds: float) -> list[Row]:
    async with Cluster("benchmarks.gateway.chain:chain") as cluster, plain() as url:
        pairs = []
        for turn in range(rounds + 1):
            ours = await load(cluster.gateway_url, seconds)
            theirs = await load(url, seconds)
            if turn:  # the first turn is a warm-up
                pairs.append((ours, theirs))
    name = f"chain of {len(STAGES)} stages over HTTP, {CALLERS} at once"
    return [
        _row(f"{name}: time a request, all processes busy", pairs, _mean_us, "us", least=LEAST),
        _row(f"{name}: p99 latency", pairs, _p99_ms, "ms"),
    ]


def _mean_us(latencies: list[float], seconds: float) -> float:
    """Time between answers: the inverse of the throughput."""
    return seconds / len(latencies) * 1e6


def _p99_ms(latencies: list[float], seconds: float) -> float:
    del seconds
    return sorted(latencies)[int(0.99 * len(latencies))] * 1e3


def _row(name: str, pairs: list[Any], figure: Any, unit: str, *, least: float | None = None) -> Row:
    figures = [(figure(*mine), figure(*other)) for mine, other in pairs]
    return paired(name, "aiohttp by hand", figures, unit=unit, least=least)


@contextlib.asynccontextmanager
async def plain() -> AsyncIterator[str]:
    """The hand-written processes; the gateway's address."""
    async with contextlib.AsyncExitStack() as stack:
        urls = [await stack.enter_async_context(_process("stage")) for _ in STAGES]
        yield await stack.enter_async_context(_process("gateway", *urls))


@contextlib.asynccontextmanager
async def _process(*arguments: str) -> AsyncIterator[str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "benchmarks.gateway.chain",
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield (await process.stdout.readline()).decode().strip()
    finally:
        process.stdin.close()
        await process.wait()


async def load(url: str, seconds: float, at_once: int = CALLERS) -> tuple[list[float], float]:
    """Keep so many requests in flight for so long; latencies, and the time that it took, seconds."""
    host, _, port = url.removeprefix("http://").rpartition(":")
    body = msgspec.json.encode(Item(TEXT))
    head = (
        f"POST /v1/request HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nkw-deadline-ms: 60000\r\n\r\n"  # none is shed on a busy machine
    )
    start = time.perf_counter()
    callers = [_Caller(head.encode() + body, start + seconds) for _ in range(at_once)]
    loop = asyncio.get_running_loop()
    for caller in callers:
        await loop.create_connection(partial(_same, caller), host, int(port))
    async with asyncio.timeout(seconds + 30):
        await asyncio.gather(*(caller.done for caller in callers))
    took = time.perf_counter() - start
    return [latency for caller in callers for latency in caller.latencies], took


def _same(caller: _Caller) -> _Caller:
    return caller


class _Caller(asyncio.Protocol):
    """One connection that asks again as soon as it has its answer; as cheap as Python allows."""

    def __init__(self, request: bytes, end: float) -> None:
        self._request = request
        self._end = end
        self._answer = b""
        self._sent = 0.0
        self.latencies: list[float] = []
        self.done = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is none by its class
        self._ask()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(exc or ConnectionError("the gateway closed the connection"))

    def data_received(self, data: bytes) -> None:
        self._answer += data
        head, blank, body = self._answer.partition(b"\r\n\r\n")
        if not blank:
            return
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        if len(body) < length:
            return
        if not head.startswith(b"HTTP/1.1 200 "):
            self.done.set_exception(RuntimeError(head.decode()))
            self._transport.close()
            return
        now = time.perf_counter()
        self.latencies.append(now - self._sent)
        if now < self._end:
            self._ask()
        else:
            self.done.set_result(None)
            self._transport.close()

    def _ask(self) -> None:
        self._answer = b""
        self._sent = time.perf_counter()
        self._transport.write(self._request)
