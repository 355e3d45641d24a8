"""Apportions a budget of copies over the stages of jobs, by what it takes off their completion times.

Each stage is summarised by draws of the tasks that end it. For each rule of copies the draws tell the stage's
span and the cost; a longest path over the DAG turns spans into completion times. The budget is spent
greedily: the stage and rule with the most completion time for the cost go first, and a stage may be raised
again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from kwiken.base.arrays import Floats, Ints
from kwiken.batch.jobs.copies.policy import CopyPolicy
from kwiken.batch.jobs.replay import ReplayedStage, Slots, SlotSchedule

DRAWS: Final = 96  # of the tasks that end a stage
QUANTILES: Final = (0.1, 0.25, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98)  # of task times, as thresholds
LEFT: Final = (1, 2, 3, 4, 6)  # tasks of a stage that may still run when copies begin
SHARES_LEFT: Final = (0.02, 0.05, 0.1, 0.2, 0.4, 1.0)  # the same as shares of its tasks
TAIL_STEPS: Final = 14  # thresholds at equal distances from the median to the longest task
MAX_STEPS: Final = 400  # raises of one stage's spending
LEAST_GAIN: Final = 1e-9  # of the completion time, below which nothing is spent
LEAST_PROMISE: Final = (
    5e-4  # of the completion time that copies may take off a stage, below which none are tried
)


@dataclass(frozen=True)
class CopyStage:
    """Stage as the apportioning sees it.

    Attributes:
        after_ms: (rules,) time that a task has to run before it is copied, milliseconds; the first is
            infinite, for no copies.
        ended: (rules,) share of the stage's tasks that have to end before any is copied.
        span_ms: (rules, draws) time from the stage's release to its end, milliseconds.
        cost_ms: (rules,) mean time of the copies, milliseconds, ascending.
    """

    after_ms: Floats
    ended: Floats
    span_ms: Floats
    cost_ms: Floats


@dataclass(frozen=True)
class CopyJob:
    """Job as the apportioning sees it.

    Attributes:
        stages: its stages as they are scheduled.
        slots: slots that its tasks run on.
        curves: by stage, spans and costs over thresholds.
        task_ms: time of all its tasks, milliseconds.
    """

    stages: tuple[ReplayedStage, ...]
    slots: Slots
    curves: tuple[CopyStage, ...]
    task_ms: float


def copy_job(stages: Sequence[ReplayedStage], slots: Slots, rng: np.random.Generator) -> CopyJob:
    """Summarise a job: a plain schedule tells which tasks end each stage and when they start."""
    plain = SlotSchedule(stages, slots, np.ones(len(stages)))
    plain.run()
    outcome = plain.outcome()
    curves = []
    for place, stage in enumerate(stages):
        tasks = plain.log[place]
        released = outcome.begun_ms[place] - outcome.waited_for_slots_ms[place]
        last_start = max((task.start for task in tasks), default=released)
        ending = [(task.start - released, task.first) for task in tasks if task.end > last_start]
        curves.append(_curve(stage, ending, last_start - released, rng))
    return CopyJob(tuple(stages), slots, tuple(curves), outcome.busy_ms)


def _curve(
    stage: ReplayedStage, ending: Sequence[tuple[float, bool]], last_start: float, rng: np.random.Generator
) -> CopyStage:
    if not ending:
        none = np.zeros(1)
        return CopyStage(np.array([np.inf]), none, np.full((1, DRAWS), stage.close_ms), none)
    n = len(stage.tasks)
    starts = np.array([start for start, _ in ending])[:, None]
    first = np.array([one for _, one in ending])[:, None]
    pick, of_copy = rng.integers(0, n, (2, len(ending), DRAWS))
    took, copy = (
        np.where(first, stage.tasks.first_ms[at], stage.tasks.later_ms[at]) for at in (pick, of_copy)
    )
    ends = starts + took
    in_order = np.sort(ends, axis=0)
    spans, costs, rules = [ends.max(axis=0)], [0.0], [(np.inf, 0.0)]
    for left in sorted({*(one for one in LEFT if one < n), *(math.ceil(one * n) for one in SHARES_LEFT)}):
        enough = in_order[-left - 1] if left < len(ending) else np.full(DRAWS, last_start)
        for threshold in _thresholds(stage.tasks.first_ms if first.mean() >= 1 / 2 else stage.tasks.later_ms):
            begins = np.maximum(np.maximum(starts + threshold, last_start), enough)
            copied = ends > begins
            shorter = np.where(copied, np.minimum(ends, begins + copy), ends)
            spans.append(shorter.max(axis=0))
            costs.append(float((shorter - begins)[copied].sum() / DRAWS))
            rules.append((float(threshold), 1 - left / n))
    spans_ms = np.maximum(np.array(spans), stage.least_ms) + stage.close_ms
    kept = _worth(spans_ms.mean(axis=1), np.array(costs))
    after, ended = np.array(rules)[kept].T
    return CopyStage(after, ended, spans_ms[kept], np.array(costs)[kept])


def _thresholds(pool: Floats) -> Floats:
    """Times after which tasks are copied: quantiles, and equal distances up to the longest task."""
    tail = np.linspace(np.median(pool), pool.max(), TAIL_STEPS + 1)[:-1]
    return np.unique(np.r_[0.0, np.quantile(pool, QUANTILES), tail])


def _worth(span: Floats, cost: Floats) -> Ints:
    """Indices of the rules by rising cost, without those that a cheaper rule beats; no copies come first."""
    order = np.lexsort((span, cost))
    order = np.r_[0, order[order != 0]]
    best = np.minimum.accumulate(span[order])
    better = np.r_[True, span[order][1:] < best[:-1]]
    return np.asarray(order[better], dtype=np.int64)


def apportion_copies(jobs: Sequence[CopyJob], budget: float) -> list[CopyPolicy]:
    """Spend a share of the task time of all jobs on copies.

    Args:
        budget: share of the task time, from 0 to 1.
    """
    left = budget * sum(job.task_ms for job in jobs)
    chosen = [[0] * len(job.stages) for job in jobs]
    spans = [np.array([curve.span_ms[0] for curve in job.curves]).reshape(-1, DRAWS) for job in jobs]
    totals = [_completion(job, one) for job, one in zip(jobs, spans, strict=True)]
    plain = [float(total.mean()) for total in totals]
    options = [_options(job, one, total) for job, one, total in zip(jobs, spans, totals, strict=True)]
    for _ in range(MAX_STEPS):
        best = _best(jobs, options, chosen, plain, left)
        if best is None:
            break
        at, place, threshold, cost = best
        chosen[at][place] = threshold
        left -= cost
        spans[at][place] = jobs[at].curves[place].span_ms[threshold]
        totals[at] = _completion(jobs[at], spans[at])
        options[at] = _options(jobs[at], spans[at], totals[at])
    return [
        CopyPolicy(
            np.array([curve.after_ms[step] for curve, step in zip(job.curves, steps, strict=True)]),
            np.array([curve.ended[step] for curve, step in zip(job.curves, steps, strict=True)]),
        )
        for job, steps in zip(jobs, chosen, strict=True)
    ]


def _completion(job: CopyJob, spans: Floats) -> Floats:
    """(draws,) completion times with these spans of the stages."""
    ends = np.zeros_like(spans)
    for place, stage in enumerate(job.stages):
        start = ends[list(stage.after)].max(axis=0) if stage.after else 0.0
        ends[place] = start + stage.wait_ms + spans[place]
    return ends.max(axis=0) if len(ends) else np.zeros(DRAWS)


def _options(job: CopyJob, spans: Floats, total: Floats) -> list[Floats]:
    """By stage, the mean completion time that each of its thresholds would give, all others as they are.

    The longest path is either through the stage, and changes with its span, or beside it, and does not.
    """
    n = len(job.stages)
    heads, tails = np.zeros_like(spans), np.zeros_like(spans)
    for place, stage in enumerate(job.stages):
        before = (heads[list(stage.after)] + spans[list(stage.after)]).max(axis=0) if stage.after else 0.0
        heads[place] = before + stage.wait_ms
    for place in range(n - 1, -1, -1):
        for before in job.stages[place].after:
            tails[before] = np.maximum(tails[before], job.stages[place].wait_ms + spans[place] + tails[place])
    found = []
    mean = float(total.mean())
    for place in range(n):
        curve = job.curves[place]
        through = heads[place] + spans[place] + tails[place]
        promise = float((curve.span_ms[0] - curve.span_ms[-1]).mean())
        if promise < LEAST_PROMISE * mean or not (through >= total * (1 - 1e-12)).any():
            found.append(np.full(curve.after_ms.size, total.mean()))
            continue
        beside = np.where(through >= total * (1 - 1e-12), _without(job, spans, place), total)
        found.append(np.maximum(beside, heads[place] + curve.span_ms + tails[place]).mean(axis=1))
    return found


def _without(job: CopyJob, spans: Floats, left_out: int) -> Floats:
    """(draws,) longest path that does not pass a stage."""
    n = len(job.stages)
    ends = np.full_like(spans, -np.inf)
    for place, stage in enumerate(job.stages):
        if place == left_out:
            continue
        start = ends[list(stage.after)].max(axis=0) if stage.after else 0.0
        ends[place] = start + stage.wait_ms + spans[place]
    return ends.max(axis=0) if n > 1 else np.full(DRAWS, -np.inf)


def _best(
    jobs: Sequence[CopyJob],
    options: Sequence[list[Floats]],
    chosen: Sequence[list[int]],
    plain: Sequence[float],
    left: float,
) -> tuple[int, int, int, float] | None:
    """Job, stage and rule with the most completion time for its cost, and the cost; None if none pays."""
    best, ratio = None, 0.0
    for at, job in enumerate(jobs):
        for place, curve in enumerate(job.curves):
            now = chosen[at][place]
            gains = (options[at][place][now] - options[at][place][now + 1 :]) / max(plain[at], 1e-9)
            costs = np.maximum(curve.cost_ms[now + 1 :] - curve.cost_ms[now], 1e-6)
            pays = (gains > LEAST_GAIN) & (costs <= left)
            if not pays.any():
                continue
            ratios = np.where(pays, gains / costs, 0.0)
            step = int(ratios.argmax())
            if ratios[step] > ratio:
                best, ratio = (at, place, now + 1 + step, float(costs[step])), float(ratios[step])
    return best
