"""Benchmark of metrics: what they cost a gateway, and what a profile made of histograms alone loses.

Cost: processor time of the gateway for each request, with its metrics scraped and its traces sampled, and
without both. The same clients send the same requests to gateways in one process, in turn. Counting is part of
the runtime and cannot be switched off, so the time of counting one latency is measured by itself; a request
counts two, and one for each of its calls.

Loss: one run is recorded as spans and scraped by a real Prometheus, if there is one; a profile is fitted from
each, and planned for.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import aiohttp
import numpy as np
import uvloop

from benchmarks.gateway.bench_gateway import CALLERS
from benchmarks.harness import Row, alone, paired
from benchmarks.traces.traced_gateways import traced_gateways
from kwiken.model.plan.plan import Budgets
from kwiken.model.profile.profile import Profile
from kwiken.otel.fit.fit import fit_profile
from kwiken.otel.histograms.fit import HistogramFit, fit_histograms
from kwiken.runtime.cluster.cluster import Cluster
from kwiken.runtime.cluster.settings import ClusterSettings
from kwiken.runtime.decisions.latency_histogram import LatencyHistogram
from kwiken.runtime.gateway.settings import TraceMode
from kwiken.tail.planning.planner import make_plan

SEARCH: Final = "kwiken.services.search:search"
QUERIES: Final = ("asyncio gather", "read a file", "json decode error", "list comprehension", "open socket")
SEARCHES: Final = 2  # at once
MAX_COST: Final = 1.10  # times the processor time without metrics and traces
SCRAPE_S: Final = 5.0  # three times as often as Prometheus does by default
QUICK_SCRAPE_S: Final = 1.0  # where only histograms matter
COUNTED: Final = 10_000
BUDGET: Final = 0.05
OPENMETRICS: Final = {"Accept": "application/openmetrics-text; version=1.0.0"}


def run(quick: bool) -> list[Row]:  # noqa: FBT001 - every benchmark is called alike
    rounds, seconds = (2, 1.0) if quick else (9, SCRAPE_S)
    rows = [alone("counting one latency", _count_many, rounds=5, unit="us", scale=1e6 / COUNTED)]
    rows += uvloop.run(_cost(rounds, seconds))
    program = shutil.which("prometheus")
    if program is None:
        print("prometheus is not installed, so no profile is made of histograms", file=sys.stderr)
        return rows
    with tempfile.TemporaryDirectory() as folder:
        loss: list[Row] = uvloop.run(_loss(program, Path(folder), 5.0 if quick else 30.0))
    return [*rows, *loss]


def _count_many() -> None:
    histogram = LatencyHistogram()
    for number in range(1, COUNTED + 1):
        histogram.add(number * 1e-5)


async def _cost(rounds: int, seconds: float) -> list[Row]:
    ways: tuple[tuple[TraceMode, bool], ...] = (("off", False), ("off", True), ("sampled", True))
    with tempfile.TemporaryDirectory() as folder:
        async with traced_gateways(Path(folder)) as gateways:
            costs: list[list[float]] = []
            for turn in range(rounds + 1):
                cost = [0.0] * len(ways)
                # Each is first, second and last in turn: what runs before leaves its traces in the caches.
                for step in range(len(ways)):
                    index = (turn + step) % len(ways)
                    mode, scraped = ways[index]
                    async with _scraped(gateways.urls[mode]) if scraped else contextlib.nullcontext():
                        cost[index] = await gateways.us_a_request(mode, seconds, CALLERS)
                if turn:  # the first turn is a warm-up
                    costs.append(cost)
    name = "processor time of the gateway for a request of a chain of three stages"
    return [
        _cost_row(f"{name}, metrics scraped every {SCRAPE_S:g} s", [(cost[1], cost[0]) for cost in costs]),
        _cost_row(f"{name}, metrics and sampled traces", [(cost[2], cost[0]) for cost in costs]),
    ]


def _cost_row(name: str, pairs: list[tuple[float, float]]) -> Row:
    return paired(name, "without metrics and traces", pairs, unit="us", least=1 / MAX_COST)


@contextlib.asynccontextmanager
async def _scraped(url: str) -> AsyncIterator[None]:
    """Scrape a gateway as Prometheus does, at once and at intervals."""

    async def scrape() -> None:
        async with aiohttp.ClientSession() as session:
            while True:
                async with session.get(url + "/metrics", headers=OPENMETRICS) as response:
                    response.raise_for_status()
                    await response.read()
                await asyncio.sleep(SCRAPE_S)

    scraping = asyncio.create_task(scrape())
    try:
        yield
    finally:
        scraping.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await scraping


async def _loss(program: str, folder: Path, seconds: float) -> list[Row]:
    settings = ClusterSettings(traces=str(folder / "traces"), trace="all")
    async with Cluster(SEARCH, settings) as cluster, _prometheus(program, folder, cluster) as address:
        await asyncio.sleep(3 * QUICK_SCRAPE_S)
        await _search(cluster.gateway_url, seconds)
        await asyncio.sleep(3 * QUICK_SCRAPE_S)
        found = await asyncio.to_thread(fit_histograms, address)
    return loss_rows(fit_profile([folder / "traces"]), found)


async def _search(url: str, seconds: float) -> None:
    """Keep a few searches in flight for so long."""
    end = time.monotonic() + seconds

    async def caller(session: aiohttp.ClientSession, number: int) -> None:
        while time.monotonic() < end:
            body = {"query": QUERIES[number % len(QUERIES)]}
            number += 1
            async with session.post(url + "/v1/request", json=body) as response:
                response.raise_for_status()
                await response.read()

    async with aiohttp.ClientSession() as session:
        await asyncio.gather(*(caller(session, number) for number in range(SEARCHES)))


def loss_rows(spans: Profile, found: HistogramFit) -> list[Row]:
    """Differences between a profile from spans and one from histograms of the same run, in percent."""
    rows = []
    for percent in (50, 99):
        apart = []
        for stage in spans.stages:
            if stage.own_time:
                continue
            true, made = (
                float(np.nanpercentile(each.calls_ms, percent))
                for each in (stage, found.profile.stage(stage.name))
            )
            apart.append(100 * abs(made - true) / true)
        rows.append(
            Row(
                name=f"p{percent} of stages from histograms, apart from p{percent} from spans: mean",
                ours=float(np.mean(apart)),
                unit="%",
                spread=(min(apart), max(apart)),
            )
        )
    cuts = [_cut(profile) for profile in (found.profile, spans)]
    rows.append(
        Row(
            name=f"expected cut of p99 by a plan of {BUDGET:.0%} from histograms",
            ours=cuts[0],
            unit="%",
            alternative="from spans",
            theirs=cuts[1],
            ratio=cuts[1] / cuts[0] if cuts[0] else None,
        )
    )
    return rows


def _cut(profile: Profile) -> float:
    """Cut of p99 that a plan expects, percent."""
    plan = make_plan(profile, budgets=Budgets(reissue=BUDGET), created="2026-01-01T00:00:00Z")
    expected = plan.expected
    assert expected is not None
    return 100 * (1 - expected.after.p99_ms / expected.before.p99_ms)


@contextlib.asynccontextmanager
async def _prometheus(program: str, folder: Path, cluster: Cluster) -> AsyncIterator[str]:
    """A Prometheus that scrapes the gateway; its address for `kwiken fit`."""
    target = cluster.gateway_url.removeprefix("http://")
    (folder / "prometheus.yml").write_text(
        f"global: {{scrape_interval: {QUICK_SCRAPE_S:g}s}}\n"
        f"scrape_configs: [{{job_name: kwiken, static_configs: [{{targets: ['{target}']}}]}}]\n"
    )
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = await asyncio.create_subprocess_exec(
        program,
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=error",
    )
    try:
        await _ready(port)
        yield f"prometheus://127.0.0.1:{port}"
    finally:
        process.terminate()
        await process.wait()


async def _ready(port: int, within_s: float = 30.0) -> None:
    end = time.monotonic() + within_s
    async with aiohttp.ClientSession() as session:
        while True:
            with contextlib.suppress(aiohttp.ClientError):
                async with session.get(f"http://127.0.0.1:{port}/-/ready") as response:
                    if response.ok:
                        return
            if time.monotonic() > end:
                raise TimeoutError("Prometheus does not become ready")
            await asyncio.sleep(0.1)
