"""Benchmark of objectives on held-out requests: population C, planned on one part of time."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from benchmarks.harness import Row
from kwiken.model.plan.plan import Budgets, Plan
from kwiken.model.profile.profile import Profile
from kwiken.tail.planning.planner import study_plan
from kwiken.tail.planning.study import PlanSettings
from kwiken.tail.simulation.trace_driven import simulate
from papers.worlds.populations.services import POPULATIONS, population, population_profile

CREATED = "2026-01-01T00:00:00Z"
OBJECTIVES = ("variance", "tail")
BUDGETS = (0.01, 0.05)
REQUESTS, LATER = 8000, 20_000
MAX_BEHIND = 3.0  # points of p99 cut, in the median


@dataclass(frozen=True)
class Case:
    """One DAG and budget: by objective, p99 cut and spend over budget on later requests, and seconds."""

    budget: float
    cut: dict[str, float]
    spent: dict[str, float]
    seconds: dict[str, float]


def run(quick: bool) -> list[Row]:  # noqa: FBT001 - every benchmark is called alike
    cases = list(measure(dags=6 if quick else 45, seed=0))
    behind = [100 * (max(case.cut["variance"], case.cut["p99"]) - case.cut["auto"]) for case in cases]
    rows = [
        Row(
            name="p99 cut of `auto` behind the better of variance and p99, median over DAGs and budgets",
            ours=float(np.median(behind)),
            unit="points",
            target=MAX_BEHIND,
            spread=(min(behind), max(behind)),
        )
    ]
    for budget in BUDGETS:
        rows += _rows([case for case in cases if case.budget == budget], budget)
    return rows


def measure(*, dags: int, seed: int) -> list[Case]:
    """Plan on early requests of every DAG, judge on later ones."""
    rng = np.random.default_rng(seed)
    cases = []
    for dag in population(POPULATIONS["C"], rng, dags=dags):
        early, later = population_profile(dag, REQUESTS, rng), population_profile(dag, LATER, rng)
        cases += [_case(early, later, budget) for budget in BUDGETS]
    return cases


def _case(early: Profile, later: Profile, budget: float) -> Case:
    cut, spent, seconds = {}, {}, {}
    for objective in OBJECTIVES:
        start = time.perf_counter()
        plan = study_plan(
            early,
            PlanSettings(budgets=Budgets(reissue=budget), objective=objective, cost="mean", created=CREATED),
        ).plan
        seconds[objective] = time.perf_counter() - start
        cut[objective], spent[objective] = _judge(later, plan, budget)
    return Case(budget, cut, spent, seconds)


def _judge(later: Profile, plan: Plan, budget: float) -> tuple[float, float]:
    found = simulate(later, plan, requests=LATER, seed=1)
    return 1 - found.after.p99_ms / found.before.p99_ms, found.reissue / budget


def _rows(cases: list[Case], budget: float) -> list[Row]:
    rows = []
    for objective in OBJECTIVES:
        cuts = [100 * case.cut[objective] for case in cases]
        rows.append(
            Row(
                name=f"p99 cut on later requests, budget {budget:.0%}, {objective}",
                ours=float(np.mean(cuts)),
                unit="%",
                spread=(min(cuts), max(cuts)),
            )
        )
        spends = [case.spent[objective] for case in cases]
        rows.append(
            Row(
                name=f"spent on later requests of budget {budget:.0%}, {objective}",
                ours=float(np.median(spends)),
                unit="x",
                target=1.1,
                spread=(min(spends), max(spends)),
            )
        )
        rows.append(
            Row(
                name=f"time of a plan, budget {budget:.0%}, {objective}",
                ours=float(np.median([case.seconds[objective] for case in cases])),
                unit="s",
            )
        )
    return rows
