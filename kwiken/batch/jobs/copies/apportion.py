"""Apportionment of a budget of task copies over the stages of jobs, by the completion time that copies save.

Each stage is summarised by draws of the tasks that end it. For each rule of copies the draws tell the stage's
span and the cost; a longest path over the DAG turns spans into completion times. The budget is spent
greedily: the stage and rule with the most completion time for the cost go first, and a stage may be raised
again. What a raise brings is computed anew only when its turn comes.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from kwiken.base.arrays import Floats, Ints
from kwiken.batch.jobs.copies.policy import CopyPolicy
from kwiken.batch.jobs.replay.scheduling import ReplayedStage, Slots, SlotSchedule

DRAWS: Final = 96  # of the tasks that end a stage
QUANTILES: Final = (0.1, 0.25, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98)  # of task times, as thresholds
LEFT: Final = (1, 2, 3, 4, 6)  # tasks of a stage that may still run when copies begin
SHARES_LEFT: Final = (0.02, 0.05, 0.1, 0.2, 0.4, 1.0)  # the same as shares of its tasks
TAIL_STEPS: Final = 14  # thresholds at equal distances from the median to the longest task
MAX_RAISES: Final = 5000  # of one spending
MAX_ROUNDS: Final = 20  # in which stages that did not pay are looked at again
LEAST_COST_MS: Final = 1e-6  # that a raise counts as
LEAST_GAIN: Final = 1e-9  # of the completion time, below which nothing is spent
LEAST_PROMISE: Final = 1e-6  # of the completion time that copies may take off a stage, to be tried


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


Chosen = tuple[tuple[int, ...], ...]  # by job and stage, index of the rule in the stage's curve


class CopyRaise(NamedTuple):
    """One more spending on copies: a stage that copies its tasks by another rule.

    Attributes:
        stage: index of the stage in its job.
        rule: index of the rule in the stage's curve.
    """

    job: int
    stage: int
    rule: int


def no_copies(jobs: Sequence[CopyJob]) -> Chosen:
    """Choice with which no task is copied."""
    return tuple((0,) * len(job.stages) for job in jobs)


def raised(chosen: Chosen, raises: Sequence[CopyRaise]) -> Chosen:
    """Choice after some raises."""
    steps = [list(one) for one in chosen]
    for one in raises:
        steps[one.job][one.stage] = one.rule
    return tuple(tuple(one) for one in steps)


def policies_of(jobs: Sequence[CopyJob], chosen: Chosen) -> list[CopyPolicy]:
    """By job, the policy that a choice stands for."""
    return [
        CopyPolicy(
            np.array([curve.after_ms[step] for curve, step in zip(job.curves, steps, strict=True)]),
            np.array([curve.ended[step] for curve, step in zip(job.curves, steps, strict=True)]),
        )
        for job, steps in zip(jobs, chosen, strict=True)
    ]


def apportion_copies(jobs: Sequence[CopyJob], left_ms: float, begun: Chosen) -> list[CopyRaise]:
    """Spend task time of all jobs on copies: raises of stages, those that bring most for their cost first.

    Args:
        left_ms: expected time of the copies that may be added, milliseconds.
        begun: choice to start from.
    """
    spent = [_Spent(job, list(steps)) for job, steps in zip(jobs, begun, strict=True)]
    path: list[CopyRaise] = []
    for _ in range(MAX_ROUNDS):
        raises = [
            found
            for at, job in enumerate(spent)
            for place in range(len(job.chosen))
            if (found := job.best(at, place, left_ms)) is not None
        ]
        heapq.heapify(raises)
        before = len(path)
        while raises and len(path) < MAX_RAISES:
            one = heapq.heappop(raises)
            job = spent[one.job]
            if one.stamp != job.stamp or one.cost_ms > left_ms:
                again = job.best(one.job, one.stage, left_ms)
                if again is not None:
                    heapq.heappush(raises, again)
                continue
            job.raise_to(one.stage, one.rule)
            left_ms -= one.cost_ms
            path.append(CopyRaise(one.job, one.stage, one.rule))
            further = job.best(one.job, one.stage, left_ms)
            if further is not None:
                heapq.heappush(raises, further)
        if len(path) in {before, MAX_RAISES}:
            break
    return path


class _Promise(NamedTuple):
    """What a raise brings for its cost; the one with the most completion time for its cost sorts first."""

    ratio: float  # negative
    job: int
    stage: int
    rule: int
    cost_ms: float
    stamp: int


@dataclass
class _Spent:
    """Job with what is spent on it so far."""

    job: CopyJob
    chosen: list[int]
    stamp: int = 0  # rises with each raise
    spans: Floats = field(init=False)
    plain_ms: float = field(init=False)

    def __post_init__(self) -> None:
        curves = self.job.curves
        self.plain_ms = float(
            _completion(self.job, np.array([one.span_ms[0] for one in curves]).reshape(-1, DRAWS)).mean()
        )
        self.spans = np.array([one.span_ms[at] for one, at in zip(curves, self.chosen, strict=True)]).reshape(
            -1, DRAWS
        )
        self._measure()

    def raise_to(self, place: int, rule: int) -> None:
        """Copy tasks of a stage by another rule."""
        self.chosen[place] = rule
        self.spans[place] = self.job.curves[place].span_ms[rule]
        self.stamp += 1
        self._measure()

    def _measure(self) -> None:
        """Longest paths before and after each stage, and of the job."""
        self._heads, self._tails = np.zeros_like(self.spans), np.zeros_like(self.spans)
        heads, tails, stages = self._heads, self._tails, self.job.stages
        for place, stage in enumerate(stages):
            heads[place] = stage.wait_ms
            if stage.after:
                parents = list(stage.after)
                heads[place] += (heads[parents] + self.spans[parents]).max(axis=0)
        for place in range(len(stages) - 1, -1, -1):
            through = stages[place].wait_ms + self.spans[place] + tails[place]
            for before in stages[place].after:
                np.maximum(tails[before], through, out=tails[before])
        self._total = (heads + self.spans).max(axis=0) if len(stages) else np.zeros(DRAWS)

    def best(self, at: int, place: int, left_ms: float) -> _Promise | None:
        """Raise of a stage with the most completion time for its cost; None if none pays.

        The longest path is either through the stage, and changes with its span, or beside it, and does not.
        """
        curve, now = self.job.curves[place], self.chosen[place]
        costs = curve.cost_ms[now + 1 :] - curve.cost_ms[now]
        n = int(np.searchsorted(costs, left_ms, side="right"))
        if not n:
            return None
        spans, costs = curve.span_ms[now + 1 : now + 1 + n], np.maximum(costs[:n], LEAST_COST_MS)
        mean = float(self._total.mean())
        if float((self.spans[place] - spans[-1]).mean()) < LEAST_PROMISE * mean:
            return None
        through = self._heads[place] + self.spans[place] + self._tails[place]
        longest = through >= self._total * (1 - 1e-12)
        if not longest.any():
            return None
        beside = np.where(longest, _without(self.job, self.spans, place), self._total)
        totals = np.maximum(beside, self._heads[place] + spans + self._tails[place]).mean(axis=1)
        ratios = np.where(mean - totals > LEAST_GAIN * mean, (mean - totals) / costs, 0.0)
        step = int(ratios.argmax())
        if ratios[step] <= 0:
            return None
        ratio = float(ratios[step]) / max(self.plain_ms, 1e-9)
        return _Promise(-ratio, at, place, now + 1 + step, float(costs[step]), self.stamp)


def _completion(job: CopyJob, spans: Floats) -> Floats:
    """(draws,) completion times with these spans of the stages."""
    ends = np.zeros_like(spans)
    for place, stage in enumerate(job.stages):
        start = ends[list(stage.after)].max(axis=0) if stage.after else 0.0
        ends[place] = start + stage.wait_ms + spans[place]
    return ends.max(axis=0) if len(ends) else np.zeros(DRAWS)


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
