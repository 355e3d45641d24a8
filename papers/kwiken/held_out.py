"""Held-out evaluation of the planner on synthetic DAGs: budgets kept, and p99 against even spreads.

Each DAG's requests are split in time: the planner gets the first part as the profile of a service, and its
plan is replayed on the second. The source judged on later days likewise; the values here are not from it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from kwiken.model.plan.plan import Budgets, Plan
from kwiken.model.profile.profile import Profile
from kwiken.tail.planning.planner import study_plan
from kwiken.tail.planning.study import PlanSettings
from kwiken.tail.simulation.trace_driven import replay
from papers.figures.rows import FigureRow, Findings, Part, Plot, PlotSeries, percent, row
from papers.worlds.populations.services import POPULATIONS, StageDistribution, population, population_profile

EARLIER, LATER = 6_000, 12_000
MIN_REPLAYED = 20_000  # requests: each later one is replayed often enough
CASES = (("C", 0.05, 1), ("A", 0.05, 2), ("D", 0.05, 2), ("C", 0.01, 2))  # population, budget, every k-th DAG
CORRELATIONS = (0.0, 0.5)
EVEN = {"equal": "the same budget for every stage", "uniform": "the same fraction at every stage"}
OBJECTIVES = ("tail", "variance")  # the first is the planner's default, the other the source's
WITHIN = 0.1  # relative deviation of the spend from the budget that counts as met
PARTS = 5  # jobs among which the DAGs of a case are divided
CREATED = "2013-08-12T00:00:00Z"


@dataclass(frozen=True)
class Judged:
    """Results of one DAG, by method of planning: the planner's objectives and the even spreads.

    Attributes:
        cut: share by which p99 falls, by method and correlation of copies.
        spent: ratio of the spend to the budget, by method.
    """

    cut: dict[tuple[str, float], float]
    spent: dict[str, float]


def judge(case: tuple[str, float, int], seed: int, part_index: int) -> list[Judged]:
    """Results of some DAGs of a population, planned on earlier requests and judged on later ones."""
    name, budget, every = case
    found = []
    for place, dag in enumerate(population(POPULATIONS[name], np.random.default_rng([seed, 62]))):
        if place % every == 0 and place // every % PARTS == part_index:
            rng = np.random.default_rng([seed, 63, place])
            found.append(_judged(dag, budget, rng))
    return found


def _judged(dag: tuple[StageDistribution, ...], budget: float, rng: np.random.Generator) -> Judged:
    early, later = (population_profile(dag, requests, rng) for requests in (EARLIER, LATER))
    rows = np.repeat(np.arange(LATER), -(-MIN_REPLAYED // LATER))
    cut, spent = {}, {}
    for method, plan in _plans(early, budget).items():
        for rho in CORRELATIONS:
            found = replay(later, plan, rows, seed=1, copy_correlation=rho)
            cut[method, rho] = 1 - found.after.p99_ms / found.before.p99_ms
            spent[method] = found.reissue / budget
    return Judged(cut, spent)


def _plans(early: Profile, budget: float) -> dict[str, Plan]:
    """Plans by method of planning: by each objective, and by each even spread."""
    plain = PlanSettings(budgets=Budgets(reissue=budget), created=CREATED, within=0.0)
    return {
        **{each: study_plan(early, replace(plain, objective=each)).plan for each in OBJECTIVES},
        **{spread: study_plan(early, replace(plain, spread=spread)).plan for spread in EVEN},
    }


def conclude(results: list[list[Judged]]) -> Findings:
    """Rows and plot for every population and budget."""
    rows: list[FigureRow] = []
    lines = []
    for place, (name, budget, _) in enumerate(CASES):
        dags = [dag for part in results[place * PARTS : (place + 1) * PARTS] for dag in part]
        label = f"budget {budget:.0%}, population {name}"
        rows += [*_ahead_rows(dags, label), _objectives_row(dags, label), *_budget_rows(dags, label)]
        if budget == CASES[0][1]:
            plan, even = (
                [percent(dag.cut[method, 0.0]) for dag in dags] for method in (OBJECTIVES[0], "uniform")
            )
            lines.append(PlotSeries(f"population {name}", even, plan, points=True))
    plot = Plot(
        "Held out",
        "p99 cut on later requests at 5%, a point a DAG",
        "same fraction at every stage, %",
        "plan, %",
        tuple(lines),
    )
    return Findings(tuple(rows), (plot,))


def _ahead_rows(dags: list[Judged], label: str) -> list[FigureRow]:
    rows = []
    for rho in CORRELATIONS:
        copies = "independent copies" if rho == 0 else f"copies correlated at {rho:g}"
        plan = np.array([dag.cut[OBJECTIVES[0], rho] for dag in dags])
        cut = percent(float(np.median(plan)))
        rows.append(row("Held out", f"p99 cut of the plan, median, {copies}, {label}, %", cut))
        for method, words in EVEN.items():
            even = np.array([dag.cut[method, rho] for dag in dags])
            ahead = percent(float(np.median(plan - even)))
            note = f"ahead or level in {int((plan >= even).sum())} of {len(dags)} DAGs"
            metric = f"p99 cut of the plan less that of {words}, median, {copies}, {label}, points"
            rows.append(row("Held out", metric, ahead, source="above 0", note=note))
    return rows


def _objectives_row(dags: list[Judged], label: str) -> FigureRow:
    ahead = [dag.cut["tail", 0.0] - dag.cut["variance", 0.0] for dag in dags]
    means = ", ".join(
        f"{percent(float(np.mean([dag.cut[method, 0.0] for dag in dags])))} ({method})"
        for method in OBJECTIVES
    )
    metric = f"p99 cut by `tail` less that by `variance` alone, median, {label}, points"
    note = f"least {percent(min(ahead))}; mean cuts {means}"
    return row("Held out", metric, percent(float(np.median(ahead))), source="above 0", note=note)


def _budget_rows(dags: list[Judged], label: str) -> list[FigureRow]:
    spent = np.array([dag.spent[OBJECTIVES[0]] for dag in dags])
    kept = percent(float((np.abs(spent - 1) <= WITHIN).mean()))
    over = int((spent > 1 + WITHIN).sum())
    return [
        row(
            "Held out",
            f"spent on later requests over budget, median, {label}",
            round(float(np.median(spent)), 3),
            source="within 10%",
            note=f"from {spent.min():.3f} to {spent.max():.3f}",
        ),
        row(
            "Held out",
            f"DAGs whose budget is met within 10% on later requests, {label}, %",
            kept,
            note=f"{over} of {len(dags)} spend more than that",
        ),
    ]


def part(seed: int) -> Part:
    """Part with all populations and budgets."""
    jobs = tuple((judge, (case, seed, part_index)) for case in CASES for part_index in range(PARTS))
    return Part("held out", jobs, conclude, ("Held out",))
