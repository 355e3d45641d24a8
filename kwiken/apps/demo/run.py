"""Steps of the demo: start, find the pace, disturb, load, learn, try a plan, plan, compare, stop, judge."""

from __future__ import annotations

import asyncio
import dataclasses
import tempfile
import time
from collections.abc import Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from kwiken.apps.demo.faults.disturb import Disturber, choose
from kwiken.apps.demo.pace.attempt import InconclusiveRunError, RateTrial, slower_rate
from kwiken.apps.demo.pace.health import Finding, HealthWindow, assess
from kwiken.apps.demo.pace.monitor import Monitor
from kwiken.apps.demo.pace.rate_search import WANTED_REQUESTS, Pace, seconds_for
from kwiken.apps.demo.progress import DemoWatch
from kwiken.apps.demo.setup.folder import Folder
from kwiken.apps.demo.setup.load import Load, read_records, write_queries
from kwiken.apps.demo.setup.settings import PLANNING_S, TARGET, DemoSettings, Timing, check_enough, divide
from kwiken.apps.demo.site import FIRST_ANSWERS_TIMEOUT_S, Site, calm_again, find_pace, no_tick
from kwiken.apps.demo.trial.arms import ArmTrial, pass_time, run_blocks
from kwiken.apps.demo.trial.plans import DemoStretch, Learned, first_plan, learn, learn_copies
from kwiken.apps.demo.trial.trial_result import TrialData
from kwiken.apps.demo.trial.verdict import judge
from kwiken.apps.report.model.result import DemoResult
from kwiken.model.plan.plan import Plan
from kwiken.runtime.cluster.cluster import Cluster
from kwiken.runtime.cluster.settings import ClusterSettings
from kwiken.runtime.gateway.control.client import NoAnswerError

T = TypeVar("T")

FLUSH_S = 1.5  # spans are written about once a second
GRACE_S = 5.0
MAX_PUT_TRIES = 3
REQUEST_BYTES = 15_000  # lower bound of the size of one request's spans
LEARN_WINDOW_S = 5.0


async def run_demo(settings: DemoSettings, watch: DemoWatch) -> DemoResult:
    """Run the demo and write its folder.

    Raises:
        InconclusiveRunError: when the machine did not let the run measure anything; says why.
        KwikenError: when a step fails; names the step. All processes have ended by then.
    """
    requests = (
        settings.seconds * settings.rate
        if settings.seconds is not None and settings.rate is not None
        else WANTED_REQUESTS
    )
    folder = Folder.make(settings.out, needs=round(REQUEST_BYTES * requests))
    try:
        return await _run_in(folder, settings, watch)
    finally:
        folder.release()


async def _run_in(folder: Folder, settings: DemoSettings, watch: DemoWatch) -> DemoResult:
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="kwiken-demo-") as scratch:
        watch.step("reading the library", 0)
        await write_queries(Path(scratch) / "queries.txt", settings.seed)
        watch.step("starting the service", 0)
        cluster_settings = ClusterSettings(traces=str(folder.traces), trace="all", grace_s=GRACE_S)
        async with Cluster(TARGET, cluster_settings) as cluster:
            site = Site(settings, cluster, watch, folder, Path(scratch))
            evidence, records = await _paced(site, await find_pace(site))
        watch.step("judging", 0)
        noted = read_records(records)
    result = await _to_its_end(
        asyncio.to_thread(judge, evidence, noted, folder=folder, wall_s=lambda: time.monotonic() - began)
    )
    watch.step("packing the traces", 0)
    await _to_its_end(asyncio.to_thread(folder.pack_traces))
    return result


