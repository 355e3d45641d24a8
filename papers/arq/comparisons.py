"""ARQ beside Paragon and the baselines: Figures 6.3 to 6.6, and the tables of orders inside a line."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import numpy as np

from papers.arq.runs import (
    BUT_FOR_WAIT,
    GROUPS,
    KEPT,
    LITTLE,
    MEAN,
    USED,
    Runs,
    allocation_series,
    lead,
    level,
    lined_figures,
    mean_error,
    predicted_and_seen,
)
from papers.figures.rows import (
    FigureRow,
    Findings,
    Part,
    Plot,
    PlotSeries,
    median_row,
    order_row,
    over_seeds,
    row,
)

PARAGON, SHARED, ARQ = "paragon", "paragon, cores shared", "arq"
OTHERS: Final = ("interference only", "heterogeneity only", "least loaded", "least loaded, reservations")
ALL: Final = (PARAGON, SHARED, *OTHERS, ARQ)
SOURCES: Final = {
    "phases": ("Figure 6.3a", {PARAGON: "66", SHARED: "66", ARQ: "91"}),
    "phases, even arrivals": ("Figure 6.3a", {PARAGON: "66", SHARED: "66", ARQ: "91"}),
    "oversubscribed": ("Figure 6.3b", {PARAGON: "64", SHARED: "64", ARQ: "88"}),
    "low": ("Section 6.5.1", {}),
}
COUNTS: Final = (1, 2, 5, 10, 20, 50)
SJF: Final = {
    5: ("0.20", "0.15"),
    10: ("0.30", "0.08"),
    25: ("1.20", "0.30"),
    50: ("1.45", "0.34"),
    75: ("1.78", "0.26"),
    90: ("2.31", "0.55"),
    95: ("2.32", "0.57"),
    100: ("2.28", "0.53"),
}
MIN_WAITS: Final = 30  # of a pool whose predictions are judged
SHARES: Final = ("work", "measuring", "added wait", "whole wait")


def _figures(scenario: str) -> tuple[str, ...]:
    if scenario == "low":
        return (SOURCES[scenario][0],)
    use = ("Figure 6.5a",) if scenario == "oversubscribed" else ()
    return (SOURCES[scenario][0], "Figure 6.4", "Section 6.5.1", *use)


def comparison(scenario: str, seeds: int) -> Part:
    """All managers on one scenario."""
    return over_seeds(
        scenario,
        lined_figures,
        seeds,
        partial(_compared, scenario),
        ((scenario, ALL, None),),
        figures=_figures(scenario),
    )


def _compared(scenario: str, results: list[list[Any]]) -> Findings:
    (runs,) = results
    figure, sources = SOURCES[scenario]
    rows: list[FigureRow] = []
    for name in ALL:
        source = sources.get(name, "" if name in {PARAGON, ARQ} else "drawn only")
        rows.append(level(figure, f"{scenario}: QoS kept, {name}, %", runs, name, KEPT, source))
        told = "99.3" if name == ARQ and scenario == "phases" else ""
        rows.append(level(figure, f"{scenario}: mean performance, {name}, %", runs, name, MEAN, told))
    if scenario == "low":
        gaps = [abs(run[ARQ][KEPT] - run[PARAGON][KEPT]) for run in runs]
        rows.append(median_row(figure, "low: QoS kept, Paragon and ARQ apart, points", gaps, "small"))
        return Findings(tuple(rows))
    for first, second in (
        (ARQ, PARAGON),
        (ARQ, SHARED),
        (PARAGON, "interference only"),
        (PARAGON, "heterogeneity only"),
        ("interference only", "least loaded"),
        ("heterogeneity only", "least loaded"),
    ):
        rows += lead(figure, f"{scenario}: QoS kept", runs, first, second)
    rows += _times(scenario, runs)
    rows += _use(scenario, runs)
    return Findings(tuple(rows))


def _times(scenario: str, runs: Runs) -> list[FigureRow]:
    """Figure 6.4: what time goes into, and who did not finish."""
    rows = []
    for share in SHARES:
        for which in ("", ", diverted down"):
            for what in ("mean", "95th", "largest"):
                source = "below 5" if share == "added wait" and what == "largest" else ""
                rows.append(
                    level(
                        "Figure 6.4",
                        f"{scenario}: {share} over execution{which}, {what}, %",
                        runs,
                        ARQ,
                        f"{share}{which}, {what}, %",
                        source,
                    )
                )
    within = [run[ARQ]["largest added wait and measuring of a job that is not late, %"] < 5 for run in runs]  # noqa: PLR2004
    rows.append(
        order_row("Figure 6.4", f"{scenario}: added wait below 5% for every job that is not late", within)
    )
    rows.append(level("Figure 6.4", f"{scenario}: jobs that were late, arq, %", runs, ARQ, "late, %"))
    for name in ALL:
        source = "mcf and blackscholes" if name == "least loaded" else "none"
        rows.append(
            level(
                "Figure 6.4",
                f"{scenario}: did not finish for want of memory, {name}",
                runs,
                name,
                "did not finish",
                source,
            )
        )
    return rows


def _use(scenario: str, runs: Runs) -> list[FigureRow]:
    rows = []
    for name in (PARAGON, ARQ):
        if scenario == "oversubscribed":
            for metric, source in (
                ("oversubscribed from, s", "9000"),
                ("oversubscribed until, s", "17000"),
                ("backlog gone, s", "" if name == PARAGON else "earlier with ARQ"),
            ):
                rows.append(level("Figure 6.5a", f"{metric[:-3]}, {name}, s", runs, name, metric, source))
        gains = [100 * (run[name][USED] / run["least loaded"][USED] - 1) for run in runs]
        source = "47" if name == PARAGON else "45.5"
        rows.append(
            median_row("Section 6.5.1", f"{scenario}: cores used over least loaded, {name}, %", gains, source)
        )
    apart = [run[ARQ][USED] - run[PARAGON][USED] for run in runs]
    rows.append(
        median_row("Section 6.5.1", f"{scenario}: cores used, ARQ over Paragon, points", apart, "-1.5")
    )
    rows.append(
        order_row(
            "Section 6.5.1",
            f"{scenario}: cores used by ARQ within 3 points of Paragon",
            [one >= -3 for one in apart],  # noqa: PLR2004 - the source's bound
        )
    )
    return rows


def series(seeds: int) -> Part:
    """Figure 6.5a: required and allocated cores over time, of the first seed."""
    del seeds
    jobs = tuple((allocation_series, ("oversubscribed", name, 0)) for name in (PARAGON, ARQ))
    return Part("cores over time", jobs, _plotted, ("Figure 6.5a",))


def _plotted(results: list[Any]) -> Findings:
    lines = []
    for name, (times_s, required, allocated) in zip((PARAGON, ARQ), results, strict=True):
        lines.append(PlotSeries(f"required, {name}", times_s, required))
        lines.append(PlotSeries(f"allocated, {name}", times_s, allocated))
    plot = Plot("Figure 6.5a", "Cores required and allocated", "time, s", "cores", tuple(lines))
    return Findings(plots=(plot,))


def chances(seeds: int) -> Part:
    """Predicted chances of a slot beside the share of waits that were as short."""
    return over_seeds(
        "chances",
        predicted_and_seen,
        seeds,
        _judged,
        (("oversubscribed", ARQ), ("phases", ARQ)),
        figures=("Section 6.2",),
    )


def _judged(results: list[list[Any]]) -> Findings:
    rows = []
    for scenario, by_seed in zip(("oversubscribed", "phases"), results, strict=True):
        samples = [sample for seed in by_seed for sample in seed]
        pools = sorted({pool for pool, _, _ in samples})
        for pool in pools:
            some = [(predicted, seen) for number, predicted, seen in samples if number == pool]
            if len(some) < MIN_WAITS:
                continue
            shape = len(some), max(len(predicted) for predicted, _ in some)
            weights = np.zeros(shape, dtype=np.bool_)
            told, true = np.zeros(shape), np.zeros(shape)
            for at, (predicted, seen) in enumerate(some):
                weights[at, : len(predicted)] = True
                told[at, : len(predicted)], true[at, : len(seen)] = predicted, seen
            rows.append(
                row(
                    "Section 6.2",
                    f"{scenario}: mean error of the chance of a slot, pool {pool}, points",
                    round(100 * mean_error(told, true, weights), 2),
                    source="drawn only",
                    note=f"{len(some)} waits of all seeds, at tenths of a budget",
                )
            )
    return Findings(tuple(rows))


def line_counts(seeds: int) -> Part:
    """Figure 6.5b: performance and use by the number of lines."""
    names = tuple(ARQ if count == 10 else f"arq, {count} lines" for count in COUNTS)  # noqa: PLR2004
    return over_seeds(
        "number of lines",
        lined_figures,
        seeds,
        partial(_by_count, names),
        (("oversubscribed", names, None),),
        figures=("Figure 6.5b",),
    )


def _by_count(names: tuple[str, ...], results: list[list[Any]]) -> Findings:
    (runs,) = results
    rows = []
    for count, name in zip(COUNTS, names, strict=True):
        for metric, figure, source in (
            ("performance", MEAN, "rises with the number"),
            ("cores used", USED, "falls with the number; 10 is the knee"),
            ("QoS kept", KEPT, ""),
        ):
            ratios = [run[name][figure] / max(run[ARQ][figure], 1e-9) for run in runs]
            rows.append(
                median_row("Figure 6.5b", f"{metric} with {count} lines over that with 10", ratios, source)
            )
    return Findings(tuple(rows))


def inside_a_line(seeds: int) -> Part:
    """Tables 6.2 and 6.3: shortest first, and priorities."""
    names = ("arq, shortest first", "arq, priorities")
    return over_seeds(
        "order inside a line",
        lined_figures,
        seeds,
        _ordered,
        (("oversubscribed", names, None),),
        figures=("Table 6.2", "Table 6.3"),
    )


def _ordered(results: list[list[Any]]) -> Findings:
    (runs,) = results
    first, priorities = "arq, shortest first", "arq, priorities"
    rows: list[FigureRow] = []
    for share in GROUPS:
        percent = round(100 * share)
        name = f"shortest {percent}%"
        for what, source in zip(
            ("harmonic mean", "mean", "standard deviation"),
            (SJF[percent][0], "", SJF[percent][1]),
            strict=True,
        ):
            rows.append(level("Table 6.2", f"{name}: {what}, %", runs, first, f"{name}: {what}, %", source))
    rows.append(
        order_row(
            "Table 6.2",
            "mean deviation, shortest tenth below all",
            [run[first]["shortest 10%: mean, %"] < run[first]["shortest 100%: mean, %"] for run in runs],
        )
    )
    for group, sources in (("high", ("0.80", "", "0.06", "2")), ("low", ("2.74", "", "0.32", ""))):
        for what, source in zip(
            ("harmonic mean", "mean", "standard deviation", "largest"), sources, strict=True
        ):
            metric = f"{group} priority: {what}, %"
            rows.append(level("Table 6.3", metric, runs, priorities, metric, source))
    rows.append(
        order_row(
            "Table 6.3",
            "mean deviation, high priority below low",
            [
                run[priorities]["high priority: mean, %"] < run[priorities]["low priority: mean, %"]
                for run in runs
            ],
        )
    )
    return Findings(tuple(rows))


def large(seeds: int) -> Part:
    """Figure 6.6: 1,000 servers and 8,500 applications."""
    return over_seeds(
        "1,000 servers",
        lined_figures,
        seeds,
        _large_rows,
        (("large", LARGE, None),),
        figures=("Figure 6.6", "Figure 6.5a", "Figure 6.2a"),
    )


LARGE: Final = (PARAGON, SHARED, ARQ)


def _large_rows(results: list[list[Any]]) -> Findings:
    (runs,) = results
    rows: list[FigureRow] = []
    told = {PARAGON: ("61", "79"), SHARED: ("61", "79"), ARQ: ("83", "99")}
    for name in LARGE:
        kept, little = told[name]
        rows.append(level("Figure 6.6", f"QoS kept, {name}, %", runs, name, KEPT, kept))
        rows.append(level("Figure 6.6", f"loss below 10%, {name}, %", runs, name, LITTLE, little))
        rows.append(level("Figure 6.6", f"cores used, {name}, %", runs, name, USED))
        rows.append(
            level("Figure 6.5a", f"1,000 servers: backlog gone, {name}, s", runs, name, "backlog gone, s")
        )
    for metric in ("oversubscribed from, s", "oversubscribed until, s"):
        source = "9000" if "from" in metric else "17000"
        rows.append(level("Figure 6.5a", f"1,000 servers: {metric}", runs, PARAGON, metric, source))
    rows.append(
        level(
            "Figure 6.2a",
            "1,000 servers: busy times at most 1.038 of their mean, %",
            runs,
            ARQ,
            "busy times at most 1.038 of their mean, %",
            "60",
        )
    )
    families = sorted({name for run in runs for name in run[ARQ] if name.startswith("family ")})
    for family in families:
        rows.append(  # noqa: PERF401 - one row for each
            row(
                "Figure 6.2a",
                f"1,000 servers: seeds in which busy times fit best as {family.removeprefix('family ')}",
                float(sum(family in run[ARQ] for run in runs)),
                source="near normal",
            )
        )
    for second in (PARAGON, SHARED):
        rows += lead("Figure 6.6", "QoS kept", runs, ARQ, second)
        rows += lead("Figure 6.6", "QoS but for the added wait", runs, ARQ, second, BUT_FOR_WAIT)
    return Findings(tuple(rows))
