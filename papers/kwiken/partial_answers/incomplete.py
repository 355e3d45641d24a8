"""Reproduction of partial answers: Table 5.2, Figures 5.4 and 5.6."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.special import betaincinv, ndtri

from kwiken.base.arrays import Floats
from kwiken.base.errors import InputError
from kwiken.tail.partial.responders import Responders
from kwiken.tail.partial.stop_rules import StopRule, apply_rule
from kwiken.tail.partial.tuning import tune_stop_rule
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
from papers.kwiken.partial_answers.learned_wait import tune_learned_wait
from papers.kwiken.partial_answers.simple_rules import (
    tune_fixed_timeout,
    tune_time_then_fraction,
    tune_wait_for_fraction,
)
from papers.worlds.populations.services import fan_out_queries

RUNS, QUERIES = 20, 1000  # as few queries as the source's own rows suggest
LOSS = 0.001  # utility that may be lost, a share
PERCENTILES = (50, 75, 90, 95, 99)
LOSSES = (0.0005, 0.001, 0.002, 0.005, 0.01)
SWEPT = (95, 99)  # percentiles that are shown by loss
SEEDS = 3
WIDE_RESPONDERS = 1000  # responders of the fan-out whose p99 section 1.3 names
FEW_RESPONDERS = 300  # responders of a service whose loss budget is less than one of them
SHOWN, STEP = 2000, 20  # queries to choose from, and every k-th responder to draw
Quantile = Callable[[float], float]


def rank_for(n: int, loss: float) -> int:
    """Number of n responders to wait for if a share `loss` may be missing: `ceil(n (1 - loss))`."""
    return math.ceil(round(n * (1.0 - loss), 9))  # rounded, as .999 x 1000 may otherwise give 1000


def order_quantile(share: float, k: int, n: int) -> float:
    """Probability level, in one draw's distribution, of the `share`-quantile of the k-th of n draws.

    The k-th order statistic of uniforms is Beta(k, n - k + 1).

    Raises:
        InputError: unless 0 < share < 1 and 1 <= k <= n.
    """
    if not (0 < share < 1 and 1 <= k <= n):
        raise InputError(f"need 0 < share < 1 and 1 <= k <= n, not share={share}, k={k}, n={n}")
    return float(betaincinv(k, n - k + 1, share))


def wait_for_fraction_gain(quantile: Quantile, n: int, loss: float, share: float) -> float:
    """Relative fall of a quantile of a fan-out's latency when it waits for `1 - loss` of n responders.

    Args:
        quantile: inverse distribution function of one responder's latency.
        n: number of responders, 1 or more.
        loss: share of the responders that may be missing, from 0 to 1.
        share: level of the fan-out's quantile, .99 for p99.
    """
    all_in = quantile(order_quantile(share, n, n))
    enough_in = quantile(order_quantile(share, rank_for(n, loss), n))
    return 1.0 - enough_in / all_in


def _normal(share: float) -> float:
    return float(1 + 10 * ndtri(share))


def _log_normal(share: float) -> float:
    return float(math.exp(1 + 2 * ndtri(share)))


# Distribution, responders, share that may be missing, and the source's cuts of p95 and p99 in percent.
TABLE: tuple[tuple[str, Callable[[float], float], int, float, tuple[float, float]], ...] = (
    ("Normal(1, sd 10)", _normal, 10_000, 0.001, (25.33, 29.22)),
    ("Normal(1, sd 10)", _normal, 10_000, 0.01, (44.29, 47.67)),
    ("LogNormal(1, 2)", _log_normal, 10_000, 0.001, (90.34, 93.83)),
    ("LogNormal(1, 2)", _log_normal, 10_000, 0.01, (98.22, 98.96)),
    ("LogNormal(1, 2)", _log_normal, 1000, 0.001, (59.93, 64.71)),
    ("LogNormal(1, 2)", _log_normal, 1000, 0.01, (93.30, 96.12)),
)


def table_row(place: int, seed: int) -> list[FigureRow]:
    """Rows for one line of Table 5.2: exact, and sampled with as few queries as in the source."""
    name, distribution, n, loss, source = TABLE[place]
    runs = [_sampled(distribution, n, loss, np.random.default_rng([seed, place, run])) for run in range(RUNS)]
    rows = []
    for percentile, value, sampled in zip((95, 99), source, np.array(runs).T, strict=True):
        metric = f"cut of p{percentile} by waiting for all but {loss:.1%}, {name}, n={n}, %"
        mean, sd = percent(float(sampled.mean())), percent(float(sampled.std()))
        note = f"exact; {RUNS} runs of {QUERIES} queries gave {mean} with an sd of {sd}"
        exact = percent(wait_for_fraction_gain(distribution, n, loss, percentile / 100))
        rows.append(row("Table 5.2", metric, exact, source=f"{value}", note=note))
    return rows


def _sampled(
    distribution: Callable[[float], float], n: int, loss: float, rng: np.random.Generator
) -> list[float]:
    """Cuts of p95 and p99 among sampled queries; both order statistics are drawn jointly, without n draws."""
    k = rank_for(n, loss)
    # The k-th of n uniforms is Beta(k, n-k+1); given it, the largest is that of n-k uniforms on the rest.
    kth = rng.beta(k, n - k + 1, size=QUERIES)
    last = kth + (1 - kth) * rng.beta(n - k, 1, size=QUERIES)
    waited, all_in = (np.array([distribution(share) for share in shares]) for shares in (kth, last))
    return [gain(float(np.percentile(all_in, p)), float(np.percentile(waited, p))) for p in (95, 99)]


RANKED = {  # by the variance that they leave, least first
    "Kwiken": tune_stop_rule,
    "time-then-fraction": tune_time_then_fraction,
    "fixed-timeout": tune_fixed_timeout,
    "wait-for-fraction": tune_wait_for_fraction,
}
# The learned wait is of a later source: plans and gateways would need each query's own distribution for it.
RULES = {**RANKED, "learned wait (Kumar et al. 2016)": tune_learned_wait}


def rules(seed: int) -> dict[str, dict[str, list[float]]]:
    """By rule, tuned on some queries and judged on others: cuts by percentile, variance ratio, loss."""
    rng = np.random.default_rng([seed, 6])
    train, test = (Responders.of(fan_out_queries(queries, rng)) for queries in (3000, 6000))
    base = test.last_ms
    found: dict[str, dict[str, list[float]]] = {}
    for name, tune in RULES.items():
        rule = tune(train, loss=LOSS).rule
        latency, lost = apply_rule(rule, test)
        if isinstance(rule, StopRule):
            found["stops"] = {
                "answered": [float((latency >= base).mean())],
                "progress": [float((latency < np.minimum(base, rule.cutoff_ms)).mean())],
                "cutoff": [float(((latency < base) & (latency >= rule.cutoff_ms)).mean())],
            }
        found[name] = {
            "cuts": _cuts(base, latency),
            "variance": [float(latency.var() / base.var())],
            "loss": [float(lost.mean())],
        }
    sweep = [apply_rule(tune_stop_rule(train, loss=loss).rule, test)[0] for loss in LOSSES]
    found["sweep"] = {
        f"p{percentile}": [_cuts(base, latency)[PERCENTILES.index(percentile)] for latency in sweep]
        for percentile in SWEPT
    }
    return found


def _cuts(base: Floats, latency: Floats) -> list[float]:
    return [
        gain(float(b), float(a))
        for b, a in zip(np.percentile(base, PERCENTILES), np.percentile(latency, PERCENTILES), strict=True)
    ]


def conclude_rules(results: list[dict[str, dict[str, list[float]]]]) -> Findings:
    """Rows and plots of the stop rules, means over fan-outs drawn with several seeds."""
    found = {
        name: {key: np.mean([result[name][key] for result in results], axis=0).tolist() for key in kinds}
        for name, kinds in results[0].items()
    }
    note = (
        f"mean of {len(results)} synthetic fan-outs of 1,000 responders; the source's is over web, image and "
        "video search"
    )
    rows = []
    for rank, name in enumerate(RULES, start=1):
        for percentile in (75, 95, 99):
            metric = f"cut of p{percentile} at a loss of 0.1%, {name}, %"
            cut = percent(found[name]["cuts"][PERCENTILES.index(percentile)])
            rows.append(row("Figure 5.6", metric, cut, source=SOURCE.get((name, percentile), ""), note=note))
        left = round(found[name]["variance"][0], 3)
        rows.append(
            row(
                "Figure 5.6",
                f"variance left, {name}",
                left,
                source=f"rank {rank} of 4" if name in RANKED else "",
                note=note,
            )
        )
        lost = round(100 * found[name]["loss"][0], 4)
        metric = f"loss on queries not tuned on, {name}, %"
        source = "slightly above 0.1" if name in RANKED else ""
        rows.append(row("Figure 5.9", metric, lost, source=source, note=note))
    rows += _sweep_rows(found["sweep"], note)
    rows += [_few_responders(), _rank_row(results), *_stop_rows(found["stops"])]
    return Findings(tuple(rows), _plots(found))


def _sweep_rows(sweep: dict[str, list[float]], note: str) -> list[FigureRow]:
    """Rows of the cuts by Kwiken's rule at every loss."""
    return [
        row(
            "Figure 5.6",
            f"cut of {percentile} at a loss of {100 * loss:g}%, Kwiken, by loss, %",
            percent(cut),
            source=SOURCE["Kwiken", int(percentile[1:])] if loss == LOSS else "grows with the loss",
            note=note,
        )
        for percentile, cuts in sweep.items()
        for loss, cut in zip(LOSSES, cuts, strict=True)
    ]


