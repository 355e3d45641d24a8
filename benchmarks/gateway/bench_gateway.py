"""Benchmark of the gateway and three stages over HTTP, against the same calls by hand on aiohttp.

Both have the same processes (a gateway and one process a stage), the same loop (uvloop), bodies of the same
size and the same client, which keeps a fixed number of requests in flight and measures each. The figure that
counts is the processor time of the servers for each request, without the client's: other programs change the
time between answers, and hardly that.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import NamedTuple, cast

import msgspec
import uvloop

from benchmarks.gateway.chain import STAGES, Item
from benchmarks.harness import Row, paired, processor_s
from kwiken.runtime.cluster.cluster import Cluster

CALLERS = 16
TEXT = "x" * 200
CHAIN = "benchmarks.gateway.chain"
MIN_RATIO = {16: 2.3, 4: None, 1: 2.0}  # by requests at once, how many times our processor time by hand takes


class Figures(NamedTuple):
    """One measurement: processor time of all servers for a request, time between answers, and p99."""

    busy_us: float
    mean_us: float
    p99_ms: float


def run(quick: bool) -> list[Row]:  # noqa: FBT001 - every benchmark is called alike
    rounds, seconds = (2, 0.5) if quick else (9, 1.0)
    measured: list[Row] = uvloop.run(_compare(rounds, seconds))
    return measured


async def _compare(rounds: int, seconds: float) -> list[Row]:
    rows: list[Row] = []
    async with Cluster("benchmarks.gateway.chain:chain") as cluster, plain() as (url, pids):
        own = [*cluster.gateway_pids, *(pid for those in cluster.replicas.values() for pid, _ in those)]
        for at_once, least in MIN_RATIO.items():
            pairs = []
            for turn in range(rounds + 1):
                sides = [(cluster.gateway_url, own), (url, pids)]
                found = [await _figures(*side, seconds, at_once) for side in sides[:: 1 if turn % 2 else -1]]
                if turn:  # the first turn is a warm-up
                    pairs.append(found if turn % 2 else found[::-1])
            name = f"chain of {len(STAGES)} stages over HTTP, {at_once} at once"
            figures = (
                ("processor time a request, gateway and stages", "us", least),
                ("time a request, all processes busy", "us", None),
                ("p99 latency", "ms", None),
            )
            rows += [
                paired(
                    f"{name}: {what}",
                    "aiohttp by hand",
                    [(mine[index], other[index]) for mine, other in pairs],
                    unit=unit,
                    least=wanted,
                )
                for index, (what, unit, wanted) in enumerate(figures)
            ]
    return rows


async def _figures(url: str, pids: Sequence[int], seconds: float, at_once: int) -> Figures:
    before = sum(map(processor_s, pids))
    latencies, took = await load(url, seconds, at_once)
    busy = sum(map(processor_s, pids)) - before
    us = 1e6 / len(latencies)
    return Figures(busy * us, took * us, sorted(latencies)[int(0.99 * len(latencies))] * 1e3)


@contextlib.asynccontextmanager
async def plain() -> AsyncIterator[tuple[str, list[int]]]:
    """The hand-written processes; the gateway's address, and the ids of all."""
    async with contextlib.AsyncExitStack() as stack:
        stages = [await stack.enter_async_context(hand_process(CHAIN, "stage")) for _ in STAGES]
        gateway = await stack.enter_async_context(hand_process(CHAIN, "gateway", *(url for url, _ in stages)))
        yield gateway[0], [pid for _, pid in (gateway, *stages)]


@contextlib.asynccontextmanager
async def hand_process(module: str, *arguments: str) -> AsyncIterator[tuple[str, int]]:
    """A process that is written by hand: the address that it prints, and its id."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        module,
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield (await process.stdout.readline()).decode().strip(), process.pid
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
