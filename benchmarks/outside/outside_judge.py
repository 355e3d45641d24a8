"""Judgement of recordings for the benchmarks `outside` and `tried`: many ways to plan, side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

from benchmarks.outside.outside_data import Recording
from kwiken.model.plan.ledger_terms import LedgerTerms
from kwiken.model.plan.plan import Budgets, Plan
from kwiken.model.profile.profile import Profile
from kwiken.tail.apportion.apportioner import INSURANCE
from kwiken.tail.judging.judge_plan import judge_segments
from kwiken.tail.judging.judged_plans import PLAN, rivals
from kwiken.tail.judging.judged_requests import Segment
from kwiken.tail.judging.judgement_document import Judgement
from kwiken.tail.planning.planner import study_plan
from kwiken.tail.planning.study import PlanSettings

BUDGETS = (0.005, 0.01, 0.05)
CORRELATIONS = (None, 0.5)
PROCESSES = 2
CREATED = "2026-01-01T00:00:00Z"
Ways = Callable[[Profile, float], Mapping[str, Plan]]


@dataclass(frozen=True)
class Case:
    """Judgement of one recording at one budget."""

    data_set: str
    kind: str
    budget: float
    judgement: Judgement


def made(
    earlier: Profile, budget: float, *, insurance: float = INSURANCE, ledger: LedgerTerms | None = None
) -> Plan:
    """Plan on some requests, with the defaults but for the insurance and the terms of the ledger."""
    settings = PlanSettings(
        budgets=Budgets(reissue=budget), insurance=insurance, ledger=ledger, created=CREATED
    )
    return study_plan(earlier, settings).plan


def judged(
    recordings: Iterable[Recording],
    ways: Ways | None = None,
    *,
    budgets: Sequence[float] = BUDGETS,
    ledger: LedgerTerms | None = None,
) -> list[Case]:
    """Judge every recording at every budget.

    Args:
        recordings: recordings to judge.
        budgets: reissue budgets, as shares of all work.
        ways: makes more plans of earlier requests and a budget, to judge beside the plan; none by default.
        ledger: terms of the ledger in force; None for the default terms.
    """
    with ProcessPoolExecutor(PROCESSES) as pool:
        jobs = [
            pool.submit(_cases, recording, budget, ways, ledger)
            for recording in recordings
            for budget in budgets
        ]
        return [case for job in jobs for case in job.result()]


def _cases(recording: Recording, budget: float, ways: Ways | None, ledger: LedgerTerms | None) -> list[Case]:
    """Judge one recording at one budget, for each data set that it stands for."""
    segments = []
    for earlier, later in recording.pairs:
        plan = made(earlier, budget, ledger=ledger)
        more = {} if ways is None else ways(earlier, budget)
        segments.append(Segment(later, {PLAN: plan, **rivals(plan, earlier, later, seed=0), **more}))
    return [
        Case(
            name,
            recording.kind,
            budget,
            judge_segments(
                segments,
                sampled=sampled,
                correlations=CORRELATIONS if ways is None else (None,),
                seed=0,
            ),
        )
        for name, sampled in recording.data_sets.items()
    ]
