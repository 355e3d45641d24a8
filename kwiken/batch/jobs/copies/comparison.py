"""Copies of tasks beside their rivals: speculation, an equal share for each stage, doubling, none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from kwiken.base.arrays import Floats
from kwiken.batch.jobs.copies.apportion import CopyJob, apportion_copies, copy_job
from kwiken.batch.jobs.copies.policy import (
    SPECULATION_QUANTILE,
    CopiedRun,
    CopyPolicy,
    drawn,
    replay_doubled,
    replay_with_copies,
)
from kwiken.batch.jobs.replay import RunModel, Slots

REPLAYS: Final = 24  # fresh draws that each rule is judged on
BUDGET_HALVINGS: Final = 5  # of a search for a budget whose copies cost no more than it
HALVINGS: Final = 12  # of a search for the threshold that spends a budget
LEAST_TRIED, MOST_TRIED = 6, 60  # draws on which that search measures the cost
TASKS_TRIED: Final = 20_000  # tasks that those draws of one job hold together, about
MOST_MULTIPLE: Final = 64.0  # of a stage's median task time
SHARED, EQUAL, SPECULATION, DOUBLED, NONE = "shared", "equal", "speculation", "doubled", "none"


@dataclass(frozen=True)
class CopyResult:
    """What a rule of copies does to one job, as means over draws that no rule has seen.

    Attributes:
        total_ms: completion time, milliseconds.
        cost: time of copies over the time of all tasks.
        copied: number of tasks that got a copy.
    """

    total_ms: float
    cost: float
    copied: float


@dataclass(frozen=True)
class CopyComparison:
    """Rules of copies on jobs that share one budget.

    Attributes:
        policies: by job, thresholds of the stages by the apportioned budget.
        results: by rule, one result a job.
        multiple: multiple of a stage's median task time by which speculation spends the budget.
    """

    policies: list[CopyPolicy]
    results: dict[str, list[CopyResult]]
    multiple: float

    def taken_off(self, rule: str, job: int) -> float:
        """Share of a job's completion time that a rule takes off."""
        none = self.results[NONE][job].total_ms
        return 1 - self.results[rule][job].total_ms / none if none > 0 else 0.0

    def share_of_doubling(self, rule: str) -> float:
        """What a rule takes off all jobs, as a share of what doubling every task does."""
        jobs = range(len(self.policies))
        doubled = sum(self.taken_off(DOUBLED, job) for job in jobs)
        return sum(self.taken_off(rule, job) for job in jobs) / doubled if doubled > 0 else 0.0


def compare_copies(models: Sequence[RunModel], budget: float, seed: int) -> CopyComparison:
    """Apportion a budget over the stages of jobs, and judge it beside its rivals on fresh draws.

    All rules that have a budget spend the same one, measured on the draws that they are fitted to.

    Args:
        budget: share of the task time of all jobs, from 0 to 1.
        seed: seed of the draws; rules are judged on others than they are fitted to.
    """
    fitting, judging = (np.random.default_rng([seed, part]) for part in (0, 1))
    slots = [_slots(model) for model in models]
    jobs = [copy_job(model.stages, one, fitting) for model, one in zip(models, slots, strict=True)]
    shared = _within(lambda at: apportion_copies(jobs, at), jobs, budget, seed)
    equal = [
        _within(lambda at, job=job: [_equal(job, at)], [job], budget, seed)[0]  # type: ignore[misc]
        for job in jobs
    ]
    medians = [
        np.array([_median(stage.tasks.later_ms, stage.tasks.first_ms) for stage in job.stages])
        for job in jobs
    ]

    def by_multiple(multiple: float) -> list[CopyPolicy]:
        return [CopyPolicy(multiple * one, np.full(one.size, SPECULATION_QUANTILE)) for one in medians]

    multiple = _smallest_multiple(by_multiple, jobs, budget, seed)
    rules = {
        SHARED: shared,
        EQUAL: equal,
        SPECULATION: by_multiple(multiple),
        NONE: [CopyPolicy.none(len(job.stages)) for job in jobs],
    }
    results: dict[str, list[CopyResult]] = {rule: [] for rule in (*rules, DOUBLED)}
    for at, job in enumerate(jobs):
        outcomes: dict[str, list[CopiedRun]] = {rule: [] for rule in results}
        for _ in range(REPLAYS):
            stages, copies = drawn(job.stages, judging)
            outcomes[DOUBLED].append(replay_doubled(stages, copies, slots[at]))
            for rule, policies in rules.items():
                outcomes[rule].append(replay_with_copies(stages, copies, slots[at], policies[at]))
        for rule, runs in outcomes.items():
            results[rule].append(_mean(runs, models[at].tail_ms))
    return CopyComparison(shared, results, multiple)


