"""Reproduction of reissues over 45 DAGs: Figures 5.5, 5.7b and 5.9, and allocations for comparison."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from kwiken.base.arrays import Floats
from kwiken.model.latency import critical_path
from kwiken.tail.apportion.sum_of_variances import Allocation, equal_budget, sumvar, uniform_fraction
from papers.figures.rows import (
    FigureRow,
    Findings,
    Part,
    Plot,
    PlotSeries,
    gain,
    order_row,
    percent,
    row,
)
from papers.kwiken.late_requests.global_reissue import (
    run_global_reissue,
    tune_global_reissue,
)
from papers.kwiken.shape import (
    SYNTHETIC,
    Shape,
    curve_plot,
    shape_of,
    shape_rows,
)
from papers.kwiken.trial.dag_trial import DagTrial
from papers.worlds.populations.services import POPULATIONS, population

REQUESTS = 20_000
BUDGETS = (0.01, 0.03, 0.05, 0.1, 1.0)
PERCENTILES = (50, 75, 90, 95, 99)
LATE_SHARES = (1 / 30, 1 / 6)  # shares of the budget kept for late requests
PRODUCTION_COST = 0.002  # cost of the source's time-outs in production, a share
LATE_SEEDS = 3  # seeds with help for late requests, which takes as long as all the rest
SHOWN_DAG = 22  # index of the DAG whose curves are drawn: the median one


@dataclass
class DagResult:
    """Results of one DAG: shape, and p99 cuts by budget, percentile, allocation or late share."""

    shape: Shape
    sumvar: dict[float, float]
    at_3: list[float]
    at_5: list[float]
    even_spreads: dict[str, dict[float, float]]
    production: float
    train_5: float
    spent_5: float
    weighted: dict[str, float] = field(default_factory=dict)
    late: dict[float, float] = field(default_factory=dict)


def run_seed(name: str, seed: int, *, extended: bool = False) -> list[DagResult]:
    """Results of all DAGs of one population drawn with one seed.

    Args:
        seed: seed of the population and its requests.
        extended: whether to try weights and help for late requests too, which takes as long as all the rest.
    """
    rng = np.random.default_rng(seed)
    return [
        _dag(DagTrial.of(dag, REQUESTS, rng), extended=extended) for dag in population(POPULATIONS[name], rng)
    ]


def run_seed_extended(name: str, seed: int) -> list[DagResult]:
    """Results with weights and help for late requests; see `run_seed`."""
    return run_seed(name, seed, extended=True)


EVEN_SPREADS: dict[str, Callable[..., Allocation]] = {
    "same fraction at every stage": uniform_fraction,
    "same budget for every stage": equal_budget,
}


def _dag(trial: DagTrial, *, extended: bool) -> DagResult:
    base = trial.latency_ms()
    p99 = float(np.percentile(base, 99))
    outcomes = {budget: trial.simulate(sumvar(trial.curves, trial.costs, budget)) for budget in BUDGETS}
    on_train, _ = trial.simulate(sumvar(trial.curves, trial.costs, 0.05), on_train=True)

    def cut(allocation: Allocation) -> float:
        return _cut(p99, trial.simulate(allocation)[0])

    return DagResult(
        shape=shape_of(trial, base),
        sumvar={budget: _cut(p99, latency) for budget, (latency, _) in outcomes.items()},
        at_3=_cuts(base, outcomes[0.03][0]),
        at_5=_cuts(base, outcomes[0.05][0]),
        even_spreads={
            label: {b: cut(rule(trial.curves, trial.costs, b)) for b in (0.01, 0.05)}
            for label, rule in EVEN_SPREADS.items()
        },
        production=cut(uniform_fraction(trial.curves, trial.costs, PRODUCTION_COST)),
        train_5=_cut(float(np.percentile(trial.latency_ms(on_train=True), 99)), on_train),
        spent_5=outcomes[0.05][1],
        weighted={
            label: cut(sumvar(trial.curves, trial.costs, 0.05, weights=weights))
            for label, weights in _weights(trial).items()
        }
        if extended
        else {},
        late=_late(trial, outcomes[0.03][0]) if extended else {},
    )


def _cuts(base: Floats, latency: Floats) -> list[float]:
    pairs = zip(np.percentile(base, PERCENTILES), np.percentile(latency, PERCENTILES), strict=True)
    return [gain(float(b), float(a)) for b, a in pairs]


def _weights(trial: DagTrial) -> dict[str, dict[str, float]]:
    """Weights of stages that the source tried without gain."""
    on_path = critical_path(trial.stages, trial.train).mean(axis=1).tolist()
    return {
        "mean latency": {name: float(values.mean()) for name, values in trial.train.items()},
        "share of critical paths": {
            stage.name: max(share, 1e-6) for stage, share in zip(trial.stages, on_path, strict=True)
        },
        "number of paths": _paths(trial),
    }


def _paths(trial: DagTrial) -> dict[str, float]:
    """Number of paths from a source to a sink through each stage."""
    paths_in: dict[str, float] = {}
    for stage in trial.stages:
        paths_in[stage.name] = sum(paths_in[parent] for parent in stage.after) or 1.0
    paths_out: dict[str, float] = dict.fromkeys(paths_in, 0.0)
    for stage in reversed(trial.stages):
        paths_out[stage.name] = paths_out[stage.name] or 1.0  # a sink
        for parent in stage.after:
            paths_out[parent] += paths_out[stage.name]
    return {name: paths_in[name] * paths_out[name] for name in paths_in}


def _cut(p99: float, latency_ms: Floats) -> float:
    return gain(p99, float(np.percentile(latency_ms, 99)))


def _late(trial: DagTrial, all_local: Floats) -> dict[float, float]:
    """Gain at p99 of keeping a share of a 3% budget for late requests, relative to local time-outs only."""
    p99 = float(np.percentile(all_local, 99))
    train_copies = {name: np.roll(values, 7919) for name, values in trial.train.items()}
    gains = {}
    for share in LATE_SHARES:
        policy = tune_global_reissue(
            trial.stages,
            trial.curves,
            trial.costs,
            (trial.train, train_copies),
            time_out=trial.time_out,
            budget=0.03,
            share=share,
        )
        outcome = run_global_reissue(trial.stages, trial.test, trial.copies, policy, trial.costs)
        gains[share] = _cut(p99, outcome.latency_ms)
    return gains


def conclude(seeds: list[list[DagResult]]) -> Findings:
    """Rows and plots from population C over several seeds."""
    dags = [dag for seed in seeds for dag in seed]
    shapes = [dag.shape for dag in dags]
    return Findings(
        rows=(
            *shape_rows(shapes),
            *_gain_rows(seeds),
            *_even_spread_rows(dags),
            *_weight_rows(dags),
            *_late_rows(seeds),
            *_split_rows(dags),
            *_order_rows(seeds),
        ),
        plots=(_budget_plot(dags), _percentile_plot(dags), _split_plot(dags)),
    )


def _mean(values: list[float]) -> float:
    return percent(float(np.mean(values)))


def _gain_rows(seeds: list[list[DagResult]]) -> tuple[FigureRow, ...]:
    dags = [dag for seed in seeds for dag in seed]
    by_seed = {b: [float(np.mean([dag.sumvar[b] for dag in seed])) for seed in seeds] for b in BUDGETS}
    source = {0.05: "29", 1.0: "50 to 60 (5% is about half)"}
    rows = []
    for budget, cuts in by_seed.items():
        note = f"sd over {len(seeds)} seeds {percent(float(np.std(cuts)))}; {SYNTHETIC}"
        metric = f"mean p99 cut at a budget of {budget:.0%}, %"
        ours = percent(float(np.mean(cuts)))
        rows.append(row("Figure 5.5a", metric, ours, source=source.get(budget, ""), note=note))
    ratio = float(np.mean(by_seed[0.05])) / float(np.mean(by_seed[1.0]))
    metric = "gain at 5% as a share of the gain at 100%"
    rows.append(row("Figure 5.5a", metric, round(ratio, 3), source="about 0.5"))
    for level, share, text in ((90, "the best tenth", "55"), (25, "three quarters", "10")):
        cut = percent(float(np.percentile([dag.sumvar[0.05] for dag in dags], level)))
        metric = f"p99 cut at 5% that {share} of the DAGs reach, %"
        rows.append(row("Figure 5.5a", metric, cut, source=text, note=SYNTHETIC))
    for place, percentile in enumerate(PERCENTILES):
        metric = f"mean cut of p{percentile} at 5%, %"
        cut = _mean([dag.at_5[place] for dag in dags])
        rows.append(row("Figure 5.5b", metric, cut, source="higher percentiles gain more"))
    median = _mean([dag.at_3[0] for dag in dags])
    rows.append(row("Figure 5.5b", "mean cut of p50 at 3%, %", median, source="some gain from 3% on"))
    return tuple(rows)


def _even_spread_rows(dags: list[DagResult]) -> tuple[FigureRow, ...]:
    rows = []
    for budget in (0.01, 0.05):
        for label, values in (
            ("SumVar", [dag.sumvar[budget] for dag in dags]),
            *((label, [dag.even_spreads[label][budget] for dag in dags]) for label in EVEN_SPREADS),
        ):
            rows.append(row("Section 5.4.2", f"mean p99 cut at {budget:.0%}, {label}, %", _mean(values)))
    note = f"the same fraction at every stage, at a cost of {PRODUCTION_COST:.1%}"
    cut = _mean([dag.production for dag in dags])
    rows.append(
        row("Section 5.4.2", "mean p99 cut by time-outs as in production, %", cut, source="3", note=note)
    )
    return tuple(rows)


def _order_rows(seeds: list[list[DagResult]]) -> tuple[FigureRow, ...]:
    """Rows of the orders of allocations and of percentiles, each by the means over a seed's DAGs."""
    fraction, equal = EVEN_SPREADS
    rows = []
    for budget in (0.01, 0.05):
        means = [
            (
                float(np.mean([dag.sumvar[budget] for dag in seed])),
                float(np.mean([dag.even_spreads[fraction][budget] for dag in seed])),
                float(np.mean([dag.even_spreads[equal][budget] for dag in seed])),
            )
            for seed in seeds
        ]
        words = f"SumVar > same fraction > same budget, mean p99 cut at {budget:.0%}"
        rows.append(order_row("Section 5.4.2", words, [a > b > c for a, b, c in means], "in this order"))
    by_percentile = [np.mean([dag.at_5 for dag in seed], axis=0) for seed in seeds]
    words = "p50 < p75 < p90 < p95 < p99, mean cut at 5%"
    rows.append(
        order_row(
            "Figure 5.5b", words, [bool((np.diff(cuts) > 0).all()) for cuts in by_percentile], "in this order"
        )
    )
    return tuple(rows)


