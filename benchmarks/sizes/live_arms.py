"""Sized clusters of the search service on this machine, loaded in turn by the same requests.

All clusters run at once, each in the places of its placement. Blocks of load go to one after the other, and
the blocks of a round have the same arrivals and queries. Replicas are paused in bursts, as in the demo.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import math
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kwiken.apps.demo.faults.disturb import Disturber, choose
from kwiken.apps.demo.pace.attempt import InconclusiveRunError, RateTrial
from kwiken.apps.demo.pace.health import Finding, HealthWindow, assess
from kwiken.apps.demo.pace.rate_search import Pace
from kwiken.apps.demo.setup.blocks import orders
from kwiken.apps.demo.setup.load import read_records
from kwiken.apps.demo.setup.settings import EDGE_S, SETTLE_S, TARGET
from kwiken.apps.demo.site import FIRST_ANSWERS_TIMEOUT_S, Site, calm_again, find_pace, first_due, no_tick
from kwiken.apps.demo.trial.arms import pass_time
from kwiken.apps.demo.trial.measure import ArmData, attach, row_of
from kwiken.apps.report.model.rows import LoadRow
from kwiken.base.arrays import Floats
from kwiken.cli.placing.options import PlacementOptions
from kwiken.otel.trace.recorded_requests import read_requests
from kwiken.runtime.cluster.cluster import Cluster
from kwiken.runtime.cluster.settings import ClusterSettings
from kwiken.upkeep.on_nodes import clusters_on_nodes

FLUSH_S = 1.5  # spans are written about once a second
GRACE_S = 2.0
WARM_S = 3.0
STRETCH_S = 5.0  # of the learning time, each judged by what the machine did
STRETCHES_TOGETHER = 20  # of which a third may be void; a second severe finding among them ends the run
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
        data: requests that count, with their traces.
        pauses: start and end of each pause by replica, in order, seconds since 1970.
    """

    data: ArmData = field(default_factory=ArmData)
    pauses: dict[str, list[tuple[float, float]]] = field(default_factory=dict)

    @property
    def copied(self) -> float:
        """Copies as a share of the calls."""
        kinds = [
            str(attempt.kind)
            for record in self.data.records
            for stage in record.stages
            for attempt in stage.attempts
        ]
        return kinds.count(REISSUE) / max(1, kinds.count(PRIMARY))

    @property
    def undisturbed_ms(self) -> Floats:
        """(n,) latencies at the gateway of the requests that met no pause, milliseconds."""
        return self.data.undisturbed_ms(self.pauses)


async def learn(site: Site, seconds: float) -> tuple[Pace, tuple[float, float]]:
    """Find the rate that fits the machine, and load a paused service at that rate.

    Args:
        site: running service, which writes all of its traces.
        seconds: time of load to learn from, at least.

    Returns:
        The rate with its reason, and the first and last moment to learn from, seconds since 1970.

    Raises:
        InconclusiveRunError: the machine is too slow or too busy.
    """
    pace = await find_pace(site)
    stretches = max(1, math.ceil(seconds / STRETCH_S))
    seconds = stretches * STRETCH_S
    site.watch.pace(pace, seconds)
    name = "learning.jsonl"
    longest_s = FIRST_ANSWERS_TIMEOUT_S + WARM_S + 2 * seconds
    async with _paused(site, pace) as disturber, site.load(name, pace.rate, longest_s) as load:

        async def tick(passed_s: float) -> None:
            site.watch.passed(passed_s)
            await load.check()
            disturber.check()

        await site.flowing(tick)
        site.watch.step("learning from traces", seconds)
        await pass_time(WARM_S, tick)
        monitor, since_s = site.monitor(name, load), time.time()
        for first in range(0, stretches, STRETCHES_TOGETHER):
            together = range(first, min(stretches, first + STRETCHES_TOGETHER))
            attempt = RateTrial([("learning", number) for number in together])
            while attempt.current is not None:
                monitor.begin()
                await pass_time(STRETCH_S, tick)
                window = await monitor.end(pace.rate)
                _note(site, attempt, window, assess(window, pace))
            _check(attempt, pace)
        until_s = time.time()
        await load.stop()
    await asyncio.sleep(FLUSH_S)
    return pace, (since_s, until_s)


