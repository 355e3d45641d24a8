"""Services and executors for benchmarks, all within one process."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import uvloop

from benchmarks.harness import Row
from kwiken.model.plan.plan import Budgets, CatchUpPolicy, Costs, Plan, StagePlan
from kwiken.model.service.service import Service
from kwiken.model.service.stage import Partial, Reissue
from kwiken.runtime.base.clock import SystemClock
from kwiken.runtime.engine.executor import Executor
from kwiken.runtime.wire.transport.local import LocalTransport, local_replicas


def on_each_loop(benchmark: Callable[[asyncio.AbstractEventLoop, str], list[Row]]) -> list[Row]:
    """Rows of a benchmark on asyncio's own loop and on uvloop's, each with its name."""
    rows = []
    for label, new_loop in (("asyncio", asyncio.new_event_loop), ("uvloop", uvloop.new_event_loop)):
        loop = new_loop()
        try:
            rows += benchmark(loop, label)
        finally:
            loop.close()
    return rows


async def echo(value: int) -> int:
    """Handler that returns its input."""
    return value


def chain_of(length: int, *, takes_s: float = 0.0) -> Service:
    """Stages one after another, each of two replicas; a call takes a time without using a processor."""
    service = Service("chain")
    for index in range(length):
        after = [f"s{index - 1}"] if index else []

        async def handler(value: int) -> int:
            if takes_s:
                await asyncio.sleep(takes_s)
            return value

        service.stage(name=f"s{index}", after=after, replicas=2, idempotent=True)(handler)
    return service


def fan_of(width: int) -> Service:
    """A fan-out and its merge."""
    service = Service("fan")

    @service.stage(fanout=width, replicas=2, idempotent=True)
    async def part(value: int, *, shard: int) -> int:
        return value + shard

    @service.stage(after=[part], replicas=2, idempotent=True)
    async def whole(parts: Partial[int]) -> int:
        return sum(parts.present)

    return service


def hedged(
    service: Service, after_ms: float = 1000.0, *, late_ms: float | None = None, budget: float = 0.05
) -> Executor:
    """An executor under a plan that reissues every stage, by default never so early that it fires here.

    With `late_ms` it also helps requests of that age to catch up. The budget is the share of calls copied.
    """
    late = CatchUpPolicy(after_ms=late_ms, reissue=True, priority=True) if late_ms is not None else None
    executor = Executor(
        service,
        LocalTransport(service),
        replicas=local_replicas(service),
        clock=SystemClock(),
        rng=random.Random(1),
    )
    names = list(service.stages)
    executor.apply(
        Plan(
            version=1,
            service=service.name,
            created="2026-01-01T00:00:00Z",
            profile="sha256:0",
            budgets=Budgets(reissue=budget, catch_up=0.01 if late is not None else 0.0),
            cost=Costs(model="calls", stages={name: 1 / len(names) for name in names}),
            stages={
                name: StagePlan(reissue=Reissue(after_ms=after_ms, fraction=budget), catch_up=late)
                for name in names
            },
        )
    )
    return executor


def repeat(
    loop: asyncio.AbstractEventLoop, once: Callable[[], Awaitable[Any]], times: int
) -> Callable[[], None]:
    """Work for the harness: so many awaits, one after another, on one loop."""

    async def many() -> None:
        for _ in range(times):
            await once()

    return lambda: loop.run_until_complete(many())