def _mean(runs: Sequence[CopiedRun], tail_ms: float) -> CopyResult:
    return CopyResult(
        total_ms=float(np.mean([run.total_ms for run in runs])) + tail_ms,
        cost=sum(run.copy_ms for run in runs) / max(1e-9, sum(run.task_ms for run in runs)),
        copied=float(np.mean([run.copied for run in runs])),
    )


def _slots(model: RunModel) -> Slots:
    return Slots.standing(np.repeat(model.arrivals_ms, model.slots_per_executor))


def _median(later: Floats, first: Floats) -> float:
    return float(np.median(np.r_[later, first])) if later.size else 0.0


def _equal(job: CopyJob, share: float) -> CopyPolicy:
    """Thresholds with which each stage spends the same share of its own task time."""
    chosen = []
    for curve, stage in zip(job.curves, job.stages, strict=True):
        allowed = share * float(stage.tasks.later_ms.sum())
        at = int(np.flatnonzero(curve.cost_ms <= allowed)[-1])
        chosen.append((curve.after_ms[at], curve.ended[at]))
    after, ended = np.array(chosen).reshape(-1, 2).T
    return CopyPolicy(after, ended)


def _cost(policies: Sequence[CopyPolicy], jobs: Sequence[CopyJob], seed: int) -> float:
    """Time of copies over the time of tasks, on draws of the fitting."""
    rng = np.random.default_rng([seed, 2])
    copies_ms = tasks_ms = 0.0
    for job, policy in zip(jobs, policies, strict=True):
        n = max(1, sum(len(stage.tasks) for stage in job.stages))
        for _ in range(min(MOST_TRIED, max(LEAST_TRIED, TASKS_TRIED // n))):
            stages, copies = drawn(job.stages, rng)
            run = replay_with_copies(stages, copies, job.slots, policy)
            copies_ms, tasks_ms = copies_ms + run.copy_ms, tasks_ms + run.task_ms
    return copies_ms / max(1e-9, tasks_ms)


def _within(
    spend: Callable[[float], list[CopyPolicy]], jobs: Sequence[CopyJob], budget: float, seed: int
) -> list[CopyPolicy]:
    """Policies of the largest budget whose measured cost is within the budget that is asked for."""
    best = spend(budget)
    if _cost(best, jobs, seed) <= budget:
        return best
    low, high, best = 0.0, budget, spend(0.0)
    for _ in range(BUDGET_HALVINGS):
        middle = (low + high) / 2
        policies = spend(middle)
        if _cost(policies, jobs, seed) <= budget:
            low, best = middle, policies
        else:
            high = middle
    return best


def _smallest_multiple(
    by_multiple: Callable[[float], list[CopyPolicy]], jobs: Sequence[CopyJob], budget: float, seed: int
) -> float:
    """Multiple of the median at which speculation spends the budget; the smallest that stays within."""
    if _cost(by_multiple(0.0), jobs, seed) <= budget:
        return 0.0
    low, high = 0.0, MOST_MULTIPLE
    for _ in range(HALVINGS):
        middle = (low + high) / 2 if low else high / 4
        if _cost(by_multiple(middle), jobs, seed) <= budget:
            high = middle
        else:
            low = middle
    return high
