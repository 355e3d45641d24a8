"""Sized clusters of the search service on this machine, loaded in turn by the same requests.

All clusters run at once, each in the places of its placement. Blocks of load go to one after the other, and
the blocks of a round have the same arrivals and queries. Replicas are paused in bursts, as in the demo.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from kwiken.arrays import Floats
from kwiken.cli.demo.faults import Disturber, choose
from kwiken.cli.demo.pace import Attempt, Finding, NothingToldError, Pace, Window, assess
from kwiken.cli.demo.setup import EDGE_S, SETTLE_S, TARGET, LoadError, Record, orders, read_records
from kwiken.cli.demo.site import Site, calm_again, find_pace, no_tick
from kwiken.cli.demo.trial import pass_time
from kwiken.cli.live.placing import PlacementOptions
from kwiken.otel.trace import read_requests
from kwiken.runtime.cluster import Cluster, ClusterSettings
from kwiken.runtime.upkeep import clusters_on_nodes

FAILED_MS = 10_000.0  # latency that a request without an answer counts as: the load's time-out
FIRST_ANSWER_S = 30.0  # for the first answer to a new load generator
FLUSH_S = 1.5  # spans are written about once a second
GRACE_S = 2.0
WARM_S = 3.0
STRETCH_S = 5.0  # of the learning time, each judged by what the machine did
REISSUE, PRIMARY = "reissue", "primary"


@dataclass(frozen=True)
class Documents:
    """Files that a cluster is started from.

    Attributes:
        nodes: document of nodes.
        placement: placement on them.
        plan: plan, which may be without copies.
    """

    nodes: Path
    placement: Path
    plan: Path


@dataclass
class Measured:
    """What one cluster did in its blocks.

    Attributes:
        due_s: moments at which requests were due, seconds since 1970.
        latency_ms: their latencies at the client, milliseconds; `FAILED_MS` without an answer.
        gateway_ms: latencies of the same requests at the gateway, milliseconds, in order of time.
        failed: number of requests without an answer.
        copied: copies as a share of the calls.
    """

    due_s: list[float] = field(default_factory=list)
    latency_ms: list[float] = field(default_factory=list)
    gateway_ms: Floats = field(default_factory=lambda: np.empty(0))
    failed: int = 0
    copied: float = 0.0

    @property
    def series(self) -> tuple[Floats, Floats]:
        """Moments and latencies, (n,) each."""
        return np.array(self.due_s), np.array(self.latency_ms)


async def learn(site: Site, seconds: float) -> tuple[Pace, tuple[float, float]]:
    """Find the rate that fits the machine, and load a paused service at that rate.

    Args:
        site: running service, which writes all of its traces.
        seconds: time to learn from.

    Returns:
        The rate with its reason, and the first and last moment to learn from, seconds since 1970.

    Raises:
        NothingToldError: the machine is too slow or too busy.
    """
    pace = await find_pace(site)
    site.watch.pace(pace, seconds)
    name = "learning.jsonl"
    longest_s = FIRST_ANSWER_S + WARM_S + 2 * seconds
    async with _paused(site, pace) as disturber, site.load(name, pace.rate, longest_s) as load:

        async def tick(passed_s: float) -> None:
            site.watch.passed(passed_s)
            await load.check()
            disturber.check()

        await site.flowing(tick)
        site.watch.step("learning from traces", seconds)
        await pass_time(WARM_S, tick)
        stretches = max(1, round(seconds / STRETCH_S))
        attempt = Attempt([("learning", number) for number in range(stretches)])
        monitor, since_s = site.monitor(name, load), time.time()
        while attempt.current is not None:
            monitor.begin()
            await pass_time(seconds / stretches, tick)
            window = await monitor.end(pace.rate)
            _note(site, attempt, window, assess(window, pace))
        until_s = time.time()
        await load.stop()
    _check(attempt, pace)
    await asyncio.sleep(FLUSH_S)
    return pace, (since_s, until_s)


async def compare(
    site: Site, arms: Mapping[str, Documents], pace: Pace, *, rounds: int, block_s: float
) -> dict[str, Measured]:
    """Start a cluster for each arm, and load them in turn.

    Args:
        site: site whose settings, queries and folders are used; its own cluster has ended.
        arms: documents by arm.
        pace: rate of the load.
        rounds: number of blocks of each arm.
        block_s: length of a block, seconds.

    Raises:
        NothingToldError: the machine was too busy in too many blocks.
    """
    found = {arm: Measured() for arm in arms}
    kept: dict[str, list[Record]] = {arm: [] for arm in arms}
    traces = {arm: site.scratch / f"traces-{number}" for number, arm in enumerate(arms)}
    site.watch.step("starting the sized services", 0)
    async with contextlib.AsyncExitStack() as stack:
        sites = {}
        for arm, documents in arms.items():
            cluster = await stack.enter_async_context(_placed(documents, traces[arm]))
            sites[arm] = dataclasses.replace(site, cluster=cluster)
            await stack.enter_async_context(_paused(sites[arm], pace))
        plan = orders(rounds, site.settings.seed, list(arms))
        attempt = Attempt([(arm, number) for number, order in enumerate(plan) for arm in order])
        site.watch.step("loading them in turn", rounds * len(arms) * block_s)
        tries = 0
        while (stretch := attempt.current) is not None:
            arm, number = stretch
            tries += 1
            records, window, finding = await _block(sites[arm], pace, number, tries, block_s)
            if _note(site, attempt, window, finding):
                kept[arm] += records
        _check(attempt, pace)
        await asyncio.sleep(FLUSH_S)
    for arm, measured in found.items():
        _fill(measured, kept[arm], traces[arm])
    return found


@contextlib.asynccontextmanager
async def _placed(documents: Documents, traces: Path) -> AsyncIterator[Cluster]:
    """A cluster as `kwiken up --placement --nodes --plan` runs it."""
    from kwiken.services.search import search

    placed = PlacementOptions(str(documents.placement), str(documents.nodes)).read([search])
    assert placed is not None
    settings = ClusterSettings(traces=traces, trace="all", plan=documents.plan, grace_s=GRACE_S)
    starts = {search.name: lambda layout: Cluster(TARGET, settings, layout=layout)}
    async with clusters_on_nodes(starts, placed.nodes, placed.replicas) as running:
        yield running.clusters[search.name]


@contextlib.asynccontextmanager
async def _paused(site: Site, pace: Pace) -> AsyncIterator[Disturber]:
    """Pause the replicas of a cluster in bursts, as the demo does."""
    stages = site.cluster.service.stages
    calls = {stage: definition.fanout for stage, definition in stages.items()}
    replicas = (await site.cluster.status())["replicas"]
    flaky = choose(replicas, site.settings.seed, rate=pace.rate, calls=calls)
    async with Disturber(flaky, site.settings.seed) as disturber:
        yield disturber


async def _block(
    site: Site, pace: Pace, number: int, tries: int, block_s: float
) -> tuple[list[Record], Window, Finding | None]:
    """Load one cluster with the arrivals and queries of a round."""
    site = dataclasses.replace(site, settings=dataclasses.replace(site.settings, seed=number))
    name = f"block-{tries}.jsonl"
    async with site.load(name, pace.rate, FIRST_ANSWER_S + block_s) as load:

        async def tick(passed_s: float) -> None:
            site.watch.passed(passed_s)
            await load.check()

        monitor = site.monitor(name, load)
        deadline = time.monotonic() + FIRST_ANSWER_S
        while (first_s := monitor.first_due_s()) is None:
            if time.monotonic() > deadline:
                raise LoadError(f"no request was answered within {FIRST_ANSWER_S:g} s")
            await pass_time(0.1, no_tick)
            await load.check()
        monitor.begin()
        await pass_time(first_s + block_s - time.time(), tick)
        window = await monitor.end(pace.rate)
        await load.stop()
    finding = assess(window, pace)
    await calm_again(site, no_tick)
    records = read_records(site.scratch / name)
    inside = (first_s + SETTLE_S, first_s + block_s - EDGE_S)
    return [record for record in records if inside[0] <= record.intended_s < inside[1]], window, finding


def _note(site: Site, attempt: Attempt, window: Window, finding: Finding | None) -> bool:
    """Note how a stretch went; returns whether it counts."""
    if finding is not None:
        site.watch.void(finding)
    return attempt.note(finding, window.use)


def _check(attempt: Attempt, pace: Pace) -> None:
    if attempt.failed:
        raise NothingToldError(f"at {pace.rate:g} requests a second {attempt.reason}")


def _fill(measured: Measured, records: list[Record], traces: Path) -> None:
    """Add the requests that count, with their latencies at the gateway and their copies."""
    records = sorted(records, key=lambda record: record.intended_s)
    for record in records:
        answered = record.answered and record.latency_ms is not None
        measured.due_s.append(record.intended_s)
        measured.latency_ms.append(record.latency_ms or 0.0 if answered else FAILED_MS)
        measured.failed += not answered
    wanted = {int(record.trace_id, 16) for record in records if record.trace_id}
    kinds: list[str] = []
    gateway_ms = []
    for request in read_requests([traces], wanted=wanted.__contains__):
        gateway_ms.append((request.end_ns - request.start_ns) / 1e6)
        kinds += [str(attempt.kind) for stage in request.stages for attempt in stage.attempts]
    measured.gateway_ms = np.array(gateway_ms)
    measured.copied = kinds.count(REISSUE) / max(1, kinds.count(PRIMARY))
