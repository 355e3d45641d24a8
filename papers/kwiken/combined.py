"""Reissues and partial answers together on one large DAG: Figure 5.8."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import spearmanr

from kwiken.base.arrays import Floats
from kwiken.tail.apportion.sum_of_variances import sumvar
from kwiken.tail.curves.curve import lower_hull, reissue_curve
from kwiken.tail.partial.loss_budget import sequential_costs
from kwiken.tail.partial.responders import Responders
from kwiken.tail.partial.stop_rules import apply_rule
from kwiken.tail.partial.tuning import Tuned, tune_stop_rule
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
from papers.kwiken.partial_answers.simple_rules import tune_wait_for_fraction
from papers.kwiken.trial.dag_trial import DagTrial, Sample
from papers.worlds.populations.services import POPULATIONS, StageDistribution, fan_out_queries, population

REQUESTS = 6000
TUNED_ON = 1500  # queries that the stop rules are tuned on
RESPONDERS = 400  # responders of a fan-out
FAN_OUTS = 3
VARIANCE_SHARE = 0.15  # share of each fan-out in the DAG's whole variance
COST_SHARE = 0.32  # share of each fan-out in the DAG's whole cost
LOSS = 0.001  # utility that may be lost, a share
LOSSES = (0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01)
REISSUES = (0.01, 0.03, 0.1, 1.0)  # reissue budgets, as shares of all work
LOSS_AT = (0.01, 0.03, 0.1)  # reissue budgets at which the loss is swept
NEARLY_ALL = 0.98  # share of the cut at the largest loss from which more loss counts as of no use
SHOWN_STAGES = 10  # stages that panel (c) shows
MIN_BUDGET_SHARE = 0.001  # share of the budget from which a stage counts as one that gets budget
PANEL_C = ("variance", "budget")


Tune = Callable[..., Tuned]


@dataclass(frozen=True)
class FanOutVariance:
    """Variance of a fan-out by its loss, as `sumvar` takes it; (k,) each, ms² for the hull."""

    fraction: Floats
    hull: Floats


def _loss_curve(responders: Responders, tune: Tune) -> FanOutVariance:
    sample = responders.first(TUNED_ON)
    rules = [tune(sample, loss=loss) for loss in LOSSES]
    variance = np.array([float(sample.last_ms.var()), *(rule.variance for rule in rules)])
    fraction = np.array([0.0, *LOSSES])
    return FanOutVariance(fraction, lower_hull(fraction, variance)[0])


@dataclass(frozen=True)
class FanOutDag:
    """DAG with three fan-outs, with their responders in both periods."""

    trial: DagTrial
    train: dict[str, Responders]
    test: dict[str, Responders]


def _fan_out_dag(rng: np.random.Generator) -> FanOutDag:
    """Largest DAG of population C, with fan-outs in place of three stages of its longest chain."""
    stages = population(POPULATIONS["C"], rng)[-1]
    plain = DagTrial.of(stages, REQUESTS, rng)
    names = _fan_out_names(stages, plain.train)
    rest = sum(float(v.var()) for name, v in plain.train.items() if name not in names)
    target = rest * VARIANCE_SHARE / (1 - FAN_OUTS * VARIANCE_SHARE)
    queries = {
        name: [fan_out_queries(REQUESTS, rng, responders=RESPONDERS) for _ in range(3)] for name in names
    }
    samples: list[Sample] = [dict(plain.train), dict(plain.test), dict(plain.copies)]
    train, test = {}, {}
    for name in names:
        scale = math.sqrt(target / float(queries[name][0].max(axis=1).var()))
        for sample, matrix in zip(samples, queries[name], strict=True):
            sample[name] = scale * matrix.max(axis=1)
        train[name], test[name] = (Responders.of(scale * queries[name][i]) for i in (0, 1))
    costs = {name: cost for name, cost in plain.costs.items() if name not in names}
    left = (1 - FAN_OUTS * COST_SHARE) / math.fsum(costs.values())
    shares = {s.name: COST_SHARE if s.name in names else left * costs[s.name] for s in stages}
    trial = replace(plain, train=samples[0], test=samples[1], copies=samples[2], costs=shares)
    return FanOutDag(trial, train, test)


def _fan_out_names(stages: tuple[StageDistribution, ...], latency: Sample) -> list[str]:
    """Three stages of the mean request's longest chain, spread evenly over it."""
    means = {name: float(values.mean()) for name, values in latency.items()}
    ends: dict[str, float] = {}
    last: dict[str, str | None] = {}
    for stage in stages:
        last[stage.name] = max(stage.after, key=ends.__getitem__, default=None)
        parent = last[stage.name]
        ends[stage.name] = means[stage.name] + (ends[parent] if parent is not None else 0.0)
    chain = [max(ends, key=ends.__getitem__)]
    while (parent := last[chain[0]]) is not None:
        chain.insert(0, parent)
    return [chain[round(place)] for place in np.linspace(0, len(chain) - 1, FAN_OUTS + 2)[1:-1]]


