"""Benchmark of requests through a DAG in one process, per stage: all policies on, against bare asyncio."""

from __future__ import annotations

import asyncio
from functools import partial

from benchmarks.harness import Row, side_by_side
from benchmarks.in_process.calls import chain_of, echo, fan_of, hedged, repeat

TARGET_US = 10.0
WIDTH = 8
MAX_OF_GROUP = 3.0  # times the price of a TaskGroup


async def by_hand(length: int) -> int:
    """The chain, awaited by hand: no timeout, no choice, no books."""
    value = 1
    for _ in range(length):
        value = await echo(value)
    return value


async def group() -> int:
    """The fan-out and its merge as a TaskGroup: no timeout, no choice, no books."""
    async with asyncio.TaskGroup() as tasks:
        parts = [tasks.create_task(echo(shard)) for shard in range(WIDTH)]
    return sum(part.result() for part in parts)


def run(quick: bool) -> list[Row]:  # noqa: FBT001 - every benchmark is called alike
    loop = asyncio.new_event_loop()
    try:
        return [*chains(loop, quick=quick), fan(loop, quick=quick)]
    finally:
        loop.close()


def chains(loop: asyncio.AbstractEventLoop, *, quick: bool) -> list[Row]:
    """Chains of stages."""
    rows = []
    for length in (3, 10):
        executor = hedged(chain_of(length))
        requests = (300 if quick else 3000) // length
        rows.append(
            side_by_side(
                f"chain of {length} stages in one process, per stage",
                repeat(loop, partial(executor.run, 1), requests),
                ("bare await", repeat(loop, partial(by_hand, length), requests)),
                rounds=5 if quick else 25,
                unit="us",
                scale=1e6 / (requests * length),
                target=TARGET_US,
            )
        )
    return rows


def fan(loop: asyncio.AbstractEventLoop, *, quick: bool) -> Row:
    """A fan-out, each of whose calls has a task and a race of its own."""
    executor = hedged(fan_of(WIDTH))
    requests = 30 if quick else 300
    return side_by_side(
        f"fan-out of {WIDTH} and its merge in one process, per call",
        repeat(loop, lambda: executor.run(1), requests),
        ("TaskGroup", repeat(loop, group, requests)),
        rounds=5 if quick else 25,
        unit="us",
        scale=1e6 / (requests * (WIDTH + 1)),
        least=1 / MAX_OF_GROUP,
    )
