"""Steps of the demo: start, find the pace, disturb, load, learn, plan, compare, stop, judge."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import tempfile
import time
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import aiohttp

from kwiken.cli.demo.faults import Disturber, choose
from kwiken.cli.demo.pace import (
    RATES,
    STEP_S,
    WANTED_REQUESTS,
    Attempt,
    Finding,
    Monitor,
    NothingToldError,
    Pace,
    RateSearch,
    Step,
    Window,
    assess,
    seconds_for,
    slower_rate,
)
from kwiken.cli.demo.progress import Watch
from kwiken.cli.demo.setup import (
    PLANNING_S,
    TARGET,
    DemoSettings,
    Folder,
    Load,
    LoadError,
    Timing,
    check_enough,
    divide,
    read_records,
    write_queries,
)
from kwiken.cli.demo.trial import Evidence, Learned, Trial, judge, learn, pass_time, run_blocks
from kwiken.cli.report.model import DemoResult
from kwiken.errors import KwikenError
from kwiken.plan import Plan
from kwiken.runtime.cluster import Cluster, ClusterSettings

T = TypeVar("T")

FIRST_ANSWERS_TIMEOUT_S = 30.0
FLUSH_S = 1.5  # spans are written about once a second
FIRST_ANSWERS = 5  # requests that must be answered before the demo goes on
GRACE_S = 5.0
MAX_PUT_TRIES = 3
REQUEST_BYTES = 15_000  # lower bound of the size of one request's spans
LEARN_WINDOW_S = 5.0
MAX_SEARCHES = 2  # for a rate: a program that starts beside this one may spoil one search
CALM_AGAIN_S, MAX_CALM_S = 1.0, 15.0  # after planning, which takes a processor from the service
FEW_INSIDE = 3  # requests at the gateway that are no backlog


class SwitchError(KwikenError):
    """The gateway did not accept a plan."""


@dataclass
class _Site:
    """What all attempts share: the running service, its folder and queries, and where progress goes."""

    settings: DemoSettings
    cluster: Cluster
    watch: Watch
    folder: Folder
    scratch: Path

    @property
    def queries(self) -> Path:
        """File of the queries."""
        return self.scratch / "queries.txt"

    def load(self, name: str, arrivals: float | Path, longest_s: float) -> Load:
        """Load generator that writes its records to a file of that name."""
        return Load(
            self.cluster.gateway_url,
            arrivals=arrivals,
            longest_s=longest_s,
            queries=self.queries,
            records=self.scratch / name,
            seed=self.settings.seed,
        )

    def monitor(self, name: str, load: Load) -> Monitor:
        """Monitor of all processes of the demo."""

        def pids() -> Iterator[int]:
            yield os.getpid()
            yield from self.cluster.gateway_pids
            if load.pid is not None:
                yield load.pid
            for those in self.cluster.replicas.values():
                yield from (pid for pid, _ in those)

        return Monitor(self.scratch / name, pids=pids, status=self.status)

    async def status(self) -> dict[str, Any]:
        """The gateway's own status."""
        status: dict[str, Any] = (await self.cluster.status())["runtime"]
        return status

    async def flowing(self, tick: Any) -> None:
        """Wait until the gateway has answered the first requests."""
        deadline = time.monotonic() + FIRST_ANSWERS_TIMEOUT_S
        goal = (await self.status())["requests"] + FIRST_ANSWERS
        while (await self.status())["requests"] < goal:
            if time.monotonic() > deadline:
                raise LoadError(f"no request was answered within {FIRST_ANSWERS_TIMEOUT_S:g} s")
            await pass_time(0.1, tick)


