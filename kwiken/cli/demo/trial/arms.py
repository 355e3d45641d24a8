"""Blocks of the trial on the live service: switches plans between blocks, under one continuous load."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field

from kwiken.cli.demo.setup import ARMS, Block, Timing, orders, processor_seconds, used_between
from kwiken.plan import Plan

TICK_S = 0.25

Tick = Callable[[float], Awaitable[None]]
"""Called while time passes, with the seconds since the last call; raises when something broke."""


@dataclass
class Trial:
    """Log of the blocks that ran.

    Attributes:
        order: order of the arms in each round.
        blocks: blocks with their actual start and end.
        busy_s: processor time of the service by arm, in seconds; lacks arms that were not measured.
        block_s: total length of blocks by arm, settling time included, in seconds.
    """

    order: list[tuple[str, ...]]
    blocks: list[Block] = field(default_factory=list)
    busy_s: dict[str, float] = field(default_factory=dict)
    block_s: dict[str, float] = field(default_factory=dict)

    def note(self, block: Block, busy_s: float | None) -> None:
        """Add a block that has ended."""
        self.blocks.append(block)
        self.block_s[block.arm] = self.block_s.get(block.arm, 0.0) + block.end_s - block.start_s
        if busy_s is not None:
            self.busy_s[block.arm] = self.busy_s.get(block.arm, 0.0) + busy_s


async def run_blocks(
    plans: Mapping[str, Plan | None],
    timing: Timing,
    *,
    seed: int,
    put: Callable[[Plan | None], Awaitable[None]],
    pids: Callable[[], Iterable[int]],
    tick: Tick,
) -> Trial:
    """Run every block of every round.

    Args:
        plans: plan by arm; None for no plan.
        timing: number of rounds and length of blocks.
        seed: seed of the order of arms.
        put: puts a plan in force; returns once it is in force.
        pids: returns the pids of the processes whose processor time counts.
        tick: called every quarter of a second.
    """
    trial = Trial(orders(timing.rounds, seed, ARMS))
    for number, order in enumerate(trial.order):
        for arm in order:
            await put(None)  # resets the budget: no arm may spend what another saved
            await put(plans[arm])
            began, used = time.time(), processor_seconds(pids())
            await pass_time(timing.block_s, tick)
            busy = used_between(used, processor_seconds(pids()))
            trial.note(Block(arm, number, began, time.time()), busy)
    return trial


async def pass_time(seconds: float, tick: Tick) -> None:
    """Sleep, with a tick every quarter of a second.

    Args:
        seconds: time to sleep.
        tick: called with the seconds since its last call.
    """
    last = time.monotonic()
    end = last + seconds
    while (left := end - time.monotonic()) > 0:
        await asyncio.sleep(min(TICK_S, left))
        now = time.monotonic()
        await tick(now - last)
        last = now
