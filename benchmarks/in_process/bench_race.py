"""Benchmark of a reissue race that does not fire: the cost of a call that could be reissued.

Ours is everything that the executor does for one call: coin, nested ledger, replica choice with in-flight
counts, latency estimates and histogram, timer, deadline. Notes are off. Nothing of a request's own work is in
it: ten calls go out in one request, so that a tenth of that is left.

And the processor time of calls that outlast a time-out of less than a millisecond, most of whose copies the
budget denies: a few timers, and no waiting for the time-out at a processor's expense.
"""

from __future__ import annotations

import asyncio
import math
import time
from functools import partial

from benchmarks.harness import Row, Work, in_turn, paired, side_by_side
from benchmarks.in_process.calls import chain_of, echo, hedged, on_each_loop, repeat
from kwiken.runtime.engine.executor import Executor

CALLS = 10
MAX_OF_FLOOR = 1.7  # times the price of a race by hand
MAX_OF_CATCH_UP = 1.2  # times the price of a call without it
MAX_OF_COPY = 1.4  # times the processor time of a call that gets no copy
COPIED_MS = 2.0  # time-out that every slow call outlasts
MIN_COPIED = 0.2  # share of those calls that must get a copy: a busy machine's load denies the others
SLOW_S = 0.005  # time of a call that outlasts its time-out
SHORT_MS = 0.4  # time-out that rounds to zero milliseconds
MAX_WAITING = 1.5  # times the processor time of calls whose time-out does not come


async def floor() -> int:
    """Lower bound of a race with a task for each attempt: task, timer and future, without accounting."""
    loop = asyncio.get_running_loop()
    first = loop.create_future()

    async def attempt() -> None:
        value = await echo(1)
        if not first.done():
            first.set_result(value)

    task = loop.create_task(attempt())
    timer = loop.call_later(1.0, task.get_name)
    try:
        return int(await first)
    finally:
        timer.cancel()
        task.cancel()


async def by_hand(after_s: float = math.inf) -> int:
    """A slow call and its copy as tasks, without accounting: a lower bound of what a copy costs."""
    loop = asyncio.get_running_loop()
    first = loop.create_future()

    async def attempt() -> None:
        await asyncio.sleep(SLOW_S)
        if not first.done():
            first.set_result(1)

    tasks = [loop.create_task(attempt())]
    timer = None
    if after_s < math.inf:
        timer = loop.call_later(after_s, lambda: tasks.append(loop.create_task(attempt())))
    try:
        return int(await first)
    finally:
        if timer is not None:
            timer.cancel()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def plain() -> int:
    """The hedge that is found in most code: wait for the primary with a timeout. No books kept."""
    task = asyncio.ensure_future(echo(1))
    done, _ = await asyncio.wait([task], timeout=1.0)
    assert done
    return task.result()


def run(quick: bool) -> list[Row]:  # noqa: FBT001 - every benchmark is called alike
    return on_each_loop(lambda loop, label: on(loop, label, quick=quick))


def on(loop: asyncio.AbstractEventLoop, label: str, *, quick: bool) -> list[Row]:
    """The races on one kind of loop."""
    executor = hedged(chain_of(CALLS))
    late = hedged(chain_of(CALLS), late_ms=500.0)
    requests = 100 if quick else 500
    calls = requests * CALLS
    catching_up = side_by_side(
        f"the same with catch-up in force, {label}",
        repeat(loop, lambda: late.run(1), requests),
        ("without", repeat(loop, lambda: executor.run(1), requests)),
        rounds=5 if quick else 25,
        unit="us",
        scale=1e6 / calls,
        least=1 / MAX_OF_CATCH_UP,
    )
    races = in_turn(
        f"reissue race that does not fire, per call, {label}",
        repeat(loop, lambda: executor.run(1), requests),
        [
            ("create_task + call_later + future, no books", repeat(loop, floor, calls)),
            ("create_task + asyncio.wait(timeout), no books", repeat(loop, plain, calls)),
        ],
        rounds=5 if quick else 25,
        unit="us",
        scale=1e6 / calls,
        least=1 / MAX_OF_FLOOR,
    )
    copies = [copied(loop, label, quick=quick), copied_by_hand(loop, label, quick=quick)]
    return [*races, catching_up, waiting(loop, label, quick=quick), *copies]


def waiting(loop: asyncio.AbstractEventLoop, label: str, *, quick: bool) -> Row:
    """Processor time of slow calls with a short time-out, and with one that does not come."""
    slow = chain_of(CALLS, takes_s=SLOW_S)
    pairs = processor_times(loop, hedged(slow, SHORT_MS), hedged(slow), quick=quick)
    return paired(
        f"processor time of a call of {SLOW_S * 1e3:g} ms with a time-out of {SHORT_MS:g} ms, {label}",
        "with a time-out that does not come",
        pairs,
        unit="us",
        least=1 / MAX_WAITING,
    )


def copied(loop: asyncio.AbstractEventLoop, label: str, *, quick: bool) -> Row:
    """Processor time of slow calls that get a copy, and of those that get none.

    Where the load denies some copies, what the others add is divided by their share.
    """
    slow = chain_of(CALLS, takes_s=SLOW_S)
    always = hedged(slow, COPIED_MS, budget=1.0)
    pairs = processor_times(loop, always, hedged(slow), quick=quick)
    stages = always.status()["stages"].values()
    share = sum(stage["reissues"] for stage in stages) / sum(stage["calls"] for stage in stages)
    if share < MIN_COPIED:
        raise RuntimeError(f"only {share:.0%} of the calls got a copy")
    return paired(
        f"processor time of a call of {SLOW_S * 1e3:g} ms that gets a copy, {label}",
        "without a copy",
        [(plain + (mixed - plain) / share, plain) for mixed, plain in pairs],
        unit="us",
        least=1 / MAX_OF_COPY,
    )


def copied_by_hand(loop: asyncio.AbstractEventLoop, label: str, *, quick: bool) -> Row:
    """The same for tasks by hand: most of what a copy costs is that the process wakes up once more."""
    calls = (5 if quick else 20) * CALLS
    with_copy, without = (repeat(loop, work, calls) for work in (partial(by_hand, COPIED_MS / 1e3), by_hand))
    return paired(
        f"the same by hand, {label}",
        "without a copy, by hand",
        in_turns(with_copy, without, calls, quick=quick),
        unit="us",
    )


def processor_times(
    loop: asyncio.AbstractEventLoop, first: Executor, second: Executor, *, quick: bool
) -> list[tuple[float, float]]:
    """Processor time of a call under each of two executors in turn, microseconds."""
    requests = 5 if quick else 20
    ways = [repeat(loop, partial(executor.run, 1), requests) for executor in (first, second)]
    return in_turns(ways[0], ways[1], requests * CALLS, quick=quick)


def in_turns(first: Work, second: Work, calls: int, *, quick: bool) -> list[tuple[float, float]]:
    """Processor time of each of so many calls in two ways in turn, microseconds."""

    def cost(work: Work) -> float:
        began = time.process_time()
        work()
        return (time.process_time() - began) / calls * 1e6

    cost(first), cost(second)
    return [(cost(first), cost(second)) for _ in range(3 if quick else 9)]
