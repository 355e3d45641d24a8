"""Open-loop load under virtual time, for tests of the executor."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field

from kwiken.runtime.engine.executor import Executor


@dataclass
class Outcome:
    """One request: intended start and latency in seconds, and its error."""

    at: float
    took: float
    error: Exception | None


@dataclass
class Load:
    """Outcomes of a load; times in seconds from its start."""

    outcomes: list[Outcome] = field(default_factory=list)

    def between(self, low: float, high: float) -> list[Outcome]:
        return [outcome for outcome in self.outcomes if low <= outcome.at < high]

    def quantile(self, share: float, low: float = 0.0, high: float = 1e9) -> float:
        took = sorted(outcome.took for outcome in self.between(low, high))
        return took[min(len(took) - 1, int(share * len(took)))]

    @property
    def errors(self) -> list[Exception]:
        return [outcome.error for outcome in self.outcomes if outcome.error is not None]


async def drive(
    executor: Executor,
    *,
    rate: float,
    seconds: float,
    seed: int = 1,
    priority: int = 0,
    deadline_ms: float | None = None,
) -> Load:
    """Poisson arrivals at `rate` a second; returns once the last request has ended."""
    rng, loop, load = random.Random(seed), asyncio.get_running_loop(), Load()
    start = loop.time()

    async def one(at: float) -> None:
        error = None
        try:
            await executor.run(None, priority=priority, deadline_ms=deadline_ms)
        except Exception as caught:  # noqa: BLE001 - the test judges it
            error = caught
        load.outcomes.append(Outcome(at - start, loop.time() - at, error))

    async with asyncio.TaskGroup() as group:
        while loop.time() < start + seconds:
            group.create_task(one(loop.time()))
            await asyncio.sleep(rng.expovariate(rate))
    return load