def _rank_row(results: list[dict[str, dict[str, list[float]]]]) -> FigureRow:
    left = [[result[name]["variance"][0] for name in RANKED] for result in results]
    words = f"variance left, {' < '.join(RANKED)}"
    return order_row("Figure 5.6", words, [bool((np.diff(one) > 0).all()) for one in left], "in this order")


def _wide_stage() -> FigureRow:
    level = order_quantile(0.99, WIDE_RESPONDERS, WIDE_RESPONDERS)
    metric = f"percentile of one server that is the p99 of a stage of {WIDE_RESPONDERS} servers"
    return row("Section 1.3", metric, round(100 * level, 3), source="99.999", note="exact")


def _few_responders() -> FigureRow:
    gained = wait_for_fraction_gain(_log_normal, FEW_RESPONDERS, LOSS, 0.99)
    metric = f"cut of p99 by waiting for all but {LOSS:.1%}, any distribution, n={FEW_RESPONDERS}, %"
    note = "of so few responders none may be missing: a matter of rounding, for every distribution"
    return row("Table 5.2", metric, percent(gained), source="0 (image and video search)", note=note)


def _stop_rows(stops: dict[str, list[float]]) -> list[FigureRow]:
    words = {
        "answered": "that all responders answered before a stop",
        "progress": "stopped some time after most responders had answered",
        "cutoff": "stopped at the cut-off",
    }
    source = {"progress": "quick ones stop by progress, not at once", "cutoff": "caps the slowest"}
    return [
        row("Figure 5.4", f"queries {words[key]}, %", percent(stops[key][0]), source=source.get(key, ""))
        for key in words
    ]


