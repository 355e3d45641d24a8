"""Copies of tasks beside rivals: speculation, equal shares of the stages, doubling, hindsight, none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from kwiken.base.arrays import Floats
from kwiken.batch.jobs.copies.apportion import (
    Chosen,
    CopyJob,
    CopyRaise,
    apportion_copies,
    copy_job,
    no_copies,
    policies_of,
    raised,
)
from kwiken.batch.jobs.copies.hindsight import DrawnJob, copies_in_hindsight
from kwiken.batch.jobs.copies.policy import (
    SPECULATION_QUANTILE,
    CopiedRun,
    CopyPolicy,
    drawn,
    replay_doubled,
    replay_with_copies,
)
from kwiken.batch.jobs.replay.replayed_run import RunModel
from kwiken.batch.jobs.replay.scheduling import Slots

REPLAYS: Final = 24  # fresh draws that each rule is judged on
BUDGET_HALVINGS: Final = 5  # of a search for a budget whose copies cost no more than it
HALVINGS: Final = 12  # of a search for the threshold that spends a budget
LEAST_TRIED, MOST_TRIED = 6, 60  # draws on which that search measures the cost
TASKS_TRIED: Final = 20_000  # tasks that those draws of one job hold together, about
MOST_MULTIPLE: Final = 64.0  # of a stage's median task time
SPENDINGS: Final = 3  # of what earlier ones left of a budget
SHARED, EQUAL, SPECULATION, DOUBLED, NONE = "shared", "equal", "speculation", "doubled", "none"
HINDSIGHT = "hindsight"


@dataclass(frozen=True)
class CopyResult:
    """Effect of a rule of copies on one job, as means over draws that no rule has seen.

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
        multiples: by job, multiple of a stage's median task time by which speculation spends the budget.
    """

    policies: list[CopyPolicy]
    results: dict[str, list[CopyResult]]
    multiples: list[float]

    def taken_off(self, rule: str, job: int) -> float:
        """Share of a job's completion time that a rule takes off."""
        none = self.results[NONE][job].total_ms
        return 1 - self.results[rule][job].total_ms / none if none > 0 else 0.0

    def share_of_doubling(self, rule: str) -> float:
        """What a rule takes off all jobs, as a share of what doubling every task does."""
        jobs = range(len(self.policies))
        doubled = sum(self.taken_off(DOUBLED, job) for job in jobs)
        return sum(self.taken_off(rule, job) for job in jobs) / doubled if doubled > 0 else 0.0


def compare_copies(
    models: Sequence[RunModel], budget: float, seed: int, *, each: bool = False
) -> CopyComparison:
    """Apportion a budget over the stages of jobs, and judge it beside its rivals on fresh draws.

    All rules that have a budget spend the same one, measured on the draws that they are fitted to.

    Args:
        budget: share of the task time of all jobs, from 0 to 1.
        seed: seed of the draws; rules are judged on others than they are fitted to.
        each: whether each job has a budget of its own, a share of its own task time.
    """
    fitting, judging = (np.random.default_rng([seed, part]) for part in (0, 1))
    jobs = [copy_job(model.stages, _slots(model), fitting) for model in models]
    groups = [[at] for at in range(len(jobs))] if each else [list(range(len(jobs)))]
    rules: dict[str, list[CopyPolicy]] = {
        SHARED: [],
        EQUAL: [_equal_within(job, budget, seed) for job in jobs],
        SPECULATION: [],
        NONE: [CopyPolicy.none(len(job.stages)) for job in jobs],
    }
    multiples: list[float] = []
    for group in groups:
        some = [jobs[at] for at in group]
        rules[SHARED] += _spent(some, budget, seed)
        multiple = _smallest_multiple(some, budget, seed)
        rules[SPECULATION] += _by_multiple(some, multiple)
        multiples += [multiple] * len(some)
    runs: dict[str, list[list[CopiedRun]]] = {
        rule: [[] for _ in jobs] for rule in (*rules, DOUBLED, HINDSIGHT)
    }
    for _ in range(REPLAYS):
        draws = [DrawnJob.of(job.stages, job.slots, judging) for job in jobs]
        for at, (job, draw) in enumerate(zip(jobs, draws, strict=True)):
            runs[DOUBLED][at].append(replay_doubled(draw.stages, draw.copies, job.slots))
            for rule, policies in rules.items():
                runs[rule][at].append(replay_with_copies(draw.stages, draw.copies, job.slots, policies[at]))
        for group in groups:
            known = copies_in_hindsight([draws[at] for at in group], budget)
            for at, run in zip(group, known, strict=True):
                runs[HINDSIGHT][at].append(run)
    results = {
        rule: [_mean(one, model.tail_ms) for one, model in zip(by_job, models, strict=True)]
        for rule, by_job in runs.items()
    }
    return CopyComparison(rules[SHARED], results, multiples)


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


