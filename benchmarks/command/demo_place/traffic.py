"""Traffic of the demonstration: an order to an independent client, open-loop requests, every latency kept.

The client measures each request from the moment at which it was due. It shares neither process nor event loop
with the gateways and with what keeps the targets.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import aiohttp
import msgspec

from benchmarks.load.hash_traffic import timed_post
from kwiken.base.errors import KwikenError
from kwiken.runtime.base.event_loop import cancel_and_wait

TIMEOUT_S: Final = 10.0
FAILED_MS: Final = float("inf")  # latency of a request that failed
START_S: Final = 0.5  # from the order to the first moment at which a request may be due


class LoadPhase(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Time under one load.

    Attributes:
        seconds: length of the phase, seconds.
        rates_per_s: rate by service, requests per second.
    """

    seconds: float
    rates_per_s: dict[str, float]


class ClientOrder(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Requests that the client is to send.

    Attributes:
        urls: address of each service.
        bodies: bodies of requests of each service, of which each request takes one at random.
        phases: phases, one after the other.
        start_s: moment at which the first phase begins, monotonic clock of this machine, seconds.
        seed: seed of arrivals and of the choice of bodies.
    """

    urls: dict[str, str]
    bodies: dict[str, list[str]]
    phases: list[LoadPhase]
    start_s: float
    seed: int


class ClientStream(msgspec.Struct, kw_only=True):
    """Requests to one service and what became of them.

    Attributes:
        due_s: moment at which each answered or failed request was due, monotonic clock, seconds.
        latency_ms: latency of each from that moment, milliseconds; None for a failed one.
        late_ms: delay of each request's start after it was due, milliseconds.
    """

    due_s: list[float] = []
    latency_ms: list[float | None] = []
    late_ms: list[float] = []

    def between(self, first_s: float, last_s: float) -> list[float]:
        """Latencies of the requests due between two moments, milliseconds; infinite for failed ones.

        Args:
            first_s: first moment, monotonic clock, seconds.
            last_s: moment before which they were due, seconds.
        """
        pairs = zip(self.due_s, self.latency_ms, strict=True)
        return [
            FAILED_MS if latency is None else latency for due, latency in pairs if first_s <= due < last_s
        ]


def p99_ms(latencies: Iterable[float]) -> float:
    """Latency that 99% of the requests stay below or reach, milliseconds; infinite without requests."""
    found = sorted(latencies)
    return found[min(len(found) - 1, int(0.99 * len(found)))] if found else FAILED_MS


async def send(
    urls: Mapping[str, str], bodies: Mapping[str, Sequence[str]], phases: Sequence[LoadPhase], seed: int
) -> tuple[float, dict[str, ClientStream]]:
    """Let a client of its own process send the phases; returns when the first one began, and the streams.

    Args:
        urls: address of each service.
        bodies: bodies of requests of each service.
        phases: phases, one after the other.
        seed: seed of arrivals and of the choice of bodies.

    Raises:
        KwikenError: the client fails.
    """
    start_s = time.monotonic() + START_S
    order = ClientOrder(
        urls=dict(urls),
        bodies={name: list(found) for name, found in bodies.items()},
        phases=list(phases),
        start_s=start_s,
        seed=seed,
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "benchmarks.command.demo_place.client",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    ending = asyncio.create_task(process.communicate(msgspec.json.encode(order)))
    try:
        output, _ = await asyncio.shield(ending)
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()
        await cancel_and_wait([ending])
    if process.returncode:
        raise KwikenError(f"the client ended with exit code {process.returncode}")
    return start_s, msgspec.json.decode(output, type=dict[str, ClientStream])


async def run_client(order: ClientOrder) -> dict[str, ClientStream]:
    """Send Poisson traffic to several services at the same time, phase by phase.

    Args:
        order: what is sent where, and when.
    """
    streams = {name: ClientStream() for name in order.urls}
    async with (
        aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(TIMEOUT_S), connector=aiohttp.TCPConnector(limit=0)
        ) as session,
        asyncio.TaskGroup() as group,
    ):
        for place, name in enumerate(streams):
            chance = random.Random(order.seed + place)
            group.create_task(_send(order, name, streams[name], chance, session, group))
    return streams


async def _send(
    order: ClientOrder,
    name: str,
    stream: ClientStream,
    chance: random.Random,
    session: aiohttp.ClientSession,
    group: asyncio.TaskGroup,
) -> None:
    begin = order.start_s
    for phase in order.phases:
        due, end = begin, begin + phase.seconds
        while (due := due + chance.expovariate(phase.rates_per_s[name])) < end:
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            body = chance.choice(order.bodies[name])
            group.create_task(_one(order.urls[name], body, stream, due, session))
        begin = end


async def _one(
    url: str, body: str, stream: ClientStream, due_s: float, session: aiohttp.ClientSession
) -> None:
    late_ms, latency_ms = await timed_post(url, body, due_s, session)
    stream.due_s.append(due_s)
    stream.latency_ms.append(latency_ms)
    stream.late_ms.append(late_ms)