def _weight_rows(dags: list[DagResult]) -> tuple[FigureRow, ...]:
    tried = [dag for dag in dags if dag.weighted]
    rows = []
    for label in tried[0].weighted if tried else ():
        more = _mean([dag.weighted[label] - dag.sumvar[0.05] for dag in tried])
        metric = f"mean p99 cut at 5%, variances weighted by {label}, less unweighted, points"
        rows.append(row("Section 5.2", metric, more, source="no significant gain"))
    return tuple(rows)


def _late_rows(seeds: list[list[DagResult]]) -> tuple[FigureRow, ...]:
    tried = [[dag.late for dag in seed] for seed in seeds if seed[0].late]
    rows = []
    for share in LATE_SHARES:
        label = f"{share:.3f} of a 3% budget kept for late requests"
        gains = [dag[share] for seed in tried for dag in seed]
        note = f"{len(tried)} seeds; {SYNTHETIC}"
        metric = f"mean further p99 cut, {label}, %"
        rows.append(row("Figure 5.7b", metric, _mean(gains), source="about 3", note=note))
        won = [sum(dag[share] > 0 for dag in seed) for seed in tried]
        metric = f"DAGs of {len(tried[0])} that gain, {label}"
        note = f"mean over seeds: {', '.join(str(number) for number in won)}"
        rows.append(row("Figure 5.7b", metric, round(float(np.mean(won)), 1), source="37 of 45", note=note))
    return tuple(rows)


