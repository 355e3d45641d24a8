"""Benchmark of tracing: processor time of the gateway a request, without spans, with sampled ones, with all.

Gateways that differ only in `--trace` stand in one process and take load in turn, in short blocks. What a
user pays is the processor time of that process, read from the kernel, with the thread that writes the spans;
at the end of a block all its spans are written.

Where the time goes is told by gateways that do a part of the work, and by the same executors in one process
without sockets. These show small differences well, because nothing else runs between two requests. For that
reason they also understate them: a gateway's caches hold other things by the next request.
"""

from __future__ import annotations

import asyncio
import gc
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
import uvloop

from benchmarks.chain import STAGES, Item, chain
from benchmarks.harness import Row, median_interval, paired
from benchmarks.traced_gateways import Counts, Way, side_of, traced_gateways
from kwiken.runtime.transport import Call, Replica, Reply

CALLERS: Final = 4  # few, so that no request is turned away on a busy machine
LEAST_SHARE: Final = 0.95  # of the gateway's processor time that is to be left to requests
WARM_UP_S: Final = 0.5
DROPPED_BEFORE: Final = 100  # requests
IN_PROCESS: Final = 500  # requests in a row without sockets
FIRST: Final = 400  # requests before these: more than a sampler keeps at its start
Figures = Mapping[Way, list[float]]


def run(quick: bool) -> list[Row]:  # noqa: FBT001 - every benchmark is called alike
    rounds, seconds = (2, 0.3) if quick else (80, 0.3)
    with tempfile.TemporaryDirectory() as folder:
        rows: list[Row] = uvloop.run(_over_http(Path(folder) / "http", rounds, seconds))
        rows += uvloop.run(_in_process(Path(folder) / "local", rounds))
    return rows


async def _over_http(folder: Path, rounds: int, seconds: float) -> list[Row]:
    async with traced_gateways(folder) as gateways:
        for way in Way:
            await gateways.us_a_request(way, WARM_UP_S, CALLERS)
        # A sampler keeps every request until it knows what is slow.
        while (before := await gateways.counts(Way.SAMPLED)).dropped < DROPPED_BEFORE:
            for way in Way:
                await gateways.us_a_request(way, WARM_UP_S, CALLERS)
        figures: Figures = {way: [] for way in Way}
        for turn in range(rounds):
            for way in _in_turn(turn):
                figures[way].append(await gateways.us_a_request(way, seconds, CALLERS))
        after = await gateways.counts(Way.SAMPLED)
    name = f"chain of {len(STAGES)} stages over HTTP, {CALLERS} at once: gateway's processor time a request"
    rows = []
    for way, least in ((Way.SAMPLED, LEAST_SHARE), (Way.ALL, None)):
        pairs = list(zip(figures[way], figures[Way.OFF], strict=True))
        rows.append(paired(f"{name}, {way}", str(Way.OFF), pairs, unit="us", least=least))
    return [*rows, *_parts("over HTTP", figures), _kept_row(before, after)]


class _Instant:
    """Transport whose replicas answer in the next iteration of the event loop."""

    async def call(self, replica: Replica, call: Call) -> Reply:
        """Answer one call."""
        del replica
        call.sent = time.monotonic()
        await asyncio.sleep(0)
        call.first_byte = time.monotonic()
        return Reply(msgspec.Raw(b""), 0.1, 1, 0.1)

    def ask(self, replica: Replica, heard: object) -> None:
        """Never needed: no call fails."""


async def _in_process(folder: Path, rounds: int) -> list[Row]:
    replicas = {stage: [Replica(f"{stage}-0", "here", "nowhere")] for stage in chain.stages}
    sides = {way: side_of(way, _Instant(), replicas, folder) for way in Way}

    async def us_a_request(way: Way, requests: int) -> float:
        side, item = sides[way], Item("x")
        start = time.process_time_ns()
        for _ in range(requests):
            await side.executor.run(item)
        side.counts()
        return (time.process_time_ns() - start) / requests / 1e3

    for way in Way:
        await us_a_request(way, FIRST)
    gc.collect()
    gc.freeze()
    figures: Figures = {way: [] for way in Way}
    for turn in range(rounds):
        for way in _in_turn(turn):
            figures[way].append(await us_a_request(way, IN_PROCESS))
    for side in sides.values():
        side.close()
    gc.unfreeze()
    return _parts("in process", figures)


def _in_turn(turn: int) -> Sequence[Way]:
    """All ways, each first, second and last in turn: what runs before leaves its traces in the caches."""
    ways = list(Way)[:: -1 if turn % 2 else 1]
    first = turn // 2 % len(ways)
    return ways[first:] + ways[:first]


def _parts(place: str, figures: Figures) -> list[Row]:
    """What each way costs beyond another, microseconds a request."""
    parts = (
        ("moments noted and trace context sent, where a request is dropped", Way.DROPPED, Way.OFF),
        ("records of the kept requests", Way.RECORDED, Way.DROPPED),
        ("their spans written", Way.SAMPLED, Way.RECORDED),
        ("all of --trace sampled", Way.SAMPLED, Way.OFF),
        ("all of --trace all", Way.ALL, Way.OFF),
    )
    rows = []
    for name, way, without in parts:
        beyond = [more - less for more, less in zip(figures[way], figures[without], strict=True)]
        rows.append(
            Row(
                name=f"{place}, {name}: microseconds a request, and the 95% interval of their median",
                ours=statistics.median(beyond),
                unit="us",
                spread=median_interval(beyond),
            )
        )
    return rows


def _kept_row(before: Counts, after: Counts) -> Row:
    kept, dropped = after.kept - before.kept, after.dropped - before.dropped
    return Row(name="requests kept by --trace sampled", ours=100 * kept / (kept + dropped), unit="%")
