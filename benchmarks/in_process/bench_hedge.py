"""Benchmark of `kwiken.hedge`: the price of a call that sends no copy.

The baseline is the least that a hedge by hand does: a task for the attempt, a timer and a future, without any
accounting. Ours does the race, the timer and the ledger. Beside these, the plain `await` that both replace.
"""

from __future__ import annotations

import asyncio

from benchmarks.harness import Row, paired, timed
from benchmarks.in_process.bench_race import floor
from benchmarks.in_process.calls import echo, on_each_loop, repeat
from kwiken.hedge.hedger import Hedger

MAX_PRICE: float = 1.3  # times the price of the baseline
DELAY_MS = 1000.0  # of copies, which none of these calls lasts for


def run(quick: bool) -> list[Row]:  # noqa: FBT001 - every benchmark is called alike
    return on_each_loop(lambda loop, label: on(loop, label, quick=quick))


def on(loop: asyncio.AbstractEventLoop, label: str, *, quick: bool) -> list[Row]:
    """The calls on one kind of loop, in turn."""
    calls = 1000 if quick else 5000
    hedger = Hedger.fixed({"s": DELAY_MS})

    @hedger.hedged("s", read=True)
    async def decorated(value: int) -> int:
        return await echo(value)

    ways = [
        repeat(loop, lambda: hedger.call("s", echo, read=True), calls),
        repeat(loop, lambda: decorated(1), calls),
        repeat(loop, floor, calls),
        repeat(loop, lambda: echo(1), calls),
    ]
    for way in ways:
        timed(way)
    turns = [[timed(way) / calls * 1e6 for way in ways] for _ in range(5 if quick else 25)]
    by_hand = "create_task + call_later + future, no ledger"
    return [
        paired(
            f"kwiken.hedge, call that sends no copy, {label}",
            by_hand,
            [(call, rival) for call, _, rival, _ in turns],
            unit="us",
            least=1 / MAX_PRICE,
        ),
        paired(
            f"the same by the decorator, {label}",
            by_hand,
            [(call, rival) for _, call, rival, _ in turns],
            unit="us",
        ),
        paired(
            f"the same beside a plain await, {label}",
            "await",
            [(call, plain) for call, _, _, plain in turns],
            unit="us",
        ),
    ]