def _split_rows(dags: list[DagResult]) -> tuple[FigureRow, ...]:
    difference = percent(float(np.median(np.abs([dag.train_5 - dag.sumvar[0.05] for dag in dags]))))
    spent = [percent(dag.spent_5) for dag in dags]
    note = f"from {min(spent)} to {max(spent)}; independent draws have no drift"
    median = round(float(np.median(spent)), 2)
    metric = "train against test p99 cut at 5%, median difference, points"
    return (
        row("Figure 5.9", metric, difference, source="a few"),
        row("Figure 5.9", "spent on test of 5%, median, %", median, source="slightly above 5", note=note),
    )


def _budget_plot(dags: list[DagResult]) -> Plot:
    def line(label: str, level: float) -> PlotSeries:
        cuts = [float(np.percentile([dag.sumvar[b] for dag in dags], level)) for b in BUDGETS]
        return PlotSeries(label, [100 * b for b in BUDGETS], [percent(cut) for cut in cuts])

    lines = (line("best tenth", 90), line("median", 50), line("worst quarter", 25))
    return Plot("Figure 5.5a", "p99 cut by budget", "budget, %", "p99 cut, %", lines, log_x=True)


def _percentile_plot(dags: list[DagResult]) -> Plot:
    means = [_mean([dag.at_5[i] for dag in dags]) for i in range(len(PERCENTILES))]
    line = PlotSeries("SumVar", PERCENTILES, means)
    return Plot("Figure 5.5b", "cut by percentile at 5%", "percentile", "mean cut, %", (line,))