async def compare(
    site: Site, arms: Mapping[str, Documents], pace: Pace, *, measured_s: float, block_s: float
) -> dict[str, Measured]:
    """Start a cluster for each arm, and load them in turn.

    Args:
        site: site whose settings, queries and folders are used; its own cluster has ended.
        arms: documents by arm.
        pace: rate of the load.
        measured_s: time of load that counts for each arm, at least, seconds.
        block_s: length of a block, seconds.

    Raises:
        InconclusiveRunError: the machine was too busy in too many blocks.
    """
    rounds = math.ceil(measured_s / (block_s - SETTLE_S - EDGE_S))
    found = {arm: Measured() for arm in arms}
    traces = {arm: site.scratch / f"traces-{number}" for number, arm in enumerate(arms)}
    sites: dict[str, Site] = {}
    disturbers: dict[str, Disturber] = {}
    site.watch.step("starting the sized services", 0)
    async with contextlib.AsyncExitStack() as stack:
        for arm, documents in arms.items():
            cluster = await stack.enter_async_context(_placed(documents, traces[arm]))
            sites[arm] = dataclasses.replace(site, cluster=cluster)
            disturbers[arm] = await stack.enter_async_context(_paused(sites[arm], pace))
        plan = orders(rounds, site.settings.seed, list(arms))
        site.watch.step("loading them in turn", rounds * len(arms) * block_s)
        tries = 0
        for round_number, order in enumerate(plan):
            attempt = RateTrial([(arm, round_number) for arm in order])
            while (stretch := attempt.current) is not None:
                arm, number = stretch
                tries += 1
                rows, window, finding = await _block(sites[arm], pace, number, tries, block_s)
                disturbers[arm].check()
                if _note(site, attempt, window, finding):
                    found[arm].data.rows += rows
            _check(attempt, pace)
        await asyncio.sleep(FLUSH_S)
    for arm, measured in found.items():
        for stage in disturbers[arm].report().stages.values():
            for replica, start_s, end_s in stage.pauses:
                measured.pauses.setdefault(replica, []).append((start_s, end_s))
    attach({arm: measured.data for arm, measured in found.items()}, read_requests(traces.values()))
    return found


@contextlib.asynccontextmanager
async def _placed(documents: Documents, traces: Path) -> AsyncIterator[Cluster]:
    """A cluster as `kwiken up --placement --nodes --plan` runs it."""
    from kwiken.services.search import search

    placed = PlacementOptions(str(documents.placement), str(documents.nodes)).read([search])
    assert placed is not None
    settings = ClusterSettings(
        traces=str(traces),
        trace="all",
        plan=str(documents.plan) if documents.plan is not None else None,
        grace_s=GRACE_S,
    )
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
) -> tuple[list[LoadRow], HealthWindow, Finding | None]:
    """Load one cluster with the arrivals and queries of a round."""
    site = dataclasses.replace(site, settings=dataclasses.replace(site.settings, seed=number))
    name = f"block-{tries}.jsonl"
    async with site.load(name, pace.rate, FIRST_ANSWERS_TIMEOUT_S + block_s) as load:

        async def tick(passed_s: float) -> None:
            site.watch.passed(passed_s)
            await load.check()

        monitor = site.monitor(name, load)
        first_s = await first_due(monitor, lambda _: load.check())
        monitor.begin()
        await pass_time(first_s + block_s - time.time(), tick)
        window = await monitor.end(pace.rate)
        await load.stop()
    finding = assess(window, pace)
    await calm_again(site, no_tick)
    first_s, last_s = first_s + SETTLE_S, first_s + block_s - EDGE_S
    rows = [
        row_of(record)
        for record in read_records(site.scratch / name)
        if first_s <= record.intended_s < last_s
    ]
    return rows, window, finding


def _note(site: Site, attempt: RateTrial, window: HealthWindow, finding: Finding | None) -> bool:
    """Note how a stretch went; returns whether it counts."""
    if finding is not None:
        site.watch.void(finding)
    return attempt.note(finding, window.use)


def _check(attempt: RateTrial, pace: Pace) -> None:
    if attempt.failed:
        raise InconclusiveRunError(f"at {pace.rate:g} requests a second {attempt.reason}")
