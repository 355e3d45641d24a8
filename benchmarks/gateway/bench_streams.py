"""Benchmark of answers that stream: processor time beside aiohttp by hand, and memory of a thousand at once.

1. One request for 10,000 items of 50 bytes, from a replica through the gateway to a client. By hand there are
   as many processes: one that streams lines of JSON, and a proxy that passes chunks on as they come. The
   figure is the processor time of both servers, without the client's.
2. A thousand streams at once through one gateway. Each client reads its first item, then twenty further
   ones. The memory of the gateway is that of its process as Linux counts it, before, after the first items
   and at the end; streams that are open for longer must not take more.

`python -m benchmarks.gateway.bench_streams` runs one of the hand-written processes: it prints its address on
one line and ends when its standard input closes.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import aiohttp
import msgspec
import uvloop
from aiohttp import web

from benchmarks.gateway.bench_gateway import hand_process
from benchmarks.gateway.chain import serve
from benchmarks.harness import Row, paired, processor_s
from kwiken.model.service.service import Service
from kwiken.runtime.cluster.cluster import Cluster
from kwiken.runtime.cluster.settings import ClusterSettings

ITEMS, ITEM = 10_000, "x" * 50
AT_ONCE = 10  # items between two steps of the handler's loop, as a handler that awaits something has them
MIN_RATIO = 1 / 1.5  # of the processor time by hand over ours
STREAMS, FURTHER = 1000, 20
MAX_GROWTH = 5.0  # percent of the memory with all streams open
HEADERS = {"Content-Type": "application/json", "kw-deadline-ms": "300000", "kw-priority": "9"}
MODULE = "benchmarks.gateway.bench_streams"

feed = Service("feed")


@feed.stage(idempotent=True, timeout_ms=300_000)
async def send(count: int) -> AsyncIterator[str]:
    """Send items; a negative number sends so many, with waits between them."""
    for number in range(abs(count)):
        if count < 0:
            await asyncio.sleep(1.0)
        elif number % AT_ONCE == 0:
            await asyncio.sleep(0)
        yield ITEM


def run(quick: bool) -> list[Row]:  # noqa: FBT001 - every benchmark is called alike
    rounds, streams = (2, 50) if quick else (9, STREAMS)
    measured: list[Row] = uvloop.run(_measure(rounds, streams))
    return measured


async def _measure(rounds: int, streams: int) -> list[Row]:
    settings = ClusterSettings(max_inflight=2 * STREAMS)
    async with Cluster(f"{MODULE}:feed", settings) as cluster:
        (gateway,) = cluster.gateway_pids
        ((replica, _),) = cluster.replicas["send"]
        url = cluster.gateway_url + "/v1/request"
        async with _plain() as (plain_url, plain_pids), aiohttp.ClientSession() as session:
            pairs = []
            for turn in range(rounds + 1):
                sides = ((url, ITEMS + 1, (gateway, replica)), (plain_url, ITEMS, plain_pids))
                order = sides if turn % 2 else sides[::-1]
                found = [await _busy_ms(session, *side) for side in order]
                if turn:  # the first turn is a warm-up
                    pairs.append((found[0], found[1]) if turn % 2 else (found[1], found[0]))
        row = paired(
            f"stream of {ITEMS} items of {len(ITEM)} bytes: processor time, replica and gateway",
            "aiohttp by hand",
            pairs,
            unit="ms",
            least=MIN_RATIO,
        )
        return [row, *await _memory(url, gateway, streams)]


async def _busy_ms(session: aiohttp.ClientSession, url: str, lines: int, pids: Sequence[int]) -> float:
    before = sum(map(processor_s, pids))
    async with session.post(url, data=str(ITEMS), headers=HEADERS) as response:
        count = 0
        async for chunk in response.content.iter_any():
            count += chunk.count(b"\n")
    if count != lines:
        raise RuntimeError(f"{url} sent {count} lines, not {lines}")
    return 1e3 * (sum(map(processor_s, pids)) - before)


async def _memory(url: str, gateway: int, streams: int) -> list[Row]:
    """Memory of the gateway with so many streams open."""
    first, further = asyncio.Semaphore(0), asyncio.Event()
    last = asyncio.Semaphore(0)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(
        connector=connector, timeout=aiohttp.ClientTimeout(total=None)
    ) as session:

        async def read() -> None:
            async with session.post(url, data=str(-10 * FURTHER), headers=HEADERS) as response:
                response.raise_for_status()
                await response.content.readline()
                first.release()
                await further.wait()
                for _ in range(FURTHER):
                    await response.content.readline()
                last.release()
                await asyncio.Event().wait()

        before = _held_mb(gateway)
        readers = [asyncio.create_task(read()) for _ in range(streams)]
        try:
            held = []
            for passed in (first, last):
                async with asyncio.timeout(250):
                    for _ in range(streams):
                        await passed.acquire()
                held.append(_held_mb(gateway))
                further.set()
        finally:
            for reader in readers:
                reader.cancel()
            await asyncio.gather(*readers, return_exceptions=True)
    opened, later = held
    name = f"gateway with {streams} streams open"
    return [
        Row(name=f"{name}: memory of a stream", ours=1e3 * (opened - before) / streams, unit="kB"),
        Row(
            name=f"{name}: growth while each sends {FURTHER} further items",
            ours=100 * (later / opened - 1),
            unit="%",
            target=MAX_GROWTH,
        ),
    ]


def _held_mb(pid: int) -> float:
    """Resident memory of a process, MB."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return int(status.partition("VmRSS:")[2].split()[0]) * 1024 / 1e6


# By hand.


def plain_replica() -> web.Application:
    """Server that streams lines of JSON."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for number in range(int(await request.text())):
            if number % AT_ONCE == 0:
                await asyncio.sleep(0)
            await response.write(msgspec.json.encode({"item": ITEM}) + b"\n")
        await response.write_eof()
        return response

    app = web.Application()
    app.router.add_post("/", answer)
    return app


def plain_proxy(url: str) -> web.Application:
    """Proxy that passes chunks on as they come."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        async with request.app[sessions].post(url, data=await request.read()) as upstream:
            await response.prepare(request)
            async for chunk in upstream.content.iter_any():
                await response.write(chunk)
        await response.write_eof()
        return response

    async def session(app: web.Application) -> AsyncIterator[None]:
        async with aiohttp.ClientSession() as app[sessions]:
            yield

    app = web.Application()
    sessions = web.AppKey("session", aiohttp.ClientSession)
    app.router.add_post("/", answer)
    app.cleanup_ctx.append(session)
    return app


@contextlib.asynccontextmanager
async def _plain() -> AsyncIterator[tuple[str, list[int]]]:
    """The hand-written processes; the proxy's address, and the ids of both."""
    async with (
        hand_process(MODULE, "replica") as (url, replica),
        hand_process(MODULE, "proxy", url) as (front, proxy),
    ):
        yield front, [replica, proxy]


if __name__ == "__main__":
    role, *places = sys.argv[1:]
    uvloop.run(serve(plain_replica if role == "replica" else lambda: plain_proxy(*places)))
