"""Partial answers: Table 5.2 and Figure 5.6."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.special import ndtri

from kwiken._order_statistics import rank_for, wait_for_fraction_gain
from kwiken._population import fan_out_queries
from kwiken._profile import Floats
from kwiken.levers import (
    Responders,
    apply_rule,
    tune_fixed_timeout,
    tune_stop_rule,
    tune_time_then_fraction,
    tune_wait_for_fraction,
)
from kwiken.reproduction._rows import Findings, Part, Plot, Row, Series, gain, percent, row

RUNS, QUERIES = 20, 1000  # queries as few as the source's own rows suggest
LOSS = 0.001
PERCENTILES = (50, 75, 90, 95, 99)
LOSSES = (0.0005, 0.001, 0.002, 0.005, 0.01)


def _normal(share: float) -> float:
    return float(1 + 10 * ndtri(share))


def _log_normal(share: float) -> float:
    return float(math.exp(1 + 2 * ndtri(share)))


# Law, responders, share that may be missing, and the source's cuts of p95 and p99 in percent.
TABLE: tuple[tuple[str, Callable[[float], float], int, float, tuple[float, float]], ...] = (
    ("Normal(1, sd 10)", _normal, 10_000, 0.001, (25.33, 29.22)),
    ("Normal(1, sd 10)", _normal, 10_000, 0.01, (44.29, 47.67)),
    ("LogNormal(1, 2)", _log_normal, 10_000, 0.001, (90.34, 93.83)),
    ("LogNormal(1, 2)", _log_normal, 10_000, 0.01, (98.22, 98.96)),
    ("LogNormal(1, 2)", _log_normal, 1000, 0.001, (59.93, 64.71)),
    ("LogNormal(1, 2)", _log_normal, 1000, 0.01, (93.30, 96.12)),
)


def table_row(place: int, seed: int) -> list[Row]:
    """One line of Table 5.2: exact, and by as few queries as the source seems to have used."""
    name, law, n, loss, source = TABLE[place]
    runs = [_sampled(law, n, loss, np.random.default_rng([seed, place, run])) for run in range(RUNS)]
    rows = []
    for percentile, value, sampled in zip((95, 99), source, np.array(runs).T, strict=True):
        metric = f"cut of p{percentile} by waiting for all but {loss:.1%}, {name}, n={n}, %"
        mean, sd = percent(float(sampled.mean())), percent(float(sampled.std()))
        note = f"exact; {RUNS} runs of {QUERIES} queries gave {mean} with an sd of {sd}"
        exact = percent(wait_for_fraction_gain(law, n, loss, percentile / 100))
        rows.append(row("Table 5.2", metric, exact, source=f"{value}", note=note))
    return rows


def _sampled(law: Callable[[float], float], n: int, loss: float, rng: np.random.Generator) -> list[float]:
    """Cuts of p95 and p99 among sampled queries; both order statistics are drawn jointly, without n draws."""
    k = rank_for(n, loss)
    # Of n uniforms the k-th is Beta(k, n-k+1); given it, the largest is the largest of n-k on what is left.
    kth = rng.beta(k, n - k + 1, size=QUERIES)
    last = kth + (1 - kth) * rng.beta(n - k, 1, size=QUERIES)
    waited, all_in = (np.array([law(share) for share in shares]) for shares in (kth, last))
    return [gain(float(np.percentile(all_in, p)), float(np.percentile(waited, p))) for p in (95, 99)]


RULES = {
    "Kwiken": tune_stop_rule,
    "time-then-fraction": tune_time_then_fraction,
    "fixed-timeout": tune_fixed_timeout,
    "wait-for-fraction": tune_wait_for_fraction,
}


def rules(seed: int) -> dict[str, dict[str, list[float]]]:
    """Each rule tuned on some queries and judged on others: cuts by percentile, variance ratio, loss."""
    rng = np.random.default_rng([seed, 6])
    train, test = (Responders.of(fan_out_queries(queries, rng)) for queries in (3000, 6000))
    base = test.last_ms
    found: dict[str, dict[str, list[float]]] = {}
    for name, tune in RULES.items():
        latency, lost = apply_rule(tune(train, loss=LOSS).rule, test)
        found[name] = {
            "cuts": _cuts(base, latency),
            "variance": [float(latency.var() / base.var())],
            "loss": [float(lost.mean())],
        }
    sweep = [apply_rule(tune_stop_rule(train, loss=loss).rule, test)[0] for loss in LOSSES]
    found["sweep"] = {"p99": [_cuts(base, latency)[-1] for latency in sweep]}
    return found


def _cuts(base: Floats, latency: Floats) -> list[float]:
    return [
        gain(float(b), float(a))
        for b, a in zip(np.percentile(base, PERCENTILES), np.percentile(latency, PERCENTILES), strict=True)
    ]


def conclude_rules(results: list[dict[str, dict[str, list[float]]]]) -> Findings:
    """Rows and plots of the stop rules."""
    found = results[0]
    note = "one synthetic fan-out of 1,000 responders; the source's mean is over web, image and video search"
    rows = []
    for rank, name in enumerate(RULES, start=1):
        for percentile in (75, 95, 99):
            metric = f"cut of p{percentile} at a loss of 0.1%, {name}, %"
            cut = percent(found[name]["cuts"][PERCENTILES.index(percentile)])
            rows.append(row("Figure 5.6", metric, cut, source=SOURCE.get((name, percentile), ""), note=note))
        left = round(found[name]["variance"][0], 3)
        rows.append(row("Figure 5.6", f"variance left, {name}", left, source=f"rank {rank} of 4", note=note))
        lost = round(100 * found[name]["loss"][0], 4)
        metric = f"loss on queries not tuned on, {name}, %"
        rows.append(row("Figure 5.6", metric, lost, source="slightly above 0.1", note=note))
    return Findings(tuple(rows), _plots(found))


SOURCE = {
    ("Kwiken", 99): "about 50",
    ("Kwiken", 95): "about 25",
    ("fixed-timeout", 75): "no change below p90",
}


def _plots(found: dict[str, dict[str, list[float]]]) -> tuple[Plot, ...]:
    rules = tuple(Series(name, PERCENTILES, [percent(c) for c in found[name]["cuts"]]) for name in RULES)
    sweep = Series("Kwiken", [100 * loss for loss in LOSSES], [percent(c) for c in found["sweep"]["p99"]])
    return (
        Plot("Figure 5.6", "cut by percentile at a loss of 0.1%", "percentile", "cut, %", rules),
        Plot("Figure 5.6", "p99 cut by loss", "loss, %", "p99 cut, %", (sweep,), log_x=True),
    )


def conclude_table(results: list[list[Row]]) -> Findings:
    """All lines of Table 5.2."""
    return Findings(tuple(line for lines in results for line in lines))


def parts(seed: int) -> tuple[Part, ...]:
    """Table 5.2, and the stop rules of Figure 5.6."""
    return (
        Part("order statistics", tuple((table_row, (i, seed)) for i in range(len(TABLE))), conclude_table),
        Part("stop rules", ((rules, (seed,)),), conclude_rules),
    )
