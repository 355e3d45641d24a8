"""Entries of waiting lines: jobs that wait, nodes of the pools, and slots that jobs hold."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from papers.worlds.waiting.lines.settings import LineMove, WaitingJob


@dataclass(eq=False)
class WaitingEntry:
    """A job that waits.

    Attributes:
        charged_from_s: moment from which on waiting is charged; infinite while it is not.
        failed: by pool (None for any), the state of the pool at which no node suited.
    """

    job: WaitingJob
    number: int
    arrived_s: float
    line: int
    budget_s: float
    charged_from_s: float = math.inf
    spent: bool = False
    tested_s: float = -math.inf
    moves: list[LineMove] = field(default_factory=list)
    failed: dict[int | None, int] = field(default_factory=dict)

    @property
    def deadline_s(self) -> float:
        """Moment at which the budget is spent, in seconds; infinite while nothing is charged."""
        return self.charged_from_s + max(self.budget_s, 0.0)

    def rest_s(self, now_s: float) -> float:
        """Rest of the budget, in seconds; all of it while nothing is charged."""
        return self.budget_s - max(0.0, now_s - self.charged_from_s)


@dataclass(eq=False)
class PoolUnit:
    """A node with its pool, None where it has no free slot, and its number of free slots."""

    pool: int | None
    free: int


@dataclass(frozen=True)
class HeldSlot:
    """A slot that a job holds.

    Attributes:
        pool: pool of the node at the start of the job.
    """

    unit: str
    pool: int
    started_s: float


@dataclass(frozen=True)
class LineState:
    """One line and its pool, to show.

    Attributes:
        waiting: names of the jobs, first served first.
        units: names of the nodes in the pool, which have a free slot.
        busy: number of slots that were given from the pool and are held.
        free: number of free slots of the pool.
    """

    number: int
    waiting: tuple[str, ...]
    units: tuple[str, ...]
    busy: int
    free: int