def _equal_within(job: CopyJob, budget: float, seed: int) -> CopyPolicy:
    """Equal share for each stage, the largest whose measured cost is within the budget."""
    best = _equal(job, budget)
    if _cost([best], [job], seed) <= budget:
        return best
    low, high, best = 0.0, budget, CopyPolicy.none(len(job.stages))
    for _ in range(BUDGET_HALVINGS):
        middle = (low + high) / 2
        policy = _equal(job, middle)
        if _cost([policy], [job], seed) <= budget:
            low, best = middle, policy
        else:
            high = middle
    return best


def _spent(jobs: Sequence[CopyJob], budget: float, seed: int) -> list[CopyPolicy]:
    """Policies that spend a budget: as many raises as stay within the budget by their measured cost.

    What is left, since copies cost less than expected or the next raise costs too much, is spent in turn.
    """
    task_ms = sum(job.task_ms for job in jobs)
    chosen, cost = no_copies(jobs), 0.0
    for _ in range(SPENDINGS):
        raises = apportion_copies(jobs, (budget - cost) * task_ms, chosen)
        some, cost = _raises_within(jobs, chosen, raises, budget, cost, seed)
        if not some:
            break
        chosen = raised(chosen, some)
    return policies_of(jobs, chosen)


def _raises_within(
    jobs: Sequence[CopyJob],
    chosen: Chosen,
    raises: Sequence[CopyRaise],
    budget: float,
    cost: float,
    seed: int,
) -> tuple[Sequence[CopyRaise], float]:
    """First of the raises, as many as stay within the budget by their measured cost; and that cost."""
    low, high = 0, len(raises) + 1
    while high - low > 1:
        middle = len(raises) if high > len(raises) else (low + high) // 2
        measured = _cost(policies_of(jobs, raised(chosen, raises[:middle])), jobs, seed)
        if measured <= budget:
            low, cost = middle, measured
        else:
            high = middle
    return raises[:low], cost


def _by_multiple(jobs: Sequence[CopyJob], multiple: float) -> list[CopyPolicy]:
    """Spark's rule: one multiple of a stage's median task time for all stages."""
    return [
        CopyPolicy(
            multiple
            * np.array([_median(stage.tasks.later_ms, stage.tasks.first_ms) for stage in job.stages]),
            np.full(len(job.stages), SPECULATION_QUANTILE),
        )
        for job in jobs
    ]


def _smallest_multiple(jobs: Sequence[CopyJob], budget: float, seed: int) -> float:
    """Multiple of the median at which speculation spends the budget; the smallest that stays within."""
    if _cost(_by_multiple(jobs, 0.0), jobs, seed) <= budget:
        return 0.0
    low, high = 0.0, MOST_MULTIPLE
    for _ in range(HALVINGS):
        middle = (low + high) / 2 if low else high / 4
        if _cost(_by_multiple(jobs, middle), jobs, seed) <= budget:
            high = middle
        else:
            low = middle
    return high
