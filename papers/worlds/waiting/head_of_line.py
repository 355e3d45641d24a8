"""A head of line that blocks borrowing: a guaranteed queue with a nominal share, and one that only borrows.

The case of users of Kueue (kubernetes-sigs/kueue#4809): a guaranteed job that needs more than is free stands
at the head of a strict line, and nobody may borrow what is free meanwhile.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Mapping
from typing import Final

import numpy as np

from papers.worlds.waiting.lines.lines import WaitingLines
from papers.worlds.waiting.lines.quality_classes import equal_classes
from papers.worlds.waiting.lines.settings import BudgetClock, LineSettings, SlotOffer, SwitchRule, WaitingJob

SLOTS: Final = 8  # of the guaranteed queue's quota
SIZES: Final = (2, 2, 4, 8)  # slots of a guaranteed job
GUARANTEED_S, BORROWED_S = 300.0, 60.0  # mean run times, in seconds
GUARANTEED_GAP_S, BORROWED_GAP_S = 240.0, 30.0  # mean gaps between arrivals, in seconds
BUDGET_S: Final = 60.0  # that a borrower waits for the head before it takes what is free
JOBS: Final = 400
PATIENT_S: Final = 1e9


def borrowing_waits(seed: int) -> Mapping[str, float]:
    """Waits of both queues and use of the quota, with a strict head and with a budget of waiting."""
    found: dict[str, float] = {}
    for name, budget_s in (("strict head", PATIENT_S), ("budget", BUDGET_S)):
        for label, value in _played(seed, budget_s).items():
            found[f"{name}: {label}"] = value
    return found


def _played(seed: int, budget_s: float) -> dict[str, float]:
    """One run; a borrower's budget is the only difference."""
    rng = np.random.default_rng([seed, 4809])
    arrivals: list[tuple[float, int, str, int, float]] = []
    order = itertools.count()
    for kind, gap_s, run_s in (
        ("guaranteed", GUARANTEED_GAP_S, GUARANTEED_S),
        ("borrower", BORROWED_GAP_S, BORROWED_S),
    ):
        at_s = 0.0
        for number in range(JOBS if kind == "borrower" else JOBS // 8):
            at_s += rng.exponential(gap_s)
            slots = int(rng.choice(SIZES)) if kind == "guaranteed" else 1
            arrivals.append((at_s, next(order), f"{kind} {number}", slots, rng.exponential(run_s)))
    settings = LineSettings(
        rule=SwitchRule.NEVER, clock=BudgetClock.ARRIVAL, look_ahead=1, patience_s=PATIENT_S
    )
    return _Quota(settings, budget_s, {name: (slots, run_s) for _, _, name, slots, run_s in arrivals}).run(
        [(at_s, name) for at_s, _, name, _, _ in sorted(arrivals)]
    )


class _Quota:
    """One pool of slots behind two lines."""

    def __init__(
        self, settings: LineSettings, budget_s: float, jobs: Mapping[str, tuple[int, float]]
    ) -> None:
        self._lines = WaitingLines(equal_classes(2), settings)
        self._budget_s, self._jobs = budget_s, jobs
        self._free = SLOTS
        self._events: list[tuple[float, int, str]] = []  # (moment, 0 for an end and 1 for an arrival, job)
        self._now_s = self._slot_s = 0.0
        self._waits: dict[str, list[float]] = {"guaranteed": [], "borrower": []}

    def run(self, arrivals: list[tuple[float, str]]) -> dict[str, float]:
        """Mean waits of both queues, and the share of the slots in use."""
        self._events = [(at_s, 1, name) for at_s, name in arrivals]
        heapq.heapify(self._events)
        self._lines.unit("quota", 100.0, SLOTS, 0.0)
        until_s = arrivals[-1][0]
        while self._events:
            due_s = self._lines.next_test_s()
            at_s = min(max(due_s, self._now_s), self._events[0][0])
            self._slot_s += (SLOTS - self._free) * max(0.0, min(at_s, until_s) - self._now_s)
            self._now_s = at_s
            if at_s == self._events[0][0]:
                self._happened(*heapq.heappop(self._events)[1:])
            for start in self._lines.advance(self._now_s, self._find):
                self._waits[start.job.partition(" ")[0]].append(start.waited_s)
                heapq.heappush(self._events, (self._now_s + self._jobs[start.job][1], 0, start.job))
        return {
            "mean wait of borrowers, s": float(np.mean(self._waits["borrower"])),
            "mean wait of guaranteed jobs, s": float(np.mean(self._waits["guaranteed"])),
            "slots in use, %": 100 * self._slot_s / (SLOTS * until_s),
        }

    def _happened(self, arrives: int, name: str) -> None:
        if arrives:
            borrows = name.startswith("borrower")
            job = WaitingJob(name, 10.0 if borrows else 90.0, self._budget_s if borrows else PATIENT_S)
            self._lines.arrive(job, self._now_s)
        else:
            self._free += self._jobs[name][0]
            self._lines.ended(name, self._now_s, quality=100.0, free=self._free)

    def _find(self, job: WaitingJob, _: int | None) -> SlotOffer | None:
        slots = self._jobs[job.name][0]
        if slots > self._free:
            return None
        self._free -= slots
        return SlotOffer("quota", 100.0, self._free)
