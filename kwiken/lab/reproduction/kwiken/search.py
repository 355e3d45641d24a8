"""SumVar against random search, and the sum of variances against p99: section 5.6 and Figure 5.3."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.stats import spearmanr

from kwiken.lab.populations import POPULATIONS, population
from kwiken.lab.reproduction.kwiken.trial import DagTrial
from kwiken.lab.reproduction.rows import Findings, Part, Plot, PlotSeries, gain, percent, row
from kwiken.tail.apportion import Allocation, sumvar

SEARCH_DAGS, SEARCH_TRIES, SEARCH_REQUESTS = 9, 2000, 4000
SEARCH_BUDGETS = (0.01, 0.05, 0.1)
NEAR_RATIO = 0.94  # ratio to random search's cut from which a case counts as near
SCATTER_ALLOCATIONS = 600  # random allocations in the scatter plot
MIN_SCATTER_STAGES = 28  # smallest number of stages of the DAG in the scatter plot


def random_search(place: int, seed: int) -> list[tuple[float, float]]:
    """For one of nine smaller DAGs and each budget: p99 cut by SumVar and by the best random allocation.

    Random allocations are chosen on the training requests, and both are judged on the test requests.
    """
    rng = np.random.default_rng([seed, 53, place])
    stages = population(POPULATIONS["C"], rng, dags=45)[8 + place]  # sizes from about 6 to 12 stages
    trial = DagTrial.of(stages, SEARCH_REQUESTS, rng)
    p99 = float(np.percentile(trial.latency_ms(), 99))
    found = []
    for budget in SEARCH_BUDGETS:
        tried = (_random_allocation(trial, budget, rng) for _ in range(SEARCH_TRIES))
        best = min(tried, key=lambda allocation: _p99(trial, allocation, on_train=True))
        ours = sumvar(trial.curves, trial.costs, budget)
        found.append((gain(p99, _p99(trial, ours)), gain(p99, _p99(trial, best))))
    return found


def _p99(trial: DagTrial, allocation: Allocation, *, on_train: bool = False) -> float:
    return float(np.percentile(trial.simulate(allocation, on_train=on_train)[0], 99))


def _random_allocation(trial: DagTrial, budget: float, rng: np.random.Generator) -> Allocation:
    """Random split of the budget; a share that a stage cannot use is left unspent."""
    split = rng.dirichlet(np.full(len(trial.stages), 0.5))
    fractions = {
        stage.name: min(1.0, float(part) * budget / trial.costs[stage.name])
        for stage, part in zip(trial.stages, split, strict=True)
    }
    return Allocation(fractions, budget, {}, {}, ())


class Scatter(NamedTuple):
    """Allocations of one DAG: the sum of the stages' variances against p99.

    Attributes:
        risks_ms2: sum of variances of each random allocation, ms².
        p99s_ms: p99 of each random allocation, milliseconds.
        sumvar_risk_ms2: sum of variances of SumVar's allocation, ms².
        sumvar_p99_ms: p99 of SumVar's allocation, milliseconds.
    """

    risks_ms2: list[float]
    p99s_ms: list[float]
    sumvar_risk_ms2: float
    sumvar_p99_ms: float


def scatter(seed: int) -> Scatter:
    """Random allocations and SumVar's on a DAG of about 28 stages."""
    rng = np.random.default_rng([seed, MIN_SCATTER_STAGES])
    stages = next(dag for dag in population(POPULATIONS["C"], rng) if len(dag) >= MIN_SCATTER_STAGES)
    trial = DagTrial.of(stages, SEARCH_REQUESTS, rng)
    budgets = rng.uniform(0, 0.2, size=SCATTER_ALLOCATIONS)
    tried = [_random_allocation(trial, float(budget), rng) for budget in budgets]
    tried.append(sumvar(trial.curves, trial.costs, 0.2))
    risk = [sum(c.hull_at(a.fractions[name]) for name, c in trial.curves.items()) for a in tried]
    p99 = [_p99(trial, allocation) for allocation in tried]
    return Scatter(risk[:-1], p99[:-1], risk[-1], p99[-1])


def conclude_search(results: list[list[tuple[float, float]]]) -> Findings:
    """Rows comparing SumVar with random search."""
    cases = [case for result in results for case in result]
    ahead = float(np.mean([ours - best for ours, best in cases]))
    near = float(np.mean([ours >= NEAR_RATIO * best for ours, best in cases]))
    note = f"{len(cases)} cases; best of {SEARCH_TRIES} by training requests, both judged on test requests"
    close = "cases in which SumVar has 94% or more of random search's cut, %"
    return Findings(
        (
            row(
                "Section 5.6",
                "p99 cut, SumVar less random search, points",
                percent(ahead),
                source="2",
                note=note,
            ),
            row("Section 5.6", close, percent(near), source="95", note=note),
        )
    )


def conclude_scatter(results: list[Scatter]) -> Findings:
    """Rows and plot of p99 against the sum of variances."""
    risk, p99, ours_risk, ours_p99 = results[0]
    order = round(float(spearmanr(risk, p99).statistic), 3)
    below = percent(float(np.mean(np.array(p99) < ours_p99)))
    note = f"{SCATTER_ALLOCATIONS} random allocations of budgets up to 20%"
    end = "SumVar ends below the cloud"
    cloud = PlotSeries("random", risk, p99, points=True)
    ours = PlotSeries("SumVar", [ours_risk], [ours_p99], points=True)
    rank = "rank correlation of the sum of variances and p99"
    return Findings(
        (
            row("Figure 5.3", rank, order, source="p99 falls with the sum", note=note),
            row("Figure 5.3", "allocations with a p99 below SumVar's, %", below, source=end, note=note),
        ),
        (Plot("Figure 5.3", "p99 against the sum of variances", "sum, ms²", "p99, ms", (cloud, ours)),),
    )


def parts(seed: int) -> tuple[Part, ...]:
    """The random search of section 5.6, and Figure 5.3."""
    return (
        Part("random search", tuple((random_search, (i, seed)) for i in range(SEARCH_DAGS)), conclude_search),
        Part("scatter", ((scatter, (seed,)),), conclude_scatter),
    )
