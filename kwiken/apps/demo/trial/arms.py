"""Blocks of the trial on the live service: switches plans between blocks, under one continuous load."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from kwiken.apps.demo.pace.attempt import RateTrial
from kwiken.apps.demo.pace.health import Finding, HealthWindow
from kwiken.apps.demo.setup.blocks import ARMS, Block, orders
from kwiken.apps.demo.setup.settings import Timing
from kwiken.model.plan.plan import Plan

TICK_S = 0.25

Tick = Callable[[float], Awaitable[None]]
"""Called while time passes, with the seconds since the last call; raises when something broke."""


@dataclass
class ArmTrial:
    """Log of the blocks that ran.

    Attributes:
        blocks: blocks that count, with their actual start and end.
        repeated: reason of each block that was repeated and does not count.
        busy_s: processor time of the service by arm, in seconds; lacks arms that were not measured.
        block_s: total length of blocks by arm, settling time included, in seconds.
    """

    order: list[tuple[str, ...]]
    blocks: list[Block] = field(default_factory=list)
    busy_s: dict[str, float] = field(default_factory=dict)
    block_s: dict[str, float] = field(default_factory=dict)
    repeated: list[Finding] = field(default_factory=list)

    def note(self, block: Block, window: HealthWindow) -> None:
        """Add a block that counts."""
        self.blocks.append(block)
        length_s = block.end_s - block.start_s
        self.block_s[block.arm] = self.block_s.get(block.arm, 0.0) + length_s
        if window.use is not None:
            self.busy_s[block.arm] = self.busy_s.get(block.arm, 0.0) + window.use.own * length_s


async def run_blocks(
    plans: Mapping[str, Plan | None],
    timing: Timing,
    *,
    seed: int,
    put: Callable[[Plan | None], Awaitable[None]],
    begin: Callable[[], None],
    end: Callable[[], Awaitable[tuple[HealthWindow, Finding | None]]],
    tick: Tick,
) -> tuple[ArmTrial, RateTrial]:
    """Run every block of every round; a block that tells nothing is repeated at once.

    Args:
        plans: plan by arm; None for no plan.
        timing: number of rounds and length of blocks.
        seed: seed of the order of arms.
        put: puts a plan in force; returns once it is in force.
        end: called when a block has ended; returns its figures, and what is wrong with it.
        tick: called every quarter of a second.

    Returns:
        The log of the blocks, and the attempt, which has failed if there are too few of them.
    """
    trial = ArmTrial(orders(timing.rounds, seed, ARMS))
    attempt = RateTrial([(arm, number) for number, order in enumerate(trial.order) for arm in order])
    while (stretch := attempt.current) is not None:
        arm, number = stretch
        await put(None)  # every block begins from no plan, whichever arm was before
        await put(plans[arm])
        began = time.time()
        begin()
        await pass_time(timing.block_s, tick)
        ended = time.time()
        window, finding = await end()
        if attempt.note(finding, window.use):
            trial.note(Block(arm, number, began, ended), window)
    trial.repeated = attempt.void
    return trial, attempt


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
