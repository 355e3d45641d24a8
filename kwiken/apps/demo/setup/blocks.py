"""Schedule of interleaved blocks: order of the arms, and the block that a request belongs to. Pure."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

ARMS = ("before", "after", "even", "p95")


@dataclass(frozen=True)
class Block:
    """Interval of time under one plan.

    Attributes:
        arm: name of the arm whose plan is in force.
        round: number of the round, from 0.
        start_s: time from which the plan was in force, in seconds since 1970.
        end_s: time at which the next plan was sent, in seconds since 1970.
    """

    arm: str
    round: int
    start_s: float
    end_s: float


def orders(rounds: int, seed: int, arms: Sequence[str] = ARMS) -> list[tuple[str, ...]]:
    """Order of the arms in each round: rotations, so that each arm has each position equally often.

    The seed decides the order of the rotations; of n consecutive rounds with n arms each is another rotation.
    """
    rng = random.Random(f"orders/{seed}")  # noqa: S311 - a draw of a trial's design
    base = rng.sample(list(arms), len(arms))
    chosen: list[tuple[str, ...]] = []
    while len(chosen) < rounds:
        turns = [tuple(base[i:] + base[:i]) for i in range(len(base))]
        chosen += rng.sample(turns, len(turns))
    return chosen[:rounds]


class Schedule:
    """Blocks in order of time, without the time around each switch of plans.

    Args:
        blocks: blocks that do not overlap.
        settle_s: length of the settling time at each block's start, in seconds.
        edge_s: length of the time at each block's end that is left out, because a request that is due then
            may be sent after the switch; in seconds.
    """

    def __init__(self, blocks: Sequence[Block], settle_s: float, edge_s: float = 0.0) -> None:
        self.settle_s = settle_s
        self.edge_s = edge_s
        self.blocks = sorted(blocks, key=lambda block: block.start_s)
        self._starts = [block.start_s for block in self.blocks]
        self._own: list[float] = []
        passed: dict[str, float] = {}
        for block in self.blocks:
            self._own.append(passed.get(block.arm, 0.0))
            passed[block.arm] = self._own[-1] + self._length(block)
        self.seconds = passed

    def _length(self, block: Block) -> float:
        return max(0.0, block.end_s - self.edge_s - block.start_s - self.settle_s)

    def find(self, when_s: float) -> Block | None:
        """Find the block in which a request is due; None in settling time and outside all blocks."""
        index = bisect_right(self._starts, when_s) - 1
        if index < 0:
            return None
        block = self.blocks[index]
        inside = block.start_s + self.settle_s <= when_s < block.end_s - self.edge_s
        return block if inside else None

    def settling(self, when_s: float) -> bool:
        """Tell whether a request is due in a block's settling time or between two blocks."""
        return bool(self.blocks) and (
            self.blocks[0].start_s <= when_s < self.blocks[-1].end_s and self.find(when_s) is None
        )

    def own_time(self, block: Block, when_s: float) -> float:
        """Time on the arm's own clock in seconds, which stops in other arms' blocks and while settling.

        A time past the block's end, such as that of a copy for a request that was due just before, counts as
        the block's end.
        """
        index = self.blocks.index(block)
        since = when_s - block.start_s - self.settle_s
        return self._own[index] + min(max(since, 0.0), self._length(block))
