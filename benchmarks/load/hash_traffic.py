"""Open-loop requests to gateways of services that hash, with every latency kept."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import aiohttp

TIMEOUT_S: Final = 10.0
FAILED_MS: Final = float("inf")  # latency of a request that failed
OK: Final = 200
JSON: Final = {"Content-Type": "application/json"}
CALLERS: Final = 2  # so that a replica is never idle


@dataclass
class LoadStream:
    """Requests to one gateway.

    Attributes:
        rounds: rounds of work that a request asks for.
        due_s: moment at which each answered or failed request was due, monotonic clock, seconds.
        latency_ms: latency of each from that moment, milliseconds; infinite for a failed one.
        late_ms: delay of each request's start after it was due, milliseconds.
    """

    url: str
    rounds: int
    rate_per_s: float
    due_s: list[float] = field(default_factory=list)
    latency_ms: list[float] = field(default_factory=list)
    late_ms: list[float] = field(default_factory=list)

    def between(self, first_s: float, last_s: float) -> list[float]:
        """Latencies of the requests that were due between two moments, milliseconds."""
        pairs = zip(self.due_s, self.latency_ms, strict=True)
        return [latency for due, latency in pairs if first_s <= due < last_s]


def p99_ms(latencies: Iterable[float]) -> float:
    """Latency that 99% of the requests stay below or reach, milliseconds; infinite without requests."""
    found = sorted(latencies)
    return found[min(len(found) - 1, int(0.99 * len(found)))] if found else FAILED_MS


async def time_of_call(url: str, rounds: int, seconds: float) -> float:
    """Time that a replica takes for a call when it is never idle, seconds.

    Calls one at a time would tell too little: a limited process that was idle starts at full speed.

    Args:
        seconds: time to measure for.
    """
    answered = 0
    start_s = time.monotonic()
    last_s = start_s

    async def caller(session: aiohttp.ClientSession) -> None:
        nonlocal answered, last_s
        while time.monotonic() < start_s + seconds:
            async with session.post(url, json={"rounds": rounds}) as response:
                await response.read()
                response.raise_for_status()
            answered += 1
            last_s = time.monotonic()

    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(TIMEOUT_S)) as session:
        await asyncio.gather(*(caller(session) for _ in range(CALLERS)))
    return (last_s - start_s) / answered


async def send(streams: Iterable[LoadStream], seconds: float, chance: random.Random) -> None:
    """Send Poisson traffic to several gateways at the same time.

    Args:
        streams: what to send where; latencies are added.
        seconds: time for which requests are due.
    """
    async with (
        aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(TIMEOUT_S), connector=aiohttp.TCPConnector(limit=0)
        ) as session,
        asyncio.TaskGroup() as group,
    ):
        for stream in streams:
            own = random.Random(chance.random())
            group.create_task(_send(stream, seconds, own, session, group))


async def _send(
    stream: LoadStream,
    seconds: float,
    chance: random.Random,
    session: aiohttp.ClientSession,
    group: asyncio.TaskGroup,
) -> None:
    due = time.monotonic()
    end = due + seconds
    while (due := due + chance.expovariate(stream.rate_per_s)) < end:
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        group.create_task(_one(stream, due, session))


async def _one(stream: LoadStream, due_s: float, session: aiohttp.ClientSession) -> None:
    late_ms, latency_ms = await timed_post(stream.url, json.dumps({"rounds": stream.rounds}), due_s, session)
    stream.due_s.append(due_s)
    stream.latency_ms.append(FAILED_MS if latency_ms is None else latency_ms)
    stream.late_ms.append(late_ms)


async def timed_post(
    url: str, body: str, due_s: float, session: aiohttp.ClientSession
) -> tuple[float, float | None]:
    """Send one request.

    Args:
        body: request as JSON.
        due_s: moment at which the request is due, monotonic clock, seconds.

    Returns:
        The delay of its start, and its latency, from that moment, milliseconds; None for one that failed.
    """
    late_ms = 1e3 * (time.monotonic() - due_s)
    try:
        async with session.post(url, data=body.encode(), headers=JSON) as response:
            await response.read()
            answered = response.status == OK
    except (aiohttp.ClientError, TimeoutError):
        answered = False
    return late_ms, 1e3 * (time.monotonic() - due_s) if answered else None
