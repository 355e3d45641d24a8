"""Task times of a run's stages, told apart by whether a task was the first of its stage on its slot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from kwiken.base.arrays import Bools, Floats
from kwiken.batch.jobs.facts import task_columns
from kwiken.batch.jobs.job import BatchJob

MIN_RATIO: Final = 1.0  # of first to later task times where a stage shows one kind only
MAX_RATIO: Final = 4.0


@dataclass(frozen=True)
class StageTaskTimes:
    """Times of the tasks of one stage, as they are on a slot's first task of the stage and on later ones.

    Attributes:
        first_ms: (n,) by task, its time as the first of the stage on its slot, milliseconds.
        later_ms: (n,) by task, its time as a later one, milliseconds.
    """

    first_ms: Floats
    later_ms: Floats

    def __len__(self) -> int:
        return self.first_ms.size


def stage_task_times(job: BatchJob) -> list[StageTaskTimes]:
    """Times of the tasks of each stage, in order of launch.

    A task that was first has an observed time as a first one. Its time as a later one is that of the same
    rank among the later ones of the stage, and the other way round. Where a stage has tasks of one kind, the
    ratio of the other stages of the run gives the other kind.
    """
    columns = task_columns(job)
    took = columns.took_ms.astype(np.float64)
    parts = [
        (took[columns.stage == place], columns.first[columns.stage == place])
        for place in range(len(job.stages))
    ]
    ratio = _ratio(parts)
    return [_both_kinds(took_ms, first, ratio) for took_ms, first in parts]


def _ratio(parts: list[tuple[Floats, Bools]]) -> float:
    """Ratio of first to later task times over stages that have both kinds, weighted by task time.

    Stages of one kind count as a ratio of 1: stages with little of the work say little of the others.
    """
    logs, weights = [0.0], [1e-9]
    for took, first in parts:
        if first.all() or not first.any():
            weights[0] += float(took.sum())
        else:
            one, other = took[first].mean(), took[~first].mean()
            if one > 0 and other > 0:
                logs.append(float(np.log(one / other)))
                weights.append(float(took.sum()))
    return float(np.clip(np.exp(np.average(logs, weights=weights)), MIN_RATIO, MAX_RATIO))


def _both_kinds(took: Floats, first: Bools, ratio: float) -> StageTaskTimes:
    if first.all() or not first.any():
        return StageTaskTimes(took if first.all() else took * ratio, took / ratio if first.all() else took)
    firsts, laters = np.sort(took[first]), np.sort(took[~first])
    as_first, as_later = took.copy(), took.copy()
    as_first[~first] = np.quantile(firsts, _ranks(took[~first]))
    as_later[first] = np.quantile(laters, _ranks(took[first]))
    return StageTaskTimes(as_first, as_later)


def _ranks(values: Floats) -> Floats:
    """Rank of each value among all, from 0 to 1; a half for a single one."""
    if values.size == 1:
        return np.array([0.5])
    ranks = np.empty(values.size)
    ranks[np.argsort(values, kind="stable")] = np.arange(values.size) / (values.size - 1)
    return ranks