def progress(seed: int) -> Plot:
    """Figure 5.4: progress of a quick, a slow, a long-tailed and a stepping query."""
    queries = np.sort(fan_out_queries(SHOWN, np.random.default_rng([seed, 54])), axis=1)
    share = np.linspace(0, 100, queries.shape[1])
    median, most, last = (queries[:, int(part * (queries.shape[1] - 1))] for part in (0.5, 0.9, 1.0))
    even = last / median < np.median(last / median)
    shown = {
        "consistently quick": int(np.argmin(np.where(even, median, np.inf))),
        "consistently slow": int(np.argmax(np.where(even, median, -np.inf))),
        "long tail": int(np.argmax(last / most)),
        "quick at first, then slow": int(np.argmax(most / median)),
    }
    step = slice(None, None, STEP)
    series = tuple(
        PlotSeries(name, [*queries[place][step].tolist(), float(last[place])], [*share[step].tolist(), 100.0])
        for name, place in shown.items()
    )
    return Plot("Figure 5.4", "how answers come in", "ms", "responders that answered, %", series)


SOURCE = {
    ("Kwiken", 99): "about 50",
    ("Kwiken", 95): "about 25",
    ("fixed-timeout", 75): "no change below p90",
}


def _plots(found: dict[str, dict[str, list[float]]]) -> tuple[Plot, ...]:
    rules = tuple(PlotSeries(name, PERCENTILES, [percent(c) for c in found[name]["cuts"]]) for name in RULES)
    losses = [100 * loss for loss in LOSSES]
    sweep = tuple(
        PlotSeries(name, losses, [percent(cut) for cut in cuts]) for name, cuts in found["sweep"].items()
    )
    return (
        Plot("Figure 5.6", "cut by percentile at a loss of 0.1%", "percentile", "cut, %", rules),
        Plot("Figure 5.6", "cut by loss, Kwiken", "loss, %", "cut, %", sweep, log_x=True),
    )


def conclude_table(results: list[list[FigureRow]]) -> Findings:
    """Rows of all lines of Table 5.2, and of section 1.3."""
    return Findings((*(line for lines in results for line in lines), _wide_stage()))


def parts(seed: int) -> tuple[Part, ...]:
    """Table 5.2, the stop rules of Figure 5.6, and the progress of queries of Figure 5.4."""
    return (
        Part(
            "order statistics",
            tuple((table_row, (i, seed)) for i in range(len(TABLE))),
            conclude_table,
            ("Section 1.3", "Table 5.2"),
        ),
        Part(
            "stop rules",
            tuple((rules, (seed + i,)) for i in range(SEEDS)),
            conclude_rules,
            ("Figure 5.6", "Figure 5.9", "Table 5.2"),
        ),
        Part("progress", ((progress, (seed,)),), lambda plots: Findings(plots=tuple(plots)), ("Figure 5.4",)),
    )