def _shorten(dag: FanOutDag, curves: Mapping[str, FanOutVariance], tune: Tune, loss: float) -> FanOutDag:
    """Fix the stop rules for the loss budget; the fan-outs' latencies become the shortened ones."""
    given = sumvar(curves, sequential_costs(dict.fromkeys(curves, 1.0)), loss).fractions
    train, test, copies = dict(dag.trial.train), dict(dag.trial.test), dict(dag.trial.copies)
    for name, share in given.items():
        rule = tune(dag.train[name].first(TUNED_ON), loss=share).rule
        train[name], _ = apply_rule(rule, dag.train[name])
        test[name], _ = apply_rule(rule, dag.test[name])
        # latency of another query stands for a copy of the whole stage
        copies[name] = np.roll(test[name], 997)
    return replace(dag, trial=replace(dag.trial, train=train, test=test, copies=copies))


def _with_curves(dag: FanOutDag) -> DagTrial:
    """The trial with curves of the fan-outs' present latencies; the other stages keep theirs."""
    trial = dag.trial
    fan_outs = {name: reissue_curve(trial.train[name], policies=("single",)) for name in dag.train}
    return replace(trial, curves={**trial.curves, **fan_outs})


def _reissued(trial: DagTrial, budget: float) -> float:
    """p99 of the judged requests at a reissue budget."""
    if budget == 0:
        return float(np.percentile(trial.latency_ms(), 99))
    return float(np.percentile(trial.simulate(sumvar(trial.curves, trial.costs, budget))[0], 99))


def combined(seed: int) -> dict[str, list[float]]:
    """p99 cuts: reissues only, loss only, both, both with the simple rule; and loss swept at 3% reissues.

    Also shares of variance and of a 3% reissue budget of the ten stages that vary most, for panel (c).
    """
    dag = _fan_out_dag(np.random.default_rng([seed, 58]))
    alone = _with_curves(dag)
    base = _reissued(alone, 0.0)
    curves = {name: _loss_curve(responders, tune_stop_rule) for name, responders in dag.train.items()}
    plain = {name: _loss_curve(responders, tune_wait_for_fraction) for name, responders in dag.train.items()}
    by_loss = {loss: _with_curves(_shorten(dag, curves, tune_stop_rule, loss)) for loss in LOSSES[1:]}
    simple = _with_curves(_shorten(dag, plain, tune_wait_for_fraction, LOSS))

    def cuts(shortened: DagTrial, budgets: tuple[float, ...]) -> list[float]:
        return [gain(base, _reissued(shortened, budget)) for budget in budgets]

    return {
        "reissues only": cuts(alone, REISSUES),
        "loss only": [gain(base, _reissued(by_loss[loss], 0.0)) for loss in (LOSS, 0.01)],
        "both": cuts(by_loss[LOSS], REISSUES),
        "simple": cuts(simple, REISSUES),
        **{
            f"by loss at {budget:.0%}": [gain(base, _reissued(one, budget)) for one in by_loss.values()]
            for budget in LOSS_AT
        },
        **_panel_c(by_loss[LOSS]),
    }


def _panel_c(trial: DagTrial) -> dict[str, list[float]]:
    """Shares of the variance and of a 3% budget of the stages with most variance, in descending order."""
    fractions = sumvar(trial.curves, trial.costs, 0.03).fractions
    variance = {name: float(curve.variance[0]) for name, curve in trial.curves.items()}
    total = sum(variance.values())
    most = sorted(variance, key=lambda name: -variance[name])[:SHOWN_STAGES]
    return {
        "variance": [variance[name] / total for name in most],
        "budget": [trial.costs[name] * fractions[name] / 0.03 for name in most],
    }


def conclude_combined(results: list[dict[str, list[float]]]) -> Findings:
    """Rows and panels of Figure 5.8."""
    found = {key: np.mean([result[key] for result in results], axis=0).tolist() for key in results[0]}
    note = (
        f"mean of {len(results)} synthetic DAGs of 150 stages, {VARIANCE_SHARE:.0%} of the variance a fan-out"
    )
    rows = []
    for key, label in VARIANTS.items():
        for budget, cut in zip(REISSUES, found[key], strict=True):
            source = SOURCE.get((key, budget), "")
            metric = f"p99 cut, {label} {budget:.0%} reissues, %"
            # The source's closing claim stands in its summary.
            figure = "Section 5.7" if (key, budget) == CLOSING else "Figure 5.8b"
            rows.append(row(figure, metric, percent(cut), source=source, note=note))
    for loss, cut in zip(("0.1%", "1%"), found["loss only"], strict=True):
        rows.append(row("Figure 5.8b", f"p99 cut, {loss} loss, no reissues, %", percent(cut), note=note))
    return Findings((*rows, *_relation_rows(results), *_panel_c_rows(results)), _panels(found))


