"""Judgement of recordings for the benchmarks `outside` and `tried`: many ways to plan, side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np

from benchmarks.outside_data import Recording
from kwiken.evaluation import PLAN, Judgement, Segment, judge_segments, rivals
from kwiken.plan import Budgets, Plan
from kwiken.planning import PlanSettings, study_plan
from kwiken.profile import Profile

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


def made(earlier: Profile, budget: float) -> Plan:
    """Plan on some requests, with the defaults."""
    return study_plan(earlier, PlanSettings(budgets=Budgets(reissue=budget), created=CREATED)).plan


def judged(recordings: Iterable[Recording], ways: Ways | None = None) -> list[Case]:
    """Judge every recording at every budget.

    Args:
        recordings: recordings to judge.
        ways: makes more plans of earlier requests and a budget, to judge beside the plan; none by default.
    """
    with ProcessPoolExecutor(PROCESSES) as pool:
        found = pool.map(partial(_cases, ways=ways), recordings)
        return [case for cases in found for case in cases]


def _cases(recording: Recording, ways: Ways | None) -> list[Case]:
    return [
        Case(recording.data_set, recording.kind, budget, _judged(recording, budget, ways))
        for budget in BUDGETS
    ]


def _judged(recording: Recording, budget: float, ways: Ways | None) -> Judgement:
    segments = []
    for earlier, later in recording.pairs:
        plan = made(earlier, budget)
        more = {} if ways is None else ways(earlier, budget)
        segments.append(Segment(later, {PLAN: plan, **rivals(plan, earlier, later, seed=0), **more}))
    starts = [float(later.started_s.min()) for _, later in recording.pairs]
    end = float(np.nextafter(recording.pairs[-1][1].started_s.max(), np.inf))
    return judge_segments(
        segments,
        edges_s=np.array([*starts, end]),
        sampled=recording.sampled,
        correlations=CORRELATIONS if ways is None else (None,),
        seed=0,
    )
