"""Facts of one run for its users: waves, task times, skew, and the time in which no task ran."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kwiken.base.arrays import Bools, Ints
from kwiken.batch.jobs.job import BatchJob, BatchStage


@dataclass(frozen=True)
class TaskColumns:
    """Tasks of a run or of a stage as arrays, in order of launch within each stage.

    Attributes:
        launched_ms: time of launch since the job's start, milliseconds.
        took_ms: time from launch to finish, milliseconds.
        first: whether the task was the first of its stage on its slot.
        fresh: whether the task was the first of all on its slot.
    """

    launched_ms: Ints
    took_ms: Ints
    executor: Ints
    first: Bools
    fresh: Bools
    stage: Ints


@dataclass(frozen=True)
class RunFacts:
    """Facts of one run.

    Attributes:
        first_mean_ms: mean time of the tasks that were the first of their stage on a slot; 0 without one.
        later_mean_ms: mean time of the other tasks; 0 without one.
        waves: mean number of waves of a stage, weighted by task time; 0 without tasks.
        skew: coefficient of variation of the task times in a stage, weighted by task time; 0 without tasks.
        idle_ms: time in which no task ran, milliseconds.
        first_executor_ms: time from the job's start to its first executor; None where no executor is known.
        last_executor_ms: time at which the last executor arrived; None where no executor is known.
    """

    first_mean_ms: float
    later_mean_ms: float
    waves: float
    skew: float
    idle_ms: int
    first_executor_ms: int | None
    last_executor_ms: int | None


def task_columns(job: BatchJob) -> TaskColumns:
    """Tasks of all stages as arrays, in order of stage and launch."""
    parts = [
        (
            np.array(stage.tasks.launched_ms, dtype=np.int64),
            np.array(stage.tasks.took_ms, dtype=np.int64),
            np.array(stage.tasks.executor, dtype=np.int64),
            np.full(len(stage.tasks), place, dtype=np.int64),
        )
        for place, stage in enumerate(job.stages)
    ]
    none = np.zeros(0, dtype=np.int64)
    launched, took, executor, stage_of = (
        np.concatenate([none, *(part[column] for part in parts)]) for column in range(4)
    )
    slots = np.array([one.slots for one in job.executors], dtype=np.int64)
    room = slots[executor] if executor.size else none
    by_stage = _rank_within(stage_of * max(1, len(job.executors)) + executor, launched)
    by_executor = _rank_within(executor, launched)
    return TaskColumns(launched, took, executor, by_stage < room, by_executor < room, stage_of)


def _rank_within(group: Ints, order: Ints) -> Ints:
    """Rank of each entry among those of its group, by `order`, from 0."""
    by = np.lexsort((order, group))
    ordered = group[by]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]]) if ordered.size else by
    ranks = np.empty_like(group)
    ranks[by] = np.arange(group.size) - np.repeat(starts, np.diff(np.r_[starts, group.size]))
    return ranks


def facts_of(job: BatchJob) -> RunFacts:
    """Facts of one run."""
    tasks = task_columns(job)
    first, later = tasks.took_ms[tasks.first], tasks.took_ms[~tasks.first]
    slots = max(1, job.slots)
    timed = [stage for stage in job.stages if len(stage.tasks)]
    weights = np.array([max(1, stage.task_ms) for stage in timed], dtype=np.float64)
    arrivals = [one.from_ms for one in job.executors]
    return RunFacts(
        first_mean_ms=float(first.mean()) if first.size else 0.0,
        later_mean_ms=float(later.mean()) if later.size else 0.0,
        waves=float(np.average([-(-len(one.tasks) // slots) for one in timed], weights=weights))
        if timed
        else 0.0,
        skew=float(np.average([_variation(one) for one in timed], weights=weights)) if timed else 0.0,
        idle_ms=idle_ms(tasks.launched_ms, tasks.took_ms, job.took_ms),
        first_executor_ms=min(arrivals, default=None),
        last_executor_ms=max(arrivals, default=None),
    )


def _variation(stage: BatchStage) -> float:
    took = np.array(stage.tasks.took_ms, dtype=np.float64)
    return float(took.std() / took.mean()) if took.mean() > 0 else 0.0


def idle_ms(launched_ms: Ints, took_ms: Ints, until_ms: int) -> int:
    """Time from 0 in which no task ran, milliseconds."""
    order = np.argsort(launched_ms, kind="stable")
    begin = np.minimum(launched_ms[order], until_ms)
    end = np.minimum((launched_ms + took_ms)[order], until_ms)
    covered = np.maximum.accumulate(np.r_[0, end])
    gaps = np.maximum(0, begin - covered[:-1]).sum()
    return int(gaps + max(0, until_ms - covered[-1]))