def _relation_rows(results: list[dict[str, list[float]]]) -> tuple[FigureRow, ...]:
    """Rows of the relations between the levers: what one adds to the other, and their orders by DAG."""

    def mean(key: str, place: int) -> float:
        return float(np.mean([result[key][place] for result in results]))

    one, three, ten = (REISSUES.index(budget) for budget in LOSS_AT)
    tenth, most = LOSSES[1:].index(LOSS), -1
    note = f"mean of {len(results)} DAGs"
    lines = (
        ("0.1% loss and 3% reissues less 0.1% loss", mean("both", three) - mean("loss only", 0), "about 20"),
        (
            "1% loss less 0.1% loss, both with 3% reissues",
            mean("by loss at 3%", most) - mean("by loss at 3%", tenth),
            "little",
        ),
        (
            "0.1% loss and 1% reissues less 10% reissues",
            mean("both", one) - mean("reissues only", ten),
            "> 0",
        ),
        ("0.1% loss and 1% reissues less 1% loss", mean("both", one) - mean("loss only", 1), "> 0"),
    )
    rows = [
        row("Figure 5.8b", f"p99 cut, {words}, points", percent(ours), source=source, note=note)
        for words, ours, source in lines
    ]
    for budget in LOSS_AT:
        useful = float(np.mean([_useful_loss(result[f"by loss at {budget:.0%}"]) for result in results]))
        metric = f"least loss that gives 98% of the cut at 1% loss, with {budget:.0%} reissues, %"
        source = "grows with the reissues"
        rows.append(row("Figure 5.8b", metric, round(100 * useful, 3), source=source, note=note))
    both = [
        result["both"][three] > max(result["reissues only"][three], result["loss only"][0])
        for result in results
    ]
    simple = [result["both"][three] > result["simple"][three] for result in results]
    words = "0.1% loss and 3% reissues > either alone, p99 cut"
    rows.append(order_row("Figure 5.8b", words, both, "both > either", "DAGs in place of seeds"))
    words = "Kwiken for both > its reissues with wait-for-fraction, p99 cut"
    rows.append(order_row("Figure 5.8b", words, simple, "Kwiken ahead", "DAGs in place of seeds"))
    return tuple(rows)


def _useful_loss(cuts: list[float]) -> float:
    """Least loss, a share, with nearly the cut of the largest loss."""
    return next(loss for loss, cut in zip(LOSSES[1:], cuts, strict=True) if cut >= NEARLY_ALL * cuts[-1])


def _panel_c_rows(results: list[dict[str, list[float]]]) -> tuple[FigureRow, ...]:
    given = float(np.mean([np.mean(np.array(result["budget"]) > MIN_BUDGET_SHARE) for result in results]))
    condition = "of the ten stages that vary most, at 0.1% loss and 3% reissues"
    order = [float(spearmanr(result["variance"], result["budget"]).statistic) for result in results]
    return (
        row("Figure 5.8c", f"share that get budget, {condition}, %", percent(given), source="many of them"),
        row(
            "Figure 5.8c",
            f"rank correlation of variance and budget, {condition}",
            round(float(np.mean(order)), 3),
            source="not in proportion to variance",
        ),
    )


VARIANTS = {
    "reissues only": "no loss,",
    "both": "0.1% loss and",
    "simple": "0.1% loss by wait-for-fraction and",
}
CLOSING = ("both", 0.03)
SOURCE = {
    ("both", 0.01): "above 10% reissues alone and above 1% loss alone",
    CLOSING: "above 75",
    ("simple", 0.03): "below Kwiken for both",
}


def _panels(found: dict[str, list[float]]) -> tuple[Plot, ...]:
    budgets = [100 * budget for budget in REISSUES]
    left = tuple(PlotSeries(key, budgets, [percent(cut) for cut in found[key]]) for key in VARIANTS)
    losses = [100 * loss for loss in LOSSES[1:]]
    right = PlotSeries("3% reissues", losses, [percent(cut) for cut in found["by loss at 3%"]])
    ranks = list(range(1, SHOWN_STAGES + 1))
    stages = tuple(PlotSeries(f"share of {key}", ranks, [percent(v) for v in found[key]]) for key in PANEL_C)
    title = "p99 cut by reissue budget at a loss of 0.1%"
    return (
        Plot("Figure 5.8b", title, "reissues, %", "p99 cut, %", left, log_x=True),
        Plot("Figure 5.8b", "p99 cut by loss at 3% reissues", "loss, %", "p99 cut, %", (right,), log_x=True),
        Plot("Figure 5.8c", "the stages that vary most", "rank by variance", "share, %", stages),
    )


def part(seed: int, dags: int) -> Part:
    """Figure 5.8 on several large DAGs."""
    return Part(
        "combined",
        tuple((combined, (seed + i,)) for i in range(dags)),
        conclude_combined,
        ("Figure 5.8b", "Figure 5.8c", "Section 5.7"),
    )
