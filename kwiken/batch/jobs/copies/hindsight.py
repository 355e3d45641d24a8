"""Copies with hindsight: the most that a budget could save if the times of tasks and copies were known.

Two ways to choose are replayed, and the better one counts. One lowers the ends of the stages that the end of
the job waits for; what is left goes the other way. The other saves the most task time for its cost, wherever
a task runs. The best choice of all is a hard problem, so a better one may exist.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from kwiken.base.arrays import Bools, Floats
from kwiken.batch.jobs.copies.policy import CopiedRun, drawn
from kwiken.batch.jobs.replay.scheduling import Replayed, ReplayedStage, Slots, SlotSchedule
from kwiken.batch.jobs.replay.task_times import StageTaskTimes


@dataclass(frozen=True)
class DrawnJob:
    """Job with one draw of the times of its tasks and of their copies, and its schedule without copies.

    Attributes:
        stages: stages with the drawn task times.
        copies: by stage, time that a copy of each task takes.
        slots: slots of the tasks; copies take none of them.
        plain: outcome of the schedule.
        starts_ms: by stage, start of each task, milliseconds.
        took_ms: by stage, time of each task, milliseconds.
        copy_ms: by stage, time that a copy of each task takes, as a first or a later task of its slot.
    """

    stages: list[ReplayedStage]
    copies: list[StageTaskTimes]
    slots: Slots
    plain: Replayed
    starts_ms: list[Floats]
    took_ms: list[Floats]
    copy_ms: list[Floats]

    @classmethod
    def of(cls, stages: Sequence[ReplayedStage], slots: Slots, rng: np.random.Generator) -> DrawnJob:
        """Draw the times of a job's tasks and copies, and schedule it without copies."""
        found, copies = drawn(stages, rng)
        schedule = SlotSchedule(found, slots, np.ones(len(found)))
        schedule.run()
        first = [np.array([task.first for task in tasks], dtype=bool) for tasks in schedule.log]
        return cls(
            stages=found,
            copies=copies,
            slots=slots,
            plain=schedule.outcome(),
            starts_ms=[np.array([task.start for task in tasks]) for tasks in schedule.log],
            took_ms=[
                np.where(kind, one.tasks.first_ms, one.tasks.later_ms)
                for kind, one in zip(first, found, strict=True)
            ],
            copy_ms=[
                np.where(kind, one.first_ms, one.later_ms) for kind, one in zip(first, copies, strict=True)
            ],
        )

    @property
    def saved_ms(self) -> Floats:
        """What copies would take off the time of each task, those of all stages in a row; 0 for nothing."""
        return np.maximum(0.0, np.concatenate([*self.took_ms, np.zeros(0)]) - self.costs_ms)

    @property
    def costs_ms(self) -> Floats:
        """Time of a copy of each task from its start, those of all stages in a row."""
        both = zip(self.took_ms, self.copy_ms, strict=True)
        return np.concatenate([*(np.minimum(took, copy) for took, copy in both), np.zeros(0)])


def copies_in_hindsight(jobs: Sequence[DrawnJob], budget: float) -> list[CopiedRun]:
    """By job, its run with the copies that one would choose who knows all times.

    Args:
        budget: share of the task time of all jobs, from 0 to 1.
    """
    budget_ms = budget * sum(job.plain.busy_ms for job in jobs)
    ends, left_ms = _lowered_ends(jobs, budget_ms)
    none = [np.zeros(one.size, dtype=bool) for one in ends]
    ways = [
        [_replayed(job, one) for job, one in zip(jobs, chosen, strict=True)]
        for chosen in (_saved_work(jobs, ends, left_ms), _saved_work(jobs, none, budget_ms))
    ]
    return min(
        ways,
        key=lambda runs: sum(
            run.total_ms / max(1e-9, job.plain.total_ms) for run, job in zip(runs, jobs, strict=True)
        ),
    )


class _Step(NamedTuple):
    """Copies of some tasks of one stage more; the one that brings most for its cost sorts first."""

    ratio: float  # negative
    job: int
    stage: int
    copied: int  # tasks of the stage that end last
    cost_ms: float