def _split_plot(dags: list[DagResult]) -> Plot:
    train = [percent(dag.train_5) for dag in dags]
    test = [percent(dag.sumvar[0.05]) for dag in dags]
    cloud = PlotSeries("DAGs", train, test, points=True)
    title = "train against test at 5%"
    return Plot("Figure 5.9", title, "p99 cut on train, %", "p99 cut on test, %", (cloud,))


FIGURES: Final = (
    "Figure 2.5",
    *(f"Figure 5.{one}" for one in ("5a", "5b", "7b", "9")),
    "Equation 5.2",
    "Section 5.2",
    "Section 5.4.2",
)


def part(seeds: int) -> Part:
    """Population C over several seeds; weights and help for late requests on the first few."""
    jobs = ((run_seed_extended if seed < LATE_SEEDS else run_seed, ("C", seed)) for seed in range(seeds))
    return Part("reissues", tuple(jobs), conclude, FIGURES)


def draw_curves(seed: int) -> Plot:
    """Figure 2.5 from the stages of one DAG."""
    rng = np.random.default_rng([seed, 25])
    return curve_plot(DagTrial.of(population(POPULATIONS["C"], rng)[SHOWN_DAG], REQUESTS, rng))


def curves_part(seed: int) -> Part:
    """Figure 2.5."""
    return Part(
        "curves", ((draw_curves, (seed,)),), lambda plots: Findings(plots=tuple(plots)), ("Figure 2.5",)
    )


def run_other(name: str, seed: int) -> dict[float, float]:
    """Mean p99 cut by budget over the DAGs of another population."""
    dags = run_seed(name, seed)
    return {budget: float(np.mean([dag.sumvar[budget] for dag in dags])) for budget in BUDGETS}


def conclude_others(results: list[dict[float, float]]) -> Findings:
    """Rows on the dependence of the result on the population."""
    rows = []
    for name, result in zip(("A", "D"), results, strict=True):
        for budget in (0.05, 1.0):
            metric = f"mean p99 cut at {budget:.0%}, population {name}, %"
            note = "one seed; another neutral reading of the published statistics"
            rows.append(row("Figure 5.5a", metric, percent(result[budget]), note=note))
    return Findings(tuple(rows))


def other_populations() -> Part:
    """Populations A and D, one seed each."""
    return Part(
        "other populations",
        tuple((run_other, (name, 0)) for name in ("A", "D")),
        conclude_others,
        ("Figure 5.5a",),
    )
