"""Extensions of the source: copies correlated with their calls, and reissue policies at equal cost."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kwiken.base.arrays import Floats
from kwiken.tail.apportion.sum_of_variances import sumvar
from kwiken.tail.curves.copies import correlated_copies
from papers.figures.rows import FigureRow, Findings, Part, Plot, PlotSeries, gain, percent, row
from papers.kwiken.policies_compared import compare_policies
from papers.kwiken.trial.dag_trial import DagTrial
from papers.worlds.populations.services import POPULATIONS, population, population_profile

REQUESTS = 8_000  # requests of a DAG in each period
BUDGET = 0.05  # reissue budget, as a share of all work
CORRELATIONS = (0.0, 0.1, 0.3, 0.5, 0.7)
PARTS = 3  # jobs among which the DAGs are divided
CALLS = 100_000  # calls of a single stage with a textbook distribution
COSTS = (0.01, 0.05, 0.2)  # extra calls, as a share
STAGE_COSTS = (0.01, 0.05)
STAGE_CALLS, STAGES = 4_000, 4  # calls of a stage, and number of stages of a DAG
DAGS = range(0, 45, 5)  # DAGs of population C of which the first varying stages are taken
MIN_VARIANCE_FALL = 0.02  # relative fall of the variance for which a second copy is worth its cost


def correlated(seed: int, part_index: int) -> list[dict[float, float]]:
    """By DAG of a part, and by correlation of copies: p99 cut at 5%, planned as if independent."""
    found = []
    for place, dag in enumerate(population(POPULATIONS["C"], np.random.default_rng(seed))):
        if place % PARTS == part_index:
            rng = np.random.default_rng([seed, place])
            found.append(_cuts(DagTrial.of(dag, REQUESTS, rng), rng))
    return found


def _cuts(trial: DagTrial, rng: np.random.Generator) -> dict[float, float]:
    allocation = sumvar(trial.curves, trial.costs, BUDGET)
    p99 = float(np.percentile(trial.latency_ms(), 99))
    scores = {name: rng.standard_normal(len(calls)) for name, calls in trial.test.items()}
    found = {}
    after = {name: trial.time_out(name, fraction) for name, fraction in allocation.fractions.items()}
    for rho in CORRELATIONS:
        copies = {}
        for name, calls in trial.test.items():
            late = calls > after[name]  # only these have a copy
            copies[name] = np.zeros(len(calls))
            copies[name][late] = correlated_copies(
                trial.curves[name].distribution, calls[late], scores[name][late], rho
            )
        latency, _ = replace(trial, copies=copies).simulate(allocation)
        found[rho] = gain(p99, float(np.percentile(latency, 99)))
    return found


def conclude_correlated(results: list[list[dict[float, float]]]) -> Findings:
    """Rows and plot of the gain against the correlation of copies."""
    dags = [dag for part in results for dag in part]
    cuts = [percent(float(np.mean([dag[rho] for dag in dags]))) for rho in CORRELATIONS]
    rows = tuple(
        row(
            "Section 2.1.2",
            f"mean p99 cut at 5%, copies' correlation {rho:g}, %",
            cut,
            source="below 0.1 for 90% of the stages" if rho == 0.1 else "",  # noqa: PLR2004
            note="Gaussian copula; planned as if independent; population C, one seed",
        )
        for rho, cut in zip(CORRELATIONS, cuts, strict=True)
    )
    line = PlotSeries("SumVar", CORRELATIONS, cuts)
    title = "gain against the correlation of copies"
    return Findings(rows, (Plot("Section 2.1.2", title, "correlation", "mean p99 cut, %", (line,)),))


def policies(distribution: str, seed: int) -> dict[str, list[float]]:
    """By policy: variance left with one distribution at each cost."""
    found = compare_policies(_calls(distribution, np.random.default_rng([seed, 71])), COSTS)
    return {name: values.tolist() for name, values in found.items()}


DISTRIBUTIONS = ("log-normal, sigma 1", "2% of calls 20 times as slow", "exponential")


def _calls(distribution: str, rng: np.random.Generator) -> Floats:
    if distribution == DISTRIBUTIONS[0]:
        return rng.lognormal(0, 1, CALLS)
    if distribution == DISTRIBUTIONS[1]:
        return rng.lognormal(0, 0.3, CALLS) * np.where(rng.random(CALLS) < 0.02, 20.0, 1.0)  # noqa: PLR2004
    return rng.exponential(1, CALLS)


def conclude_policies(results: list[dict[str, list[float]]]) -> Findings:
    """Rows for every policy at every cost."""
    rows: list[FigureRow] = []
    for distribution, result in zip(DISTRIBUTIONS, results, strict=True):
        for place, cost in enumerate(COSTS):
            for name, values in result.items():
                metric = f"variance left at {cost:.0%}, {name}, {distribution}"
                rows.append(row("Section 5.3.1", metric, round(values[place], 3)))
    return Findings(tuple(rows))


def two_copies(place: int, seed: int) -> list[dict[str, list[float]]]:
    """By stage of one DAG of population C: variance left by every policy at each cost."""
    dag = population(POPULATIONS["C"], np.random.default_rng(seed))[place]
    profile = population_profile(dag, STAGE_CALLS, np.random.default_rng([seed, place]))
    varying = [stage for stage in profile.stages if stage.reissuable and stage.latency_ms.std() > 0]
    found = [compare_policies(stage.calls_ms, STAGE_COSTS) for stage in varying[:STAGES]]
    return [{name: values.tolist() for name, values in each.items()} for each in found]


def conclude_two_copies(results: list[list[dict[str, list[float]]]]) -> Findings:
    """Rows with the number of stages at which a second copy is worth its cost."""
    stages = [stage for dag in results for stage in dag]
    rows = []
    for place, cost in enumerate(STAGE_COSTS):
        one = np.array([stage["single_r"][place] for stage in stages])
        two = np.array([min(stage["double"][place], stage["double_r"][place]) for stage in stages])
        metric = (
            f"stages at which two copies leave 2% less variance than one, at {cost:.0%}, of {len(stages)}"
        )
        least = np.min(two / one)
        note = f"population C; the better of double and DoubleR over SingleR: least ratio {least:.3f}"
        rows.append(row("Section 5.3.1", metric, int((two < (1 - MIN_VARIANCE_FALL) * one).sum()), note=note))
    return Findings(tuple(rows))


def parts(seed: int) -> tuple[Part, ...]:
    """Correlated copies over population C, and policies of one and two copies."""
    return (
        Part(
            "correlated copies",
            tuple((correlated, (seed, i)) for i in range(PARTS)),
            conclude_correlated,
            ("Section 2.1.2",),
        ),
        Part(
            "policies",
            tuple((policies, (distribution, seed)) for distribution in DISTRIBUTIONS),
            conclude_policies,
            ("Section 5.3.1",),
        ),
        Part(
            "two copies",
            tuple((two_copies, (place, seed)) for place in DAGS),
            conclude_two_copies,
            ("Section 5.3.1",),
        ),
    )