def _lowered_ends(jobs: Sequence[DrawnJob], budget_ms: float) -> tuple[list[Bools], float]:
    """By job, tasks whose copies let stages that the end waits for end sooner; and what is left, in ms."""
    steps = sorted(
        step for at, job in enumerate(jobs) for place in job.plain.path() for step in _steps(job, at, place)
    )
    copied: dict[tuple[int, int], int] = {}
    closed: set[tuple[int, int]] = set()
    for step in steps:
        key = step.job, step.stage
        if step.cost_ms > budget_ms or key in closed:
            closed.add(key)
            continue
        copied[key] = step.copied
        budget_ms -= step.cost_ms
    chosen = [[np.zeros(one.size, dtype=bool) for one in job.took_ms] for job in jobs]
    for (at, place), n in copied.items():
        last = _by_end(jobs[at], place)[:n]
        chosen[at][place][last] = jobs[at].copy_ms[place][last] < jobs[at].took_ms[place][last]
    return [np.concatenate([*one, np.zeros(0, dtype=bool)]) for one in chosen], budget_ms


def _by_end(job: DrawnJob, place: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.argsort(-(job.starts_ms[place] + job.took_ms[place]), kind="stable")


def _steps(job: DrawnJob, at: int, place: int) -> list[_Step]:
    """Numbers of copied tasks of a stage that are worth it, each with what it adds to the one before."""
    took, copy, starts = job.took_ms[place], job.copy_ms[place], job.starts_ms[place]
    if not took.size:
        return []
    order = _by_end(job, place)
    ends = (starts + took)[order]
    shorter = np.maximum.accumulate((starts + np.minimum(took, copy))[order])
    gains = np.r_[0.0, ends[0] - np.maximum(np.r_[ends[1:], 0.0], shorter)]
    costs = np.r_[0.0, np.cumsum(np.where(copy < took, copy, 0.0)[order])]
    found: list[_Step] = []
    now = 0
    while now < took.size:
        ratios = (gains[now + 1 :] - gains[now]) / np.maximum(costs[now + 1 :] - costs[now], 1e-9)
        step = now + 1 + int(ratios.argmax())
        if gains[step] <= gains[now]:
            break
        ratio = float(ratios[step - now - 1]) / max(job.plain.total_ms, 1e-9)
        found.append(_Step(-ratio, at, place, step, float(costs[step] - costs[now])))
        now = step
    return found


def _saved_work(jobs: Sequence[DrawnJob], copied: Sequence[Bools], left_ms: float) -> list[Bools]:
    """By job, tasks to copy: those that are copied already, and those that save most time for their cost."""
    saved, costs = (np.concatenate([getattr(job, name) for job in jobs]) for name in ("saved_ms", "costs_ms"))
    weights = np.concatenate(
        [
            np.full(one.size, 1 / max(1e-9, job.plain.total_ms * job.slots.from_ms.size))
            for job, one in zip(jobs, copied, strict=True)
        ]
    )
    chosen = np.concatenate(list(copied))
    open_to = np.flatnonzero((saved > 0) & ~chosen)
    order = open_to[np.argsort(-(saved * weights)[open_to] / np.maximum(costs[open_to], 1e-9), kind="stable")]
    chosen[order[np.cumsum(costs[order]) <= left_ms]] = True
    return np.split(chosen, np.cumsum([one.size for one in copied])[:-1])


def _replayed(job: DrawnJob, copied: Bools) -> CopiedRun:
    ends = np.cumsum([0, *(one.size for one in job.took_ms)])
    stages = [
        replace(
            stage,
            tasks=StageTaskTimes(
                np.where(part, np.minimum(stage.tasks.first_ms, copy.first_ms), stage.tasks.first_ms),
                np.where(part, np.minimum(stage.tasks.later_ms, copy.later_ms), stage.tasks.later_ms),
            ),
        )
        for place, (stage, copy) in enumerate(zip(job.stages, job.copies, strict=True))
        for part in [copied[ends[place] : ends[place + 1]]]
    ]
    schedule = SlotSchedule(stages, job.slots, np.ones(len(stages)))
    schedule.run()
    return CopiedRun(
        total_ms=schedule.outcome().total_ms,
        copy_ms=float(job.costs_ms[copied].sum()),
        task_ms=job.plain.busy_ms,
        copied=int(copied.sum()),
    )
