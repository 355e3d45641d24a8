"""Reissues over 45 DAGs: Figures 5.5, 5.7b, 5.9 and the shape of the DAGs, Figures 2.1 to 2.4."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from kwiken._diagnosis import characterise
from kwiken._population import POPULATIONS, population
from kwiken._profile import Floats
from kwiken._sumvar import equal_budget, sumvar, uniform_fraction
from kwiken.levers._global_reissue import run_global_reissue, tune_global_reissue
from kwiken.reproduction._rows import Findings, Part, Plot, Row, Series, gain, percent, row
from kwiken.reproduction._trial import Trial

REQUESTS = 20_000
BUDGETS = (0.01, 0.03, 0.05, 0.1, 1.0)
PERCENTILES = (50, 75, 90, 95, 99)
SHARES = (1 / 30, 1 / 6)
HEAVY = 10.0  # p99 over median from which a tail counts as heavy
SYNTHETIC = "synthetic DAGs; the source's are production traces"


@dataclass
class DagResult:
    """What one DAG gave."""

    stages: int
    effective: int
    effective_path: float
    in_degree: float
    tail_ratio: float
    stage_tails: list[float]
    sumvar: dict[float, float]
    at_5: list[float]
    uniform: dict[float, float]
    equal: dict[float, float]
    train_5: float
    spent_5: float
    late: dict[float, float] = field(default_factory=dict)


def run_seed(name: str, seed: int, *, late_too: bool = False) -> list[DagResult]:
    """All DAGs of one population drawn with one seed.

    Args:
        name: of the population.
        seed: of the population and its requests.
        late_too: also try help for late requests, which takes as long as all the rest.
    """
    rng = np.random.default_rng(seed)
    return [
        _dag(Trial.of(dag, REQUESTS, rng), late_too=late_too) for dag in population(POPULATIONS[name], rng)
    ]


def run_seed_with_late(name: str, seed: int) -> list[DagResult]:
    """The same with help for late requests."""
    return run_seed(name, seed, late_too=True)


def _dag(trial: Trial, *, late_too: bool) -> DagResult:
    base = trial.latency_ms()
    shape = characterise(trial.stages, trial.test, base)
    p99 = float(np.percentile(base, 99))
    played = {budget: trial.play(sumvar(trial.curves, trial.costs, budget)) for budget in BUDGETS}
    on_train, _ = trial.play(sumvar(trial.curves, trial.costs, 0.05), on_train=True)
    straw = {
        rule.__name__: {b: _cut(p99, trial.play(rule(trial.curves, trial.costs, b))[0]) for b in (0.01, 0.05)}
        for rule in (uniform_fraction, equal_budget)
    }
    return DagResult(
        stages=len(trial.stages),
        effective=len(shape.effective),
        effective_path=shape.effective_per_path,
        in_degree=float(np.median(list(shape.in_degree.values()))),
        tail_ratio=shape.tail_ratio,
        stage_tails=list(shape.stage_tail_ratio.values()),
        sumvar={budget: _cut(p99, latency) for budget, (latency, _) in played.items()},
        at_5=[
            gain(float(b), float(a))
            for b, a in zip(
                np.percentile(base, PERCENTILES), np.percentile(played[0.05][0], PERCENTILES), strict=True
            )
        ],
        uniform=straw["uniform_fraction"],
        equal=straw["equal_budget"],
        train_5=_cut(float(np.percentile(trial.latency_ms(on_train=True), 99)), on_train),
        spent_5=played[0.05][1],
        late=_late(trial, played[0.03][0]) if late_too else {},
    )


def _cut(p99: float, latency_ms: Floats) -> float:
    return gain(p99, float(np.percentile(latency_ms, 99)))


def _late(trial: Trial, all_local: Floats) -> dict[float, float]:
    """Gain at p99 of keeping a share of a 3% budget for late requests, relative to local time-outs only."""
    p99 = float(np.percentile(all_local, 99))
    train_copies = {name: np.roll(values, 7919) for name, values in trial.train.items()}
    gains = {}
    for share in SHARES:
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
    return Findings(
        rows=(
            *_shape_rows(dags),
            *_gain_rows(seeds),
            *_straw_rows(dags),
            *_late_rows(dags),
            *_split_rows(dags),
        ),
        plots=(_budget_plot(dags), _percentile_plot(dags), _split_plot(dags)),
    )


def _mean(values: list[float]) -> float:
    return percent(float(np.mean(values)))


def _shape_rows(dags: list[DagResult]) -> tuple[Row, ...]:
    stages = [dag.stages for dag in dags]
    effective = [dag.effective for dag in dags]
    path = np.median([dag.effective_path for dag in dags])
    tails = np.concatenate([dag.stage_tails for dag in dags])
    whole = np.array([dag.tail_ratio for dag in dags])
    lines = (
        ("2.2", "stages per DAG, median", "14", np.median(stages)),
        ("2.2", "stages per DAG, p90", "81", np.percentile(stages, 90)),
        ("2.2", "effective stages per DAG, median", "4", np.median(effective)),
        ("2.2", "effective stages per DAG, p90", "18", np.percentile(effective, 90)),
        ("2.2", "effective stages on a critical path, median", "2.2", path),
        ("2.3", "in-degree of effective stages, median", "2", np.median([d.in_degree for d in dags])),
        ("2.4", "stages with p99 over median >= 10, %", "10", 100 * (tails >= HEAVY).mean()),
        ("2.4", "DAGs with p99 over median >= 10, %", "10", 100 * (whole >= HEAVY).mean()),
    )
    return tuple(
        row(f"Figure {figure}", metric, round(float(ours), 2), source=source, note=SYNTHETIC)
        for figure, metric, source, ours in lines
    )


def _gain_rows(seeds: list[list[DagResult]]) -> tuple[Row, ...]:
    dags = [dag for seed in seeds for dag in seed]
    by_seed = {b: [float(np.mean([dag.sumvar[b] for dag in seed])) for seed in seeds] for b in BUDGETS}
    source = {0.05: "29", 1.0: "50 to 60 (5% is about half)"}
    rows = []
    for budget, cuts in by_seed.items():
        note = f"sd over {len(seeds)} seeds {percent(float(np.std(cuts)))}; {SYNTHETIC}"
        metric = f"mean p99 cut at a budget of {budget:.0%}, %"
        ours = percent(float(np.mean(cuts)))
        rows.append(row("Figure 5.5", metric, ours, source=source.get(budget, ""), note=note))
    ratio = float(np.mean(by_seed[0.05])) / float(np.mean(by_seed[1.0]))
    metric = "gain at 5% as a share of the gain at 100%"
    rows.append(row("Figure 5.5", metric, round(ratio, 3), source="about 0.5"))
    for reach, share, text in ((90, "the best tenth", "55"), (25, "three quarters", "10")):
        cut = percent(float(np.percentile([dag.sumvar[0.05] for dag in dags], reach)))
        metric = f"p99 cut at 5% that {share} of the DAGs reach, %"
        rows.append(row("Figure 5.5", metric, cut, source=text, note=SYNTHETIC))
    for place, percentile in enumerate(PERCENTILES):
        metric = f"mean cut of p{percentile} at 5%, %"
        cut = _mean([dag.at_5[place] for dag in dags])
        rows.append(row("Figure 5.5b", metric, cut, source="higher percentiles gain more"))
    return tuple(rows)


def _straw_rows(dags: list[DagResult]) -> tuple[Row, ...]:
    rows = []
    for budget in (0.01, 0.05):
        for label, values in (
            ("SumVar", [dag.sumvar[budget] for dag in dags]),
            ("same fraction at every stage", [dag.uniform[budget] for dag in dags]),
            ("same budget for every stage", [dag.equal[budget] for dag in dags]),
        ):
            rows.append(row("Section 5.6", f"mean p99 cut at {budget:.0%}, {label}, %", _mean(values)))
    return tuple(rows)


def _late_rows(dags: list[DagResult]) -> tuple[Row, ...]:
    rows = []
    for share in SHARES:
        gains = [dag.late[share] for dag in dags if dag.late]
        label = f"{share:.3f} of a 3% budget kept for late requests"
        more, won = _mean(gains), float(np.sum(np.array(gains) > 0))
        metric = f"mean further p99 cut, {label}, %"
        rows.append(row("Figure 5.7b", metric, more, source="about 3", note=SYNTHETIC))
        metric = f"DAGs of {len(gains)} that gain, {label}"
        rows.append(row("Figure 5.7b", metric, won, source="37 of 45", note="one seed"))
    return tuple(rows)


def _split_rows(dags: list[DagResult]) -> tuple[Row, ...]:
    apart = percent(float(np.median(np.abs([dag.train_5 - dag.sumvar[0.05] for dag in dags]))))
    spent = [percent(dag.spent_5) for dag in dags]
    note = f"from {min(spent)} to {max(spent)}; independent draws have no drift"
    median = round(float(np.median(spent)), 2)
    metric = "train against test p99 cut at 5%, median difference, points"
    return (
        row("Figure 5.9", metric, apart, source="a few"),
        row("Figure 5.9", "spent on test of 5%, median, %", median, source="slightly above 5", note=note),
    )


def _budget_plot(dags: list[DagResult]) -> Plot:
    def line(label: str, reach: float) -> Series:
        cuts = [float(np.percentile([dag.sumvar[b] for dag in dags], reach)) for b in BUDGETS]
        return Series(label, [100 * b for b in BUDGETS], [percent(cut) for cut in cuts])

    lines = (line("best tenth", 90), line("median", 50), line("worst quarter", 25))
    return Plot("Figure 5.5a", "p99 cut by budget", "budget, %", "p99 cut, %", lines, log_x=True)


def _percentile_plot(dags: list[DagResult]) -> Plot:
    means = [_mean([dag.at_5[i] for dag in dags]) for i in range(len(PERCENTILES))]
    line = Series("SumVar", PERCENTILES, means)
    return Plot("Figure 5.5b", "cut by percentile at 5%", "percentile", "mean cut, %", (line,))


def _split_plot(dags: list[DagResult]) -> Plot:
    train = [percent(dag.train_5) for dag in dags]
    test = [percent(dag.sumvar[0.05]) for dag in dags]
    cloud = Series("DAGs", train, test, points=True)
    title = "train against test at 5%"
    return Plot("Figure 5.9", title, "p99 cut on train, %", "p99 cut on test, %", (cloud,))


def part(seeds: int) -> Part:
    """Population C over several seeds; help for late requests on the first."""
    jobs = ((run_seed_with_late if seed == 0 else run_seed, ("C", seed)) for seed in range(seeds))
    return Part("reissues", tuple(jobs), conclude)


def run_other(name: str, seed: int) -> dict[float, float]:
    """Mean p99 cut by budget over the DAGs of another population."""
    dags = run_seed(name, seed)
    return {budget: float(np.mean([dag.sumvar[budget] for dag in dags])) for budget in BUDGETS}


def conclude_others(results: list[dict[float, float]]) -> Findings:
    """How far the result hangs on the population."""
    rows = []
    for name, result in zip(("A", "D"), results, strict=True):
        for budget in (0.05, 1.0):
            metric = f"mean p99 cut at {budget:.0%}, population {name}, %"
            note = "one seed; another neutral reading of the published statistics"
            rows.append(row("Figure 5.5", metric, percent(result[budget]), note=note))
    return Findings(tuple(rows))


def other_populations() -> Part:
    """Populations A and D, one seed each."""
    return Part("other populations", tuple((run_other, (name, 0)) for name in ("A", "D")), conclude_others)