async def _to_its_end(work: Coroutine[Any, Any, T]) -> T:
    """Await work in another thread; if cancelled, only after the thread has left the folder."""
    task = asyncio.create_task(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


async def _paced(site: Site, pace: Pace) -> tuple[TrialData, Path]:
    """Learn and compare at a pace, at a slower one where the machine does not bear that.

    Returns:
        The data of the trial, and the file with the load generator's records.

    Raises:
        InconclusiveRunError: when no pace is left to try.
    """
    settings = site.settings
    slowdowns, began_s = 0, time.monotonic()
    while True:
        seconds = settings.seconds or seconds_for(pace.rate, time.monotonic() - began_s)
        if seconds is None:
            raise InconclusiveRunError("too few seconds are left at the rate that the machine bears")
        timing = divide(seconds)
        check_enough(pace.rate, timing)
        site.watch.pace(pace, seconds)
        name = f"records-{slowdowns}.jsonl"
        outcome = await _attempt(site, pace, timing, name)
        if isinstance(outcome, TrialData):
            return outcome, site.scratch / name
        slower = slower_rate(pace.rate, outcome.excess, fixed=settings.rate is not None, slowdowns=slowdowns)
        if slower is None:
            advice = (
                "lower --rate" if settings.rate is not None else "try again when the machine is less busy"
            )
            raise InconclusiveRunError(f"at {pace.rate:g} requests a second {outcome.reason}; {advice}")
        site.watch.slower(outcome.reason, pace.rate, slower)
        slowdowns += 1
        pace = dataclasses.replace(pace, rate=slower, share=pace.share * slower / pace.rate)
        await calm_again(site, no_tick)


async def _attempt(site: Site, pace: Pace, timing: Timing, name: str) -> TrialData | RateTrial:
    """Disturb, load, learn and compare; the load ends before the disturbance.

    Returns:
        The data of the trial; the attempt if it has failed.
    """
    settings, cluster, watch = site.settings, site.cluster, site.watch
    replicas = await site.replicas()
    calls = {stage: definition.fanout for stage, definition in cluster.service.stages.items()}
    flaky = {} if settings.calm else choose(replicas, settings.seed, rate=pace.rate, calls=calls)
    watch.disturbance(flaky)
    longest_s = 2 * timing.total_s + PLANNING_S + FIRST_ANSWERS_TIMEOUT_S
    load = site.load(name, pace.rate, longest_s)
    async with Disturber(flaky, settings.seed) as disturber, load:
        bench = _Bench(site, pace, timing, disturber, load, site.monitor(name, load))
        await site.flowing(bench.tick)
        learned = await bench.learn()
        if isinstance(learned, RateTrial):
            return learned
        trial, attempt = await bench.compare(learned)
        if attempt.failed:
            return attempt
        watch.step("stopping", 0)
        await load.stop()
    restarts = sum(replica["restarts"] for replica in await site.replicas())
    return TrialData(settings, pace, timing, learned, trial, disturber.report(), restarts)


@dataclass
class _Bench:
    """Running parts of one attempt while its load lasts."""

    site: Site
    pace: Pace
    timing: Timing
    disturber: Disturber
    load: Load
    monitor: Monitor

    async def tick(self, seconds: float) -> None:
        """Report progress, and check that every part still runs."""
        self.site.watch.passed(seconds)
        self.site.folder.check_room()
        await self.load.check()
        self.disturber.check()

    async def learn(self) -> Learned | RateTrial:
        """Warm up, learn without a plan, learn what copies do with a first plan, and plan.

        Returns:
            The plans of the trial; the attempt if it has failed.
        """
        watch, timing, settings = self.site.watch, self.timing, self.site.settings
        traces = self.site.folder.traces
        watch.step("warming up", timing.warm_s)
        await pass_time(timing.warm_s, self.tick)
        alone = await self._recorded("learning from traces", timing.learn_s)
        if isinstance(alone, RateTrial):
            return alone
        watch.step("fitting, and planning a first plan", 0)
        profile = await self._working(asyncio.to_thread(learn, traces, alone))
        first = await self._working(
            asyncio.to_thread(first_plan, profile, budget=settings.budget, seed=settings.seed)
        )
        await calm_again(self.site, self.tick)
        await self._put(first)
        pilot = await self._recorded("learning what copies do", timing.pilot_s)
        await self._put(None)
        if isinstance(pilot, RateTrial):
            return pilot
        watch.step("planning", 0)
        learned = await self._working(
            asyncio.to_thread(
                learn_copies, profile, first, traces, pilot, budget=settings.budget, seed=settings.seed
            )
        )
        await calm_again(self.site, self.tick)
        return learned

    async def _recorded(self, label: str, seconds: float) -> tuple[DemoStretch, ...] | RateTrial:
        """Let a number of seconds pass that count.

        Returns:
            The stretches that count, in order; the attempt if too many do not.
        """
        self.site.watch.step(label, seconds)
        windows = max(1, round(seconds / LEARN_WINDOW_S))
        attempt = RateTrial([("learning", number) for number in range(windows)])
        sound: list[DemoStretch] = []
        while attempt.current is not None:
            self.monitor.begin()
            since_s = time.time()
            await pass_time(seconds / windows, self.tick)
            stretch = DemoStretch(since_s, time.time())
            window, finding = await self._end()
            if attempt.note(finding, window.use):
                sound.append(stretch)
        if attempt.failed:
            return attempt
        await pass_time(FLUSH_S, self.tick)
        return tuple(sound)

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

    async def compare(self, learned: Learned) -> tuple[ArmTrial, RateTrial]:
        """Run the blocks of all arms, then remove the plan."""
        self.site.watch.step("comparing four arms in turns", self.timing.measure_s)
        plans = {"before": None, "after": learned.study.plan, "even": learned.even, "p95": learned.everywhere}
        trial = await run_blocks(
            plans,
            self.timing,
            seed=self.site.settings.seed,
            put=self._put,
            begin=self.monitor.begin,
            end=self._end,
            tick=self.tick,
        )
        await self._put(None)
        return trial

    async def _end(self) -> tuple[HealthWindow, Finding | None]:
        """Figures of the stretch that ends now, and what is wrong with it."""
        window = await self.monitor.end(self.pace.rate)
        finding = assess(window, self.pace)
        if finding is not None:
            self.site.watch.void(finding)
            await calm_again(self.site, self.tick)
        return window, finding

    async def _put(self, plan: Plan | None) -> None:
        """Put a plan in force; retry if the gateway was too busy to answer."""
        for _ in range(MAX_PUT_TRIES):
            try:
                return await self.site.cluster.put_plan(plan)
            except NoAnswerError:
                await self.load.check()
        raise InconclusiveRunError(f"the gateway took no plan in {MAX_PUT_TRIES} tries")
