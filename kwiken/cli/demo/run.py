"""Steps of the demo: start, disturb, load, learn, plan, compare, stop, judge."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import aiohttp

from kwiken.cli.demo.faults import Disturber, choose
from kwiken.cli.demo.progress import Watch
from kwiken.cli.demo.setup import (
    PLANNING_S,
    TARGET,
    DemoSettings,
    Folder,
    Load,
    LoadError,
    Timing,
    divide,
    read_records,
    write_queries,
)
from kwiken.cli.demo.trial import Evidence, Learned, Trial, judge, learn, pass_time, run_blocks
from kwiken.cli.report.model import DemoResult
from kwiken.errors import KwikenError
from kwiken.plan import Plan
from kwiken.runtime.cluster import Cluster

T = TypeVar("T")

FIRST_ANSWERS_TIMEOUT_S = 30.0
FLUSH_S = 1.5  # spans are written about once a second
FIRST_ANSWERS = 5  # requests that must be answered before the demo goes on
GRACE_S = 5.0
MAX_PUT_TRIES = 3
REQUEST_BYTES = 15_000  # lower bound of the size of one request's spans


class SwitchError(KwikenError):
    """The gateway did not accept a plan."""


@dataclass
class _Bench:
    """Running parts of the demo while the load lasts."""

    settings: DemoSettings
    timing: Timing
    cluster: Cluster
    disturber: Disturber
    load: Load
    watch: Watch
    folder: Folder

    async def tick(self, seconds: float) -> None:
        """Report progress, and check that every part still runs."""
        self.watch.passed(seconds)
        self.folder.check_room()
        await self.load.check()
        self.disturber.check()

    async def flowing(self) -> None:
        """Wait until the gateway has answered the first requests."""
        deadline = time.monotonic() + FIRST_ANSWERS_TIMEOUT_S
        while (await self.cluster.status())["runtime"]["requests"] < FIRST_ANSWERS:
            if time.monotonic() > deadline:
                raise LoadError(f"no request was answered within {FIRST_ANSWERS_TIMEOUT_S:g} s")
            await pass_time(0.1, self.tick)

    async def learn(self) -> Learned:
        """Warm up, record traces, fit and plan while the load goes on."""
        self.watch.step("warming up", self.timing.warm_s)
        await pass_time(self.timing.warm_s, self.tick)
        self.watch.step("learning from traces", self.timing.learn_s)
        since = time.time()
        await pass_time(self.timing.learn_s, self.tick)
        until = time.time()
        self.watch.step("fitting and planning", 0)
        await pass_time(FLUSH_S, self.tick)
        settings = self.settings
        return await self._working(
            asyncio.to_thread(
                learn,
                self.folder.traces,
                since_s=since,
                until_s=until,
                budget=settings.budget,
                seed=settings.seed,
            )
        )

    async def _working(self, work: Coroutine[Any, Any, T]) -> T:
        """Await work in another thread, with checks that the load still runs."""
        task = asyncio.create_task(work)
        try:
            while not task.done():
                await pass_time(0.1, self.tick)
        except BaseException:
            task.cancel()
            raise
        return await task

    async def compare(self, learned: Learned) -> Trial:
        """Run the blocks of all arms, then remove the plan."""
        self.watch.step("comparing before, after and even", self.timing.measure_s)
        plans = {"before": None, "after": learned.study.plan, "even": learned.even}
        trial = await run_blocks(
            plans,
            self.timing,
            seed=self.settings.seed,
            put=self._put,
            pids=self._pids,
            tick=self.tick,
        )
        await self._put(None)
        return trial

    async def _put(self, plan: Plan | None) -> None:
        """Put a plan in force; retry if the gateway was too busy to answer."""
        for _ in range(MAX_PUT_TRIES):
            try:
                return await self.cluster.put_plan(plan)
            except (TimeoutError, aiohttp.ClientError):
                await self.load.check()
        raise SwitchError(f"the gateway took no plan in {MAX_PUT_TRIES} tries; is the machine overloaded?")

    def _pids(self) -> Iterator[int]:
        if self.cluster.gateway_pid is not None:
            yield self.cluster.gateway_pid
        for those in self.cluster.replicas.values():
            yield from (pid for pid, _ in those)


async def run_demo(settings: DemoSettings, watch: Watch) -> DemoResult:
    """Run the demo and write its folder.

    Raises:
        KwikenError: when a step fails; names the step. All processes have ended by then.
    """
    requests = settings.seconds * settings.rate
    folder = Folder.make(settings.out, needs=round(REQUEST_BYTES * requests))
    try:
        return await _run_in(folder, settings, watch)
    finally:
        folder.release()


async def _run_in(folder: Folder, settings: DemoSettings, watch: Watch) -> DemoResult:
    began = time.monotonic()
    timing = divide(settings.seconds)
    with tempfile.TemporaryDirectory(prefix="kwiken-demo-") as scratch:
        queries, records = Path(scratch) / "queries.txt", Path(scratch) / "records.jsonl"
        watch.step("reading the library", 0)
        await write_queries(queries, settings.seed)
        watch.step("starting the service", 0)
        async with Cluster(TARGET, traces=folder.traces, grace_s=GRACE_S) as cluster:
            load = Load(
                cluster.gateway_url,
                rate=settings.rate,
                longest_s=settings.seconds + PLANNING_S + FIRST_ANSWERS_TIMEOUT_S,
                queries=queries,
                records=records,
                seed=settings.seed,
            )
            evidence = await _under_load(settings, timing, cluster, load, watch, folder)
        watch.step("judging", 0)
        noted = read_records(records)
    result = await asyncio.to_thread(
        judge, evidence, noted, folder=folder, wall_s=lambda: time.monotonic() - began
    )
    watch.step("packing the traces", 0)
    await asyncio.to_thread(folder.pack_traces)
    return result


async def _under_load(
    settings: DemoSettings, timing: Timing, cluster: Cluster, load: Load, watch: Watch, folder: Folder
) -> Evidence:
    """Disturb, load, learn and compare; the load ends before the disturbance."""
    replicas = (await cluster.status())["replicas"]
    flaky = {} if settings.calm else choose(replicas, settings.seed)
    watch.disturbance(flaky)
    async with Disturber(flaky, settings.seed) as disturber, load:
        bench = _Bench(settings, timing, cluster, disturber, load, watch, folder)
        await bench.flowing()
        learned = await bench.learn()
        trial = await bench.compare(learned)
        watch.step("stopping", 0)
        await load.stop()
    restarts = sum(replica["restarts"] for replica in (await cluster.status())["replicas"])
    return Evidence(settings, timing, learned, trial, disturber.report(), restarts)