async def run_demo(settings: DemoSettings, watch: Watch) -> DemoResult:
    """Run the demo and write its folder.

    Raises:
        NothingToldError: when the machine did not let the run measure anything; says why.
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


async def _run_in(folder: Folder, settings: DemoSettings, watch: Watch) -> DemoResult:
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="kwiken-demo-") as scratch:
        watch.step("reading the library", 0)
        await write_queries(Path(scratch) / "queries.txt", settings.seed)
        watch.step("starting the service", 0)
        cluster_settings = ClusterSettings(
            traces=folder.traces, trace="all", grace_s=GRACE_S, transport=settings.transport
        )
        async with Cluster(TARGET, cluster_settings) as cluster:
            site = _Site(settings, cluster, watch, folder, Path(scratch))
            evidence, records = await _paced(site, await _find_pace(site))
        watch.step("judging", 0)
        noted = read_records(records)
    result = await asyncio.to_thread(
        judge, evidence, noted, folder=folder, wall_s=lambda: time.monotonic() - began
    )
    watch.step("packing the traces", 0)
    await asyncio.to_thread(folder.pack_traces)
    return result


async def _find_pace(site: _Site) -> Pace:
    """Find the rate that fits the machine; measures again where the machine was too busy for any.

    Raises:
        NothingToldError: when the machine is too slow or too busy for any rate.
    """
    for number in range(MAX_SEARCHES):
        search = await _search(site, f"ramp-{number}.jsonl")
        pace = search.pace(site.settings.rate)
        await _calm_again(site, _no_tick)
        if pace is not None:
            return pace
    raise NothingToldError(f"the machine is too slow or too busy for a demo: {search.words}")


async def _search(site: _Site, name: str) -> RateSearch:
    """Measure what requests take, by a calm load that doubles step by step."""
    steps = (RATES[0], *RATES)  # the first one warms the processes up
    site.watch.step("measuring what the machine can do", len(steps) * STEP_S)
    ramp = site.scratch / "ramp.txt"
    ramp.write_text("".join(f"{rate:g}\n" * STEP_S for rate in steps), encoding="ascii")

    async def tick(seconds: float) -> None:
        site.watch.passed(seconds)
        site.folder.check_room()
        await load.check()

    search = RateSearch()
    async with site.load(name, ramp, len(steps) * STEP_S + FIRST_ANSWERS_TIMEOUT_S) as load:
        monitor = site.monitor(name, load)
        deadline = time.monotonic() + FIRST_ANSWERS_TIMEOUT_S
        while (first_due_s := monitor.first_due_s()) is None:
            if time.monotonic() > deadline:
                raise LoadError(f"no request was answered within {FIRST_ANSWERS_TIMEOUT_S:g} s")
            await pass_time(0.1, tick)
        for number, rate in enumerate(steps):
            if number == 1:
                monitor.begin()
            await pass_time(first_due_s + (number + 1) * STEP_S - time.time(), tick)
            use = monitor.use() if number else None
            if use is not None and search.add(Step(rate, use)):
                break
    return search


async def _no_tick(_: float) -> None:
    """Do nothing while time passes."""


async def _calm_again(site: _Site, tick: Any) -> None:
    """Wait until the gateway has worked off what waited there, and a moment more."""
    deadline = time.monotonic() + MAX_CALM_S
    while time.monotonic() < deadline:
        with contextlib.suppress(TimeoutError, aiohttp.ClientError):
            if (await site.status())["inside"] <= FEW_INSIDE:
                break
        await pass_time(0.1, tick)
    await pass_time(CALM_AGAIN_S, tick)


async def _paced(site: _Site, pace: Pace) -> tuple[Evidence, Path]:
    """Learn and compare at a pace, at a slower one where the machine does not bear that.

    Returns:
        The data of the trial, and the file with the load generator's records.

    Raises:
        NothingToldError: when no pace is left to try.
    """
    settings = site.settings
    slowdowns = 0
    while True:
        seconds = settings.seconds if settings.seconds is not None else seconds_for(pace.rate)
        timing = divide(seconds)
        check_enough(pace.rate, timing)
        site.watch.pace(pace, seconds)
        name = f"records-{slowdowns}.jsonl"
        outcome = await _attempt(site, pace, timing, name)
        if isinstance(outcome, Evidence):
            return outcome, site.scratch / name
        slower = slower_rate(pace.rate, outcome.shares, fixed=settings.rate is not None, slowdowns=slowdowns)
        if slower is None:
            advice = (
                "lower --rate" if settings.rate is not None else "try again when the machine is less busy"
            )
            raise NothingToldError(f"at {pace.rate:g} requests a second {outcome.reason}; {advice}")
        site.watch.slower(outcome.reason, pace.rate, slower)
        slowdowns += 1
        pace = dataclasses.replace(pace, rate=slower, share=pace.share * slower / pace.rate)
        await _calm_again(site, _no_tick)


async def _attempt(site: _Site, pace: Pace, timing: Timing, name: str) -> Evidence | Attempt:
    """Disturb, load, learn and compare; the load ends before the disturbance.

    Returns:
        The data of the trial; the attempt if it has failed.
    """
    settings, cluster, watch = site.settings, site.cluster, site.watch
    replicas = (await cluster.status())["replicas"]
    calls = {stage: definition.fanout for stage, definition in cluster.service.stages.items()}
    flaky = {} if settings.calm else choose(replicas, settings.seed, rate=pace.rate, calls=calls)
    watch.disturbance(flaky)
    longest_s = 2 * timing.total_s + PLANNING_S + FIRST_ANSWERS_TIMEOUT_S
    load = site.load(name, pace.rate, longest_s)
    async with Disturber(flaky, settings.seed) as disturber, load:
        bench = _Bench(site, pace, timing, disturber, load, site.monitor(name, load))
        await site.flowing(bench.tick)
        learned = await bench.learn()
        if isinstance(learned, Attempt):
            return learned
        trial, attempt = await bench.compare(learned)
        if attempt.failed:
            return attempt
        watch.step("stopping", 0)
        await load.stop()
    restarts = sum(replica["restarts"] for replica in (await cluster.status())["replicas"])
    return Evidence(settings, pace, timing, learned, trial, disturber.report(), restarts)


@dataclass
class _Bench:
    """Running parts of one attempt while its load lasts."""

    site: _Site
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

    async def learn(self) -> Learned | Attempt:
        """Warm up, record traces, fit and plan while the load goes on; the attempt if it has failed."""
        watch, timing, settings = self.site.watch, self.timing, self.site.settings
        watch.step("warming up", timing.warm_s)
        await pass_time(timing.warm_s, self.tick)
        watch.step("learning from traces", timing.learn_s)
        windows = max(1, round(timing.learn_s / LEARN_WINDOW_S))
        attempt = Attempt([("learning", number) for number in range(windows)])
        since = time.time()
        while attempt.current is not None:
            self.monitor.begin()
            await pass_time(timing.learn_s / windows, self.tick)
            window, finding = await self._end()
            attempt.note(finding, window.use)
        until = time.time()
        if attempt.failed:
            return attempt
        watch.step("fitting and planning", 0)
        await pass_time(FLUSH_S, self.tick)
        learned = await self._working(
            asyncio.to_thread(
                learn,
                self.site.folder.traces,
                since_s=since,
                until_s=until,
                budget=settings.budget,
                seed=settings.seed,
            )
        )
        await _calm_again(self.site, self.tick)
        return learned

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

    async def compare(self, learned: Learned) -> tuple[Trial, Attempt]:
        """Run the blocks of all arms, then remove the plan."""
        self.site.watch.step("comparing before, after and even", self.timing.measure_s)
        plans = {"before": None, "after": learned.study.plan, "even": learned.even}
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

    async def _end(self) -> tuple[Window, Finding | None]:
        """Figures of the stretch that ends now, and what is wrong with it."""
        window = await self.monitor.end(self.pace.rate)
        finding = assess(window, self.pace)
        if finding is not None:
            self.site.watch.void(finding)
            await _calm_again(self.site, self.tick)
        return window, finding

    async def _put(self, plan: Plan | None) -> None:
        """Put a plan in force; retry if the gateway was too busy to answer."""
        for _ in range(MAX_PUT_TRIES):
            try:
                return await self.site.cluster.put_plan(plan)
            except (TimeoutError, aiohttp.ClientError):
                await self.load.check()
        raise SwitchError(f"the gateway took no plan in {MAX_PUT_TRIES} tries; is the machine overloaded?")
