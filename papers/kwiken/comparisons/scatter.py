"""Sum of variances against p99, for random allocations and along SumVar's path: Figure 5.3."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.stats import spearmanr

from kwiken.tail.apportion.sum_of_variances import Allocation, sumvar
from papers.figures.rows import Findings, Part, Plot, PlotSeries, percent, row
from papers.kwiken.comparisons.random_allocation import p99_of, random_allocation
from papers.kwiken.trial.dag_trial import DagTrial
from papers.worlds.populations.services import POPULATIONS, population

SCATTER_ALLOCATIONS = 1000  # random allocations in the scatter plot
SCATTER_REQUESTS = 4000
MIN_SCATTER_STAGES = 28  # smallest number of stages of the DAG in the scatter plot
MAX_BUDGET = 0.2  # largest budget of an allocation
PATH_POINTS = 40  # steps of SumVar's path that are judged
NEAR_SUM = 0.1  # relative difference of two sums of variances that count as equal


class Scatter(NamedTuple):
    """Allocations of one DAG: the sum of the stages' variances against p99.

    Attributes:
        risks_ms2: sum of variances of each random allocation, ms².
        p99s_ms: p99 of each random allocation, milliseconds.
        path_risks_ms2: sum of variances at steps of SumVar's path, from no budget to the whole, ms².
        path_p99s_ms: p99 at the same steps, milliseconds.
    """

    risks_ms2: list[float]
    p99s_ms: list[float]
    path_risks_ms2: list[float]
    path_p99s_ms: list[float]


def scatter(seed: int) -> Scatter:
    """Random allocations and SumVar's path on a DAG of about 28 stages."""
    rng = np.random.default_rng([seed, MIN_SCATTER_STAGES])
    stages = next(dag for dag in population(POPULATIONS["C"], rng) if len(dag) >= MIN_SCATTER_STAGES)
    trial = DagTrial.of(stages, SCATTER_REQUESTS, rng)
    budgets = rng.uniform(0, MAX_BUDGET, size=SCATTER_ALLOCATIONS)
    tried = [random_allocation(trial, float(budget), rng) for budget in budgets]
    path = _path(trial, sumvar(trial.curves, trial.costs, MAX_BUDGET))

    def risk(allocation: Allocation) -> float:
        return sum(curve.hull_at(allocation.fractions[name]) for name, curve in trial.curves.items())

    return Scatter(
        [risk(each) for each in tried],
        [p99_of(trial, each) for each in tried],
        [risk(each) for each in path],
        [p99_of(trial, each) for each in path],
    )


def _path(trial: DagTrial, whole: Allocation) -> list[Allocation]:
    """Allocations along the steps of SumVar, the first without budget and the last the whole."""
    fractions = dict.fromkeys(trial.curves, 0.0)
    steps = [Allocation(dict(fractions), 0.0, {}, {})]
    for name, fraction, spent in whole.path:
        fractions[name] = fraction
        steps.append(Allocation(dict(fractions), spent, {}, {}))
    shown = np.unique(np.linspace(0, len(steps) - 1, PATH_POINTS).round().astype(int))
    return [steps[place] for place in shown]


def conclude_scatter(results: list[Scatter]) -> Findings:
    """Rows and plot of p99 against the sum of variances."""
    found = results[0]
    order = round(float(spearmanr(found.risks_ms2, found.p99s_ms).statistic), 3)
    below = percent(float(np.mean(np.array(found.p99s_ms) < found.path_p99s_ms[-1])))
    note = f"{SCATTER_ALLOCATIONS} random allocations of budgets up to {MAX_BUDGET:.0%}"
    cloud = PlotSeries("random", found.risks_ms2, found.p99s_ms, points=True)
    path = PlotSeries("SumVar's path", found.path_risks_ms2, found.path_p99s_ms)
    rank = "rank correlation of the sum of variances and p99"
    along = round(float(spearmanr(found.path_risks_ms2, found.path_p99s_ms).statistic), 3)
    return Findings(
        (
            row("Figure 5.3", rank, order, source="p99 falls with the sum", note=note),
            row("Figure 5.3", f"{rank}, along SumVar's path", along, source="p99 falls with the sum"),
            row(
                "Figure 5.3",
                "allocations with a p99 below that at the end of SumVar's path, %",
                below,
                source="SumVar ends below the cloud",
                note=note,
            ),
            row(
                "Figure 5.3",
                "random allocations within 10% of a sum of the path whose p99 is not below the path's, %",
                percent(_above_path(found)),
                source="the path runs along the cloud, and ends below",
                note=note,
            ),
        ),
        (Plot("Figure 5.3", "p99 against the sum of variances", "sum, ms²", "p99, ms", (cloud, path)),),
    )


def _above_path(found: Scatter) -> float:
    """Share of the random allocations, near some step of the path, whose p99 is not below that step's."""
    risks, path = np.array(found.risks_ms2), np.array(found.path_risks_ms2)
    nearest = np.abs(np.log(risks)[:, None] - np.log(path)).argmin(axis=1)
    near = np.abs(risks / path[nearest] - 1) <= NEAR_SUM
    if not near.any():
        return 0.0
    return float(np.mean((np.array(found.p99s_ms) >= np.array(found.path_p99s_ms)[nearest])[near]))


def scatter_part(seed: int) -> Part:
    """Figure 5.3."""
    return Part("scatter", ((scatter, (seed,)),), conclude_scatter, ("Figure 5.3",))
