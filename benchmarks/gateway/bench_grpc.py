"""Benchmark of the gateway and three stages over gRPC, against the same calls by hand on grpc.aio.

Both have the same processes (a gateway and one process a stage), the same loop (uvloop), bodies of the same
size and the same client, which keeps a fixed number of requests in flight and measures each. The client sends
a deadline and a trace context with each request, and both chains hand them on to every stage. The processor
time of the servers is read beside it: it depends less on what else the machine does.

Two starts of the same program differ by several percent for as long as they run, however long that is. So
both chains are started several times; a start gives one pair of figures, the medians of its turns, and the
spread is that of the starts.

What each side does with a request, beyond decoding, three calls one after another, and encoding:

- By hand: what is left of the deadline, the caller's `traceparent` as it came, errors with their statuses.
  No copies, no retries, no choice of replicas, no metrics.
- This runtime, without a plan: the same, with span ids of its own, and all that is always on: admission,
  choice of replicas by latency and load, a race with its timer for each call, retry and copy accounts,
  checks of stages' names and of a sample of the answers' types, metrics, and at the replicas the order of
  calls by urgency, limits, and each call's processor time, reported with its answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import statistics
import sys
import time
from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple

import msgspec
import uvloop
from grpc import aio

from benchmarks.gateway.chain import STAGES, Item
from benchmarks.gateway.chain_grpc import ASK, TIMEOUT_S, TRACEPARENT
from benchmarks.harness import Row, paired, processor_s
from kwiken.runtime.cluster.cluster import Cluster
from kwiken.runtime.cluster.settings import ClusterSettings
from kwiken.runtime.wire.grpc.messages import payload_message
from kwiken.runtime.wire.grpc.settings import ASK_METHOD

CALLERS = 16
MIN_RATIO = 1.0  # times as many requests as the calls by hand
REQUEST = msgspec.json.encode(Item("x" * 200))
METADATA = ((TRACEPARENT, "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),)


class Chain(NamedTuple):
    """A running chain: its front door's port and method, a request, and its processes, the gateway first."""

    port: int
    method: str
    request: bytes
    pids: Sequence[int]


class Figures(NamedTuple):
    """One measurement: time between answers, processor time of all servers and of the gateway, and p99."""

    mean_us: float
    busy_us: float
    gateway_us: float
    p99_ms: float


def run(quick: bool) -> list[Row]:  # noqa: FBT001 - every benchmark is called alike
    # Many short turns: the machine's load changes less between the two sides of one.
    starts, turns, seconds = (1, 2, 0.5) if quick else (7, 12, 0.4)
    measured: list[Row] = uvloop.run(_compare(starts, turns, seconds))
    return measured


async def _compare(starts: int, turns: int, seconds: float) -> list[Row]:
    pairs = [await _pair(turns, seconds) for _ in range(starts)]
    name = f"chain of {len(STAGES)} stages over gRPC, {CALLERS} at once"
    figures = (
        ("time a request, all processes busy", "us", MIN_RATIO),
        ("processor time a request, gateway and stages", "us", None),
        ("processor time a request, gateway alone", "us", None),
        ("p99 latency", "ms", None),
    )
    return [
        paired(
            f"{name}: {what}",
            "grpc.aio by hand",
            [(a[index], b[index]) for a, b in pairs],
            unit=unit,
            least=least,
        )
        for index, (what, unit, least) in enumerate(figures)
    ]


async def _pair(turns: int, seconds: float) -> tuple[Figures, Figures]:
    """Start both chains, and take the medians of each one's figures over the turns."""
    async with ours() as mine, theirs() as other:
        sides = ((mine, list[Figures]()), (other, list[Figures]()))
        for chain, _ in sides:
            await load(chain, seconds)  # a warm-up
        for turn in range(turns):
            for chain, figures in sides if turn % 2 else reversed(sides):
                figures.append(await load(chain, seconds))
    (_, mine_figures), (_, other_figures) = sides
    return _median(mine_figures), _median(other_figures)


def _median(figures: Sequence[Figures]) -> Figures:
    """Median of each figure."""
    return Figures(*(statistics.median(column) for column in zip(*figures, strict=True)))


@contextlib.asynccontextmanager
async def ours() -> AsyncIterator[Chain]:
    """The chain as a service on this runtime."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = ClusterSettings(grpc_port=port)
    async with Cluster("benchmarks.gateway.chain:chain", settings) as cluster:
        pids = [pid for those in cluster.replicas.values() for pid, _ in those]
        yield Chain(port, ASK_METHOD, payload_message(REQUEST), [*cluster.gateway_pids, *pids])


@contextlib.asynccontextmanager
async def theirs() -> AsyncIterator[Chain]:
    """The hand-written chain."""
    async with contextlib.AsyncExitStack() as stack:
        stages = [await stack.enter_async_context(_process("stage")) for _ in STAGES]
        gateway = await stack.enter_async_context(_process("gateway", *(str(port) for port, _ in stages)))
        yield Chain(gateway[0], ASK, REQUEST, [pid for _, pid in (gateway, *stages)])


@contextlib.asynccontextmanager
async def _process(*arguments: str) -> AsyncIterator[tuple[int, int]]:
    """Port and pid of a hand-written server."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "benchmarks.gateway.chain_grpc",
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,  # as ours: Linux shares processors out by session
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield int(await process.stdout.readline()), process.pid
    finally:
        process.stdin.close()
        await process.wait()


async def load(chain: Chain, seconds: float) -> Figures:
    """Keep `CALLERS` requests in flight for so long."""
    latencies: list[float] = []
    async with aio.insecure_channel(f"127.0.0.1:{chain.port}") as channel:
        ask = channel.unary_unary(chain.method)
        await ask(chain.request, timeout=TIMEOUT_S, metadata=METADATA)
        before, start = [processor_s(pid) for pid in chain.pids], time.perf_counter()

        async def caller() -> None:
            sent = start
            while sent < start + seconds:
                sent = time.perf_counter()
                await ask(chain.request, timeout=TIMEOUT_S, metadata=METADATA)
                latencies.append(time.perf_counter() - sent)

        await asyncio.gather(*(caller() for _ in range(CALLERS)))
        took = time.perf_counter() - start
        busy = [processor_s(pid) - then for pid, then in zip(chain.pids, before, strict=True)]
    us = 1e6 / len(latencies)
    p99_s = sorted(latencies)[int(0.99 * len(latencies))]
    return Figures(took * us, sum(busy) * us, busy[0] * us, p99_s * 1e3)
