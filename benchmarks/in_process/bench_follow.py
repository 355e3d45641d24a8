"""Benchmark of delays that follow the present latency, beside fixed ones and hedge-python, in virtual time.

One stage of ten replicas gets requests at random moments. Its attempts take lognormal times with rare pauses.
The plan was made for that: its delay is the 95% quantile, its budget 5% of the calls. Two cases:

1. All attempts take three times as long, from the start. A copy is as slow as its call.
2. After half of the time one replica in ten becomes slow. A copy that goes to another one avoids that.

Ours runs with and without a following delay, between half and four times the plan's; hedge-python (PyPI)
with the same quantile, budget and true rate. What the world does is drawn from seeds that are fixed here.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import random
import sys
import types
from collections.abc import Awaitable, Callable
from typing import Any

from benchmarks.harness import Row, paired
from kwiken.hedge.hedger import Hedger
from kwiken.model.service.stage import Following, Reissue
from kwiken.testing.virtual_loop import VirtualLoop

RATE_PER_S = 200.0
CALLS = 8_000  # of a run; the plan comes into force at the first
SEEDS = (101, 102, 103, 104, 105)  # the first alone for a quick run
REPLICAS = 10
MEDIAN_MS, SPREAD = 8.0, 0.5  # of the usual lognormal latency
PAUSED, PAUSE_MS = 0.02, 80.0  # share of attempts that a pause adds to, and its mean
SLOW_MS = 90.0  # what the slow replica adds in case 2
QUANTILE = 0.95
BUDGET = 0.05
LEARNED = 20_000  # attempts from which the plan's delay is computed
LOWER, UPPER = 0.5, 4.0  # bounds of the following delay, as multiples of the plan's
TRIPLE = 3.0

Send = Callable[[int], Awaitable[None]]
Call = Callable[[Send], Awaitable[Any]]


def attempt_ms(rng: random.Random) -> float:
    """Usual latency of one attempt, milliseconds."""
    paused = rng.expovariate(1 / PAUSE_MS) if rng.random() < PAUSED else 0.0
    return MEDIAN_MS * rng.lognormvariate(0.0, SPREAD) + paused


def planned_ms() -> float:
    """Delay of the plan, milliseconds: the quantile of usual attempts."""
    rng = random.Random(100)
    return sorted(attempt_ms(rng) for _ in range(LEARNED))[int(QUANTILE * LEARNED)]


class World:
    """Calls of one run: latencies of all, and the number of attempts.

    Args:
        times: factor on every attempt's latency.
        step: whether one replica becomes slow after half of the calls.
    """

    def __init__(self, seed: int, times: float, *, step: bool) -> None:
        self._rng = random.Random(seed)
        self._times = times
        self._step = step
        self._begun = 0
        self.attempts = 0
        self.latencies: list[float] = []

    async def run(self, call: Call) -> None:
        """Make all calls at their moments, and wait for the last."""
        running = []
        for _ in range(CALLS):
            await asyncio.sleep(self._rng.expovariate(RATE_PER_S))
            running.append(asyncio.ensure_future(self._one(call)))
        await asyncio.gather(*running)

    async def _one(self, call: Call) -> None:
        self._begun += 1
        first = self._rng.randrange(REPLICAS)
        loop = asyncio.get_running_loop()

        async def send(number: int) -> None:
            self.attempts += 1
            slow = self._step and self._begun > CALLS // 2 and (first + number) % REPLICAS == 0
            took = self._times * attempt_ms(self._rng) + (SLOW_MS if slow else 0.0)
            await asyncio.sleep(took / 1000)

        began = loop.time()
        await call(send)
        self.latencies.append(loop.time() - began)

    def p99_ms(self) -> float:
        """99% quantile of the later half of the calls, milliseconds."""
        later = sorted(self.latencies[CALLS // 2 :])
        return later[int(0.99 * len(later))] * 1000

    @property
    def copies(self) -> float:
        """Copies, as a percentage of the calls."""
        return 100 * (self.attempts - CALLS) / CALLS


Way = Callable[[World], Awaitable[None]]


def with_policy(policy: Reissue | None) -> Way:
    """Runs a world with our hedger; without copies for None."""

    async def run(world: World) -> None:
        loop = asyncio.get_running_loop()
        plan = Hedger.fixed({"s": policy or 1.0}, budget=BUDGET).plan
        hedger = Hedger(plan, clock=loop.time, rng=random.Random(1))
        await world.run(lambda send: hedger.call("s", send, read=policy is not None))

    return run


async def with_hedge_python(world: World) -> None:
    """Runs a world with hedge-python's scheduler, whose clock is the loop's."""
    loop = asyncio.get_running_loop()
    clock = types.SimpleNamespace(monotonic=loop.time)
    base = importlib.import_module("hedge.transport._base")
    bucket = importlib.import_module("hedge.budget._token_bucket")
    kept = base.time
    vars(base)["time"] = vars(bucket)["time"] = clock
    try:
        scheduler = base.HedgeScheduler(
            importlib.import_module("hedge._options").HedgeConfig(
                percentile=QUANTILE,
                budget_percent=100 * BUDGET,
                estimated_rps=RATE_PER_S,
                warmup_delay=planned_ms() / 1000,
            )
        )
        sketch = scheduler.sketch_for("s")
        await world.run(
            lambda send: scheduler.execute_with_hedge(
                "s", lambda: send(0), lambda: send(1), lambda _, took: sketch.add(took)
            )
        )
        await scheduler.close()
    finally:
        vars(base)["time"] = vars(bucket)["time"] = kept


def measured(way: Way, times: float, *, step: bool, quick: bool) -> list[tuple[float, float]]:
    """Copies (percent) and p99 (milliseconds) of each seed."""
    found = []
    for seed in SEEDS[:1] if quick else SEEDS:
        world, loop = World(seed, times, step=step), VirtualLoop()
        try:
            loop.run_until_complete(way(world))
            loop.run_until_complete(asyncio.sleep(0))
        finally:
            loop.close()
        found.append((world.copies, world.p99_ms()))
    return found


def run(quick: bool) -> list[Row]:  # noqa: FBT001 - every benchmark is called alike
    after = planned_ms()
    follow = Following(quantile=QUANTILE, least_ms=LOWER * after, most_ms=UPPER * after)
    rivals: list[tuple[str, Way]] = [
        ("no copies", with_policy(None)),
        ("a fixed delay", with_policy(Reissue(after_ms=after, fraction=BUDGET))),
    ]
    if importlib.util.find_spec("hedge") is not None:
        rivals.append(("hedge-python", with_hedge_python))
    else:
        print("follow: hedge-python is not installed (`make bench` installs it)", file=sys.stderr)
    ours = with_policy(Reissue(after_ms=after, fraction=BUDGET, follow=follow))
    rows = []
    for label, times, step in (
        ("as planned", 1.0, False),
        ("all attempts three times as long", TRIPLE, False),
        ("one replica of ten slow, later half", 1.0, True),
    ):
        mine = measured(ours, times, step=step, quick=quick)
        for rival, way in rivals:
            theirs = measured(way, times, step=step, quick=quick)
            pairs = list(zip(mine, theirs, strict=True))
            spent = [(one, other) for (one, _), (other, _) in pairs]
            p99 = [(one, other) for (_, one), (_, other) in pairs]
            rows.append(paired(f"{label}: p99", rival, p99, unit="ms"))
            if rival != "no copies":
                rows.append(paired(f"{label}: copies", rival, spent, unit="% of calls"))
    return rows
