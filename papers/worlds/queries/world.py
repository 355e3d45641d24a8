"""Simulated decision-support queries on executors that share storage, run as an engine runs them.

It is no model of kwiken. Storage slows the reading part of tasks by the square of what runs at once;
executors differ in speed; a first task on a slot pays for its start, and a first one of a stage for its code;
partitions are unequal and keep their share over runs; the driver takes its time between stages.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from kwiken.base.arrays import Floats

STAGES: Final = (3, 12)  # of a query, from and to
SCAN_TASKS: Final = (20, 400)
SHUFFLE_TASKS: Final = (20, 200)
MEAN_TASK_S: Final = (0.5, 6.0)
VARIATION: Final = (0.2, 0.6)  # coefficient of variation of the partitions of a stage
READING: Final = (0.1, 0.6)  # part of a task that waits for storage
STORAGE_TASKS: Final = (60, 260)  # running tasks at which the reading part takes twice as long
CODE: Final = (1.2, 2.0)  # factor of a first task of a stage on a slot
START_S: Final = (0.5, 2.5)  # of a first task on a slot
SPEED_SPREAD: Final = 0.05  # of the logarithm of an executor's speed
TASK_SPREAD: Final = 0.08  # of the logarithm of a task's time over runs
DRIVER_START_S: Final = (2.0, 6.0)
DRIVER_GAP_S: Final = (0.03, 0.6)
ARRIVAL_S: Final = (3.0, 8.0)
LAST_SHARE: Final = 0.1  # chance that a stage has no more than a few tasks
FEW: Final = 5


@dataclass(frozen=True)
class QueryStage:
    """Stage of a query.

    Attributes:
        parents: indices of the stages whose output it reads; none for a scan.
        task_s: by task, its time alone on an average executor, seconds.
        reading: part of the time that waits for storage.
        code: factor of a first task of the stage on a slot.
        gap_s: time of the driver before it, seconds.
        bytes_read: bytes that a task reads from storage; 0 for a stage after a shuffle.
    """

    parents: tuple[int, ...]
    task_s: Floats
    reading: float
    code: float
    gap_s: float
    bytes_read: int


@dataclass(frozen=True)
class SimulatedQuery:
    """Query that runs again and again.

    Attributes:
        storage_tasks: running tasks at which the reading part of a task takes twice as long.
        start_s: time that a first task on a slot takes more, seconds.
        driver_start_s: time from submission to the first stage, seconds.
        arrival_s: time at which executors arrive, seconds, on average.
    """

    name: str
    stages: tuple[QueryStage, ...]
    storage_tasks: float
    start_s: float
    driver_start_s: float
    arrival_s: float


@dataclass(frozen=True)
class QueryTask:
    """Task of a run; times in seconds since submission."""

    stage: int
    executor: int
    launched_s: float
    finished_s: float


@dataclass(frozen=True)
class QueryRun:
    """One run of a query.

    Attributes:
        arrivals_s: by executor, time of its arrival, seconds since submission.
        submitted_s: by stage, time of its submission, seconds since submission of the query.
        ended_s: by stage, its end.
        tasks: all tasks, in order of launch.
        took_s: completion time, seconds.
    """

    query: SimulatedQuery
    slots: int
    arrivals_s: list[float]
    submitted_s: list[float]
    ended_s: list[float]
    tasks: list[QueryTask]
    took_s: float


def draw_query(name: str, rng: np.random.Generator) -> SimulatedQuery:
    """Query with stages, sizes and behaviour drawn at random."""
    n = int(rng.integers(*STAGES))
    stages: list[QueryStage] = []
    for place in range(n):
        scan = place == 0 or (place < n - 1 and rng.random() < 1 / 2)
        parents = () if scan else _parents(place, stages, rng)
        low, high = SCAN_TASKS if scan else SHUFFLE_TASKS
        tasks = int(np.exp(rng.uniform(np.log(low), np.log(high))))
        if rng.random() < LAST_SHARE or place == n - 1:
            tasks = int(rng.integers(1, FEW))
        mean, variation = rng.uniform(*MEAN_TASK_S), rng.uniform(*VARIATION)
        stages.append(
            QueryStage(
                parents=parents,
                task_s=mean * rng.gamma(1 / variation**2, variation**2, tasks),
                reading=rng.uniform(*READING),
                code=rng.uniform(*CODE),
                gap_s=rng.uniform(*DRIVER_GAP_S),
                bytes_read=int(2e7 * mean) if scan else 0,
            )
        )
    return SimulatedQuery(
        name=name,
        stages=tuple(stages),
        storage_tasks=rng.uniform(*STORAGE_TASKS),
        start_s=rng.uniform(*START_S),
        driver_start_s=rng.uniform(*DRIVER_START_S),
        arrival_s=rng.uniform(*ARRIVAL_S),
    )


def _parents(place: int, stages: Sequence[QueryStage], rng: np.random.Generator) -> tuple[int, ...]:
    """Stages without a child so far, two at most; the last stage before it where all have one."""
    taken = {parent for stage in stages for parent in stage.parents}
    free = [one for one in range(place) if one not in taken] or [place - 1]
    count = min(len(free), int(rng.integers(1, 3)))
    return tuple(sorted(int(one) for one in rng.choice(free, count, replace=False)))


def run_query(query: SimulatedQuery, executors: int, slots: int, rng: np.random.Generator) -> QueryRun:
    """Run a query once.

    Args:
        executors: number of executors, 1 or more.
        slots: tasks that each runs at once, 1 or more.
    """
    run = _Running(query, executors, slots, rng)
    run.play()
    took_s = max(run.ended) + float(rng.uniform(*DRIVER_GAP_S))
    return QueryRun(query, slots, run.arrivals.tolist(), run.submitted, run.ended, run.tasks, took_s)


class _Running:
    """State of a run: free slots, tasks that run, and ends and releases of stages to come."""

    def __init__(self, query: SimulatedQuery, executors: int, slots: int, rng: np.random.Generator) -> None:
        n = len(query.stages)
        self._query, self._slots, self._rng = query, slots, rng
        self._speed = rng.lognormal(0.0, SPEED_SPREAD, executors)
        self.arrivals = query.arrival_s + np.sort(rng.exponential(0.5, executors))
        self._free = [
            (float(at), one * slots + slot) for one, at in enumerate(self.arrivals) for slot in range(slots)
        ]
        heapq.heapify(self._free)
        self._missing = [len(stage.parents) for stage in query.stages]
        self._events: list[tuple[float, int, int]] = []  # time, 0 for an end and 1 for a release, stage
        at = query.driver_start_s
        for place, stage in enumerate(query.stages):
            if not stage.parents:
                at += stage.gap_s
                heapq.heappush(self._events, (at, 1, place))
        self._orders = [rng.permutation(stage.task_s.size) for stage in query.stages]
        self._started, self._finish = [0] * n, [0.0] * n
        self.submitted, self.ended = [0.0] * n, [0.0] * n
        self._seen: set[tuple[int, int]] = set()
        self._running: list[float] = []
        self._ready: list[int] = []
        self.tasks: list[QueryTask] = []

    def play(self) -> None:
        """Start tasks and handle ends and releases in order of time."""
        while self._events or self._ready:
            next_s = self._events[0][0] if self._events else np.inf
            if self._ready and max(self._free[0][0], self.submitted[self._ready[0]]) <= next_s:
                self._start(self._ready[0])
                continue
            at, kind, place = heapq.heappop(self._events)
            if kind:
                self.submitted[place] = at
                heapq.heappush(self._ready, place)
            else:
                self._end(place, at)

    def _start(self, place: int) -> None:
        at, slot = heapq.heappop(self._free)
        start = max(at, self.submitted[place])
        while self._running and self._running[0] <= start:
            heapq.heappop(self._running)
        stage, started = self._query.stages[place], self._started[place]
        took = float(stage.task_s[self._orders[place][started]]) * float(self._rng.lognormal(0, TASK_SPREAD))
        took *= 1 + stage.reading * (len(self._running) / self._query.storage_tasks) ** 2
        took *= 1.0 if (place, slot) in self._seen else stage.code
        took /= float(self._speed[slot // self._slots])
        took += 0.0 if (-1, slot) in self._seen else self._query.start_s
        self._seen.update({(place, slot), (-1, slot)})
        end = start + took
        heapq.heappush(self._running, end)
        heapq.heappush(self._free, (end, slot))
        self.tasks.append(QueryTask(place, slot // self._slots, start, end))
        self._started[place] = started + 1
        self._finish[place] = max(self._finish[place], end)
        if started + 1 == stage.task_s.size:
            heapq.heappop(self._ready)
            heapq.heappush(self._events, (self._finish[place], 0, place))

    def _end(self, place: int, at: float) -> None:
        self.ended[place] = at
        for child, stage in enumerate(self._query.stages):
            if place in stage.parents:
                self._missing[child] -= 1
                if not self._missing[child]:
                    heapq.heappush(self._events, (at + stage.gap_s, 1, child))
