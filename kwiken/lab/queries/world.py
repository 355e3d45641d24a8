"""Simulated decision-support queries on executors that share storage, run as an engine runs them.

It is no model of kwiken. Storage slows the reading part of tasks by the square of what runs at once; executors
differ in speed; a first task on an executor pays for its start, and a first one of a stage for its code; partitions
are unequal and keep their share over runs; the driver takes its time between stages.
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
    speed = rng.lognormal(0.0, SPEED_SPREAD, executors)
    arrivals = query.arrival_s + np.sort(rng.exponential(0.5, executors))
    free = [(float(arrivals[one]), one * slots + slot) for one in range(executors) for slot in range(slots)]
    heapq.heapify(free)
    missing = [len(stage.parents) for stage in query.stages]
    events: list[tuple[float, int, int]] = []  # time, 0 for the end of a stage and 1 for a release, stage
    at = query.driver_start_s
    for place, stage in enumerate(query.stages):
        if not stage.parents:
            at += stage.gap_s
            heapq.heappush(events, (at, 1, place))
    orders = [rng.permutation(stage.task_s.size) for stage in query.stages]
    started, finish = [0] * len(missing), [0.0] * len(missing)
    submitted, ended = [0.0] * len(missing), [0.0] * len(missing)
    seen: set[tuple[int, int]] = set()
    running: list[float] = []
    ready: list[int] = []
    tasks: list[QueryTask] = []
    while events or ready:
        next_s = events[0][0] if events else np.inf
        if ready and max(free[0][0], submitted[ready[0]]) <= next_s:
            place = ready[0]
            at, slot = heapq.heappop(free)
            start = max(at, submitted[place])
            while running and running[0] <= start:
                heapq.heappop(running)
            stage = query.stages[place]
            took = float(stage.task_s[orders[place][started[place]]]) * float(rng.lognormal(0, TASK_SPREAD))
            took *= 1 + stage.reading * (len(running) / query.storage_tasks) ** 2
            took *= 1.0 if (place, slot) in seen else stage.code
            took = took / float(speed[slot // slots]) + (0.0 if (-1, slot) in seen else query.start_s)
            seen.update({(place, slot), (-1, slot)})
            end = start + took
            heapq.heappush(running, end)
            heapq.heappush(free, (end, slot))
            tasks.append(QueryTask(place, slot // slots, start, end))
            started[place] += 1
            finish[place] = max(finish[place], end)
            if started[place] == stage.task_s.size:
                heapq.heappop(ready)
                heapq.heappush(events, (finish[place], 0, place))
            continue
        at, kind, place = heapq.heappop(events)
        if kind:
            submitted[place] = at
            heapq.heappush(ready, place)
            continue
        ended[place] = at
        for child, stage in enumerate(query.stages):
            if place in stage.parents:
                missing[child] -= 1
                if not missing[child]:
                    heapq.heappush(events, (at + stage.gap_s, 1, child))
    took_s = max(ended) + float(rng.uniform(*DRIVER_GAP_S))
    return QueryRun(query, slots, arrivals.tolist(), submitted, ended, tasks, took_s)
