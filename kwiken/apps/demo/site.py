"""Site of a demo: the running service with its load generators, and the rate that fits the machine."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kwiken.apps.demo.pace.attempt import InconclusiveRunError
from kwiken.apps.demo.pace.monitor import Monitor
from kwiken.apps.demo.pace.rate_search import RATES, STEP_S, Pace, RateSearch, RateStep
from kwiken.apps.demo.progress import DemoWatch
from kwiken.apps.demo.setup.folder import Folder
from kwiken.apps.demo.setup.load import Load, LoadError
from kwiken.apps.demo.setup.settings import DemoSettings
from kwiken.apps.demo.trial.arms import pass_time
from kwiken.runtime.cluster.cluster import Cluster
from kwiken.runtime.gateway.control.client import NoAnswerError

FIRST_ANSWERS_TIMEOUT_S = 30.0
FIRST_ANSWERS = 5  # requests that must be answered before the demo goes on
MAX_STATUS_TRIES = 3
MAX_SEARCHES = 2  # for a rate: a program that starts beside this one may spoil one search
MAX_SEARCH_S = 7.0  # of a search that is tried again: a busy machine is known within half a minute
CALM_AGAIN_S, MAX_CALM_S = 1.0, 15.0  # after planning, which takes a processor from the service
FEW_INSIDE = 3  # requests at the gateway that are no backlog


@dataclass
class Site:
    """Parts that all attempts share: the running service, its folder and queries, and the progress shown."""

    settings: DemoSettings
    cluster: Cluster
    watch: DemoWatch
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

    async def replicas(self) -> list[dict[str, Any]]:
        """The replicas as the supervisor lists them.

        Raises:
            InconclusiveRunError: the gateway, whose status is a part of the list, was too busy to answer.
        """
        for _ in range(MAX_STATUS_TRIES):
            with contextlib.suppress(NoAnswerError):
                found: list[dict[str, Any]] = (await self.cluster.status())["replicas"]
                return found
        raise InconclusiveRunError(f"the gateway gave no status in {MAX_STATUS_TRIES} tries")

    async def flowing(self, tick: Any) -> None:
        """Wait until the gateway has answered the first requests; a busy one may say nothing meanwhile.

        Raises:
            LoadError: the requests were not answered in time.
        """
        deadline = time.monotonic() + FIRST_ANSWERS_TIMEOUT_S
        goal: int | None = None
        while time.monotonic() < deadline:
            with contextlib.suppress(NoAnswerError):
                answered = int((await self.status())["requests"])
                goal = answered + FIRST_ANSWERS if goal is None else goal
                if answered >= goal:
                    return
            await pass_time(0.1, tick)
        raise LoadError(f"{FIRST_ANSWERS} requests were not answered within {FIRST_ANSWERS_TIMEOUT_S:g} s")


async def find_pace(site: Site) -> Pace:
    """Find the rate that fits the machine; measures again where the machine was too busy for any.

    Raises:
        InconclusiveRunError: when the machine is too slow or too busy for any rate.
    """
    for number in range(MAX_SEARCHES):
        began_s = time.monotonic()
        search = await _search(site, f"ramp-{number}.jsonl")
        pace = search.pace(site.settings.rate)
        await calm_again(site, no_tick)
        if pace is not None:
            return pace
        if time.monotonic() - began_s > MAX_SEARCH_S:
            break
    raise InconclusiveRunError(f"the machine is too slow or too busy for a demo: {search.words}")


async def _search(site: Site, name: str) -> RateSearch:
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
        first_due_s = await first_due(monitor, tick)
        for number, rate in enumerate(steps):
            if number == 1:
                monitor.begin()
            await pass_time(first_due_s + (number + 1) * STEP_S - time.time(), tick)
            use = monitor.use() if number else None
            if use is not None and search.add(RateStep(rate, use)):
                break
    return search


async def first_due(monitor: Monitor, tick: Any) -> float:
    """Wait for the first answer to a new load generator.

    Returns:
        Moment at which its request was due, seconds since 1970.

    Raises:
        LoadError: no request was answered in time.
    """
    deadline = time.monotonic() + FIRST_ANSWERS_TIMEOUT_S
    while (found := monitor.first_due_s()) is None:
        if time.monotonic() > deadline:
            raise LoadError(f"no request was answered within {FIRST_ANSWERS_TIMEOUT_S:g} s")
        await pass_time(0.1, tick)
    return found


async def no_tick(_: float) -> None:
    """Do nothing while time passes."""


async def calm_again(site: Site, tick: Any) -> None:
    """Wait until the gateway has worked off what waited there, and a moment more."""
    deadline = time.monotonic() + MAX_CALM_S
    while time.monotonic() < deadline:
        with contextlib.suppress(NoAnswerError):
            if (await site.status())["inside"] <= FEW_INSIDE:
                break
        await pass_time(0.1, tick)
    await pass_time(CALM_AGAIN_S, tick)
