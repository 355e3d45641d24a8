"""Benchmark of lines of requests: two kinds that differ tenfold in cost, half of the requests each.

One cluster has lines, the other one has none; all else is equal, the arrivals too. Both run at the same time,
so that whatever else the machine does meets both. Requests arrive at random (Poisson) and are sent when they
are due. Latencies count from that moment. The first requests are a warm-up, in which the lines learn.

All numbers here were fixed before the first full comparison; the seeds were not used before.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

import aiohttp
import msgspec
import uvloop
from grpc import aio

from benchmarks.harness import Row, paired
from benchmarks.load.two_kinds import HEAVY, LIGHT, TAKES_S, Work
from kwiken.runtime.cluster.cluster import Cluster
from kwiken.runtime.cluster.settings import ClusterSettings
from kwiken.runtime.wire.grpc.messages import payload_message
from kwiken.runtime.wire.grpc.settings import ASK_METHOD

LOAD: Final = 0.8  # of the replicas' time
REPLICAS: Final = 2
WARM_UP_S: Final = 12.0
TIMEOUT_S: Final = 30.0
PERCENTILE: Final = 0.99
FIRST_SEED: Final = 3860
MIN_CUT: Final = 2.0  # of the light kind's p99
MAX_RISE: Final = 1.1  # of the heavy kind's p99
Ask = Callable[[str], Awaitable[None]]


@dataclass(frozen=True)
class Arrival:
    """One request.

    Attributes:
        due_s: moment at which it is sent, seconds from the start.
    """

    due_s: float
    kind: str


@dataclass(frozen=True)
class Outcome:
    """What one cluster did with all arrivals.

    Attributes:
        p99_ms: 99th percentile of the latency by kind, milliseconds.
        lost: requests that got no answer.
    """

    p99_ms: dict[str, float]
    lost: int


def run(quick: bool) -> list[Row]:  # noqa: FBT001 - every benchmark is called alike
    rounds, seconds = (1, 10.0) if quick else (6, 90.0)
    return [
        row
        for protocol in ("http", "grpc")
        for row in _rows(protocol, [uvloop.run(_compare(protocol, n, seconds)) for n in range(rounds)])
    ]


def arrivals(seed: int, seconds: float) -> list[Arrival]:
    """Requests of both kinds at random times, at `LOAD`.

    Args:
        seconds: length of the run, without its warm-up.
    """
    chance = random.Random(seed)
    rate_per_s = LOAD * REPLICAS / ((TAKES_S[LIGHT] + TAKES_S[HEAVY]) / 2)
    found: list[Arrival] = []
    due_s = chance.expovariate(rate_per_s)
    while due_s < WARM_UP_S + seconds:
        found.append(Arrival(due_s, chance.choice((LIGHT, HEAVY))))
        due_s += chance.expovariate(rate_per_s)
    return found


def _rows(protocol: str, rounds: Sequence[tuple[Outcome, Outcome]]) -> list[Row]:
    """Rows of one protocol, from the outcomes with and without lines."""
    rows = []
    for kind, least in ((LIGHT, MIN_CUT), (HEAVY, 1 / MAX_RISE)):
        pairs = [(lined.p99_ms[kind], plain.p99_ms[kind]) for lined, plain in rounds]
        name = f"{kind} of two kinds at {LOAD:.0%} load, {protocol}: p99"
        rows.append(paired(name, "without lines", pairs, unit="ms", least=least))
    lost = [float(lined.lost) for lined, _ in rounds]
    rows.append(
        Row(
            name=f"two kinds, {protocol}: requests without an answer, all rounds",
            ours=sum(lost),
            unit="requests",
            target=0.0,
            alternative="without lines",
            theirs=float(sum(plain.lost for _, plain in rounds)),
        )
    )
    return rows


async def _compare(protocol: str, number: int, seconds: float) -> tuple[Outcome, Outcome]:
    """Send the same arrivals to a cluster with lines and to one without, at the same time."""
    due = arrivals(FIRST_SEED + number, seconds)
    async with _cluster(protocol, "field:kind") as lined, _cluster(protocol, "off") as plain:
        outcomes = await asyncio.gather(_send(lined, due), _send(plain, due))
    return outcomes[0], outcomes[1]


@contextlib.asynccontextmanager
async def _cluster(protocol: str, lines: str) -> AsyncIterator[Ask]:
    """A running cluster; yields the function that sends one request and waits for its answer."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    over_grpc = protocol == "grpc"
    settings = ClusterSettings(
        lines=lines,
        grpc_port=port if over_grpc else None,
        trace="off",
    )
    target = "benchmarks.load.two_kinds:two_kinds"
    bodies = {kind: msgspec.json.encode(Work(kind)) for kind in TAKES_S}
    async with Cluster(target, settings, replicas={"work": REPLICAS}) as cluster:
        if over_grpc:
            async with aio.insecure_channel(f"127.0.0.1:{port}") as channel:
                ask = channel.unary_unary(ASK_METHOD)
                messages = {kind: payload_message(body) for kind, body in bodies.items()}

                async def over_channel(kind: str) -> None:
                    await ask(messages[kind], timeout=TIMEOUT_S)

                yield over_channel
            return
        connector, timeout = aiohttp.TCPConnector(limit=0), aiohttp.ClientTimeout(total=TIMEOUT_S)
        headers = {"Content-Type": "application/json"}
        async with aiohttp.ClientSession(connector=connector, timeout=timeout, headers=headers) as session:

            async def over_http(kind: str) -> None:
                async with session.post(f"{cluster.gateway_url}/v1/request", data=bodies[kind]) as answer:
                    answer.raise_for_status()
                    await answer.read()

            yield over_http


async def _send(ask: Ask, due: Sequence[Arrival]) -> Outcome:
    """Send all arrivals when they are due."""
    took: dict[str, list[float]] = {LIGHT: [], HEAVY: []}
    lost = 0
    start = time.perf_counter()

    async def one(arrival: Arrival) -> None:
        nonlocal lost
        try:
            await ask(arrival.kind)
        except (aiohttp.ClientError, aio.AioRpcError, TimeoutError) as error:
            lost += 1
            print(f"{arrival.kind} at {arrival.due_s:.1f} s: {error!r}", file=sys.stderr, flush=True)
            return
        if arrival.due_s >= WARM_UP_S:
            took[arrival.kind].append(time.perf_counter() - start - arrival.due_s)

    async with asyncio.TaskGroup() as group:
        for arrival in due:
            await asyncio.sleep(max(0.0, start + arrival.due_s - time.perf_counter()))
            group.create_task(one(arrival))
    return Outcome(
        {kind: sorted(those)[int(PERCENTILE * len(those))] * 1e3 for kind, those in took.items()}, lost
    )
