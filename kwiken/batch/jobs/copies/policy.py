"""Schedules in which tasks that run long get a copy, and what the copies cost.

A copy of a task takes an independent time from the stage's own tasks, of the first wave or of later ones as
the task itself. The task ends when the first of the two ends, and the other is stopped. Copies take no slot
from tasks: they start when no task of the stage waits for one, and when enough of its tasks have ended.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from kwiken.base.arrays import Floats
from kwiken.batch.jobs.replay.scheduling import ReplayedStage, Slots, SlotSchedule
from kwiken.batch.jobs.replay.task_times import StageTaskTimes

SPECULATION_QUANTILE: Final = 0.75  # share of a stage's tasks that have to end before Spark copies any
ROUNDING: Final = 1e-9  # of a product of a share and a count


@dataclass(frozen=True)
class CopyPolicy:
    """Rule for copies of tasks.

    Attributes:
        after_ms: by stage, time that a task has to run before it is copied, milliseconds; infinite for never.
        ended: by stage, share of its tasks that have to end before any is copied, 0 to 1.
    """

    after_ms: Floats
    ended: Floats

    @classmethod
    def none(cls, stages: int) -> CopyPolicy:
        """Policy without copies for a number of stages."""
        return cls(np.full(stages, np.inf), np.zeros(stages))


@dataclass(frozen=True)
class CopiedRun:
    """Outcome of a schedule with copies.

    Attributes:
        total_ms: end of the last stage, milliseconds.
        copy_ms: time of all copies, milliseconds.
        task_ms: time of all tasks without copies, milliseconds.
        copied: number of tasks that got a copy.
    """

    total_ms: float
    copy_ms: float
    task_ms: float
    copied: int


def drawn(
    stages: Sequence[ReplayedStage], rng: np.random.Generator
) -> tuple[list[ReplayedStage], list[StageTaskTimes]]:
    """Stages with task times drawn anew from their own, and a copy's times for each task."""
    found: list[ReplayedStage] = []
    copies: list[StageTaskTimes] = []
    for stage in stages:
        n = len(stage.tasks)
        pick, of_copy = rng.integers(0, max(1, n), n), rng.integers(0, max(1, n), n)
        tasks = stage.tasks
        found.append(replace(stage, tasks=StageTaskTimes(tasks.first_ms[pick], tasks.later_ms[pick])))
        copies.append(StageTaskTimes(tasks.first_ms[of_copy], tasks.later_ms[of_copy]))
    return found, copies


def replay_with_copies(
    stages: Sequence[ReplayedStage], copies: Sequence[StageTaskTimes], slots: Slots, policy: CopyPolicy
) -> CopiedRun:
    """Schedule stages with copies of tasks that run long.

    Args:
        stages: stages, each after those that it waits for.
        copies: by stage, time that a copy of each task takes.
        slots: slots of the tasks; copies take none of them.
    """
    schedule = _CopySchedule(stages, copies, slots, policy)
    schedule.run()
    return CopiedRun(
        schedule.outcome().total_ms, schedule.copy_ms, schedule.outcome().busy_ms, schedule.copied
    )


def replay_doubled(
    stages: Sequence[ReplayedStage], copies: Sequence[StageTaskTimes], slots: Slots
) -> CopiedRun:
    """Schedule stages in which each task has a copy from its start.

    Args:
        stages: stages, each after those that it waits for.
        copies: by stage, time that a copy of each task takes.
        slots: slots of the tasks; copies take none of them.
    """
    both = [
        replace(
            stage,
            tasks=StageTaskTimes(
                np.minimum(stage.tasks.first_ms, copy.first_ms),
                np.minimum(stage.tasks.later_ms, copy.later_ms),
            ),
        )
        for stage, copy in zip(stages, copies, strict=True)
    ]
    doubled, plain = (
        SlotSchedule(both, slots, np.ones(len(both))),
        SlotSchedule(stages, slots, np.ones(len(both))),
    )
    doubled.run()
    plain.run()
    found = doubled.outcome()
    return CopiedRun(found.total_ms, found.busy_ms, plain.outcome().busy_ms, sum(len(one) for one in copies))


class _CopySchedule(SlotSchedule):
    """Schedule that copies tasks of a stage once none of them waits for a slot."""

    def __init__(
        self,
        stages: Sequence[ReplayedStage],
        copies: Sequence[StageTaskTimes],
        slots: Slots,
        policy: CopyPolicy,
    ) -> None:
        super().__init__(stages, slots, np.ones(len(stages)))
        self._policy = policy
        self._copies = copies
        self.copy_ms = 0.0
        self.copied = 0

    def all_started(self, place: int, at: float) -> None:
        """Copy the tasks that run long from here on, and end the stage with them."""
        after = float(self._policy.after_ms[place])
        tasks = self.log[place]
        if math.isfinite(after) and tasks:
            enough = math.ceil(float(self._policy.ended[place]) * len(tasks) - ROUNDING)
            begin = max(at, sorted(task.end for task in tasks)[enough - 1]) if enough > 0 else at
            self._copy(place, begin, after)
        super().all_started(place, at)

    def _copy(self, place: int, begin: float, after: float) -> None:
        copy, tasks = self._copies[place], self.log[place]
        changed: dict[int, float] = {}
        for number, task in enumerate(tasks):
            start = max(begin, task.start + after)
            if task.end <= start:
                continue
            end = min(task.end, start + float((copy.first_ms if task.first else copy.later_ms)[number]))
            self.copied += 1
            self.copy_ms += end - start
            changed[task.slot] = end
            tasks[number] = task._replace(end=end)
        if changed:
            self.move_ends(place, changed)
