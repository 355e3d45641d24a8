"""Tables of ARQ: the source's values, how ours are obtained, and the orders that are to hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
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
    Figures,
    allocation_series,
    lined_figures,
    mean_error,
    predicted_and_seen,
)
from papers.figures.rows import Findings, Part, Plot, PlotSeries, RequiredRow, over_seeds, row, unreproduced
from papers.figures.tables import (
    StatedRow,
    above,
    difference,
    level,
    order,
    pooled,
    study,
)
from papers.worlds.waiting.head_of_line import borrowing_waits
from papers.worlds.waiting.lines.distributions import BusyFamily
from papers.worlds.waiting.rules import ABLATIONS

FLEET: Final = (
    "lined fleet with fixed laws (papers/results/arq.md); median over the seeds, with the lowest and the "
    "highest"
)
LEAD: Final = "median over the seeds of the difference, with the lowest and the highest"
PARAGON, SHARED, ARQ = "paragon", "paragon, cores shared", "arq"
SIMPLE: Final = ("interference only", "heterogeneity only", "least loaded", "least loaded, reservations")
ALL: Final = (PARAGON, SHARED, *SIMPLE, ARQ)
LARGE: Final = (PARAGON, SHARED, ARQ)
MAX_LARGE: Final = 8  # seeds of the run of 1,000 servers
BOTH: Final = ("phases", "oversubscribed")
FORMS: Final = {
    "low": ("Section 6.5.1", {}),
    "phases": ("Figure 6.3a", {PARAGON: "66", SHARED: "66", ARQ: "91"}),
    "phases, even arrivals": ("Figure 6.3a", {PARAGON: "66", SHARED: "66", ARQ: "91"}),
    "oversubscribed": ("Figure 6.3b", {PARAGON: "64", SHARED: "64", ARQ: "88"}),
}
PAIRS: Final = (
    (ARQ, PARAGON),
    (ARQ, SHARED),
    (PARAGON, "interference only"),
    (PARAGON, "heterogeneity only"),
    ("interference only", "least loaded"),
    ("heterogeneity only", "least loaded"),
)
COUNTS: Final = {count: ARQ if count == 10 else f"arq, {count} lines" for count in (1, 2, 5, 10, 20, 50)}  # noqa: PLR2004 - the source's number
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
LABELS: Final = ("mean wait of borrowers, s", "mean wait of guaranteed jobs, s", "slots in use, %")
MIN_WAITS: Final = 30  # of a pool whose predictions are judged
SHORTEST, PRIORITIES = "arq, shortest first", "arq, priorities"
LATE_LEAST, APART_LEAST = 5, -3  # percent of added wait, points of cores; the source's bounds
OPTIMAL: Final = "suitable lines, optimal stopping"
VARIANTS: Final = (
    *(ARQ, PARAGON, "paragon, with margin"),
    *("arq, never switches", "arq, switches at once", "arq, optimal stopping", "arq, printed slack"),
    *("arq, quantile lines", "one line that waits", "suitable lines", OPTIMAL),
    *("paragon, true scores", "arq, true scores"),
)
COMPARED: Final = (
    ("arq, optimal stopping", ARQ),
    ("arq, quantile lines", ARQ),
    ("suitable lines", ARQ),
    (OPTIMAL, ARQ),
    (OPTIMAL, "suitable lines"),
    ("suitable lines", PARAGON),
    ("suitable lines", "paragon, with margin"),
    ("arq, true scores", "paragon, true scores"),
)
MISSING: Final = (
    RequiredRow(
        number="R13",
        figure="Figure 6.4",
        metric="share of the time in the selection of a server",
        source="below 0.1%",
        reason="a reproduction reads no clock; `python -m benchmarks --only placement` times a choice",
    ),
    RequiredRow(
        number="R5",
        figure="Figure 6.4",
        metric="names of the applications that did not finish",
        source="mcf and blackscholes",
        reason="applications are drawn and have no names; their number is printed by scheduler",
    ),
)
Runs = Mapping[str, Figures]  # of one seed, by manager


def _of(manager: str, name: str) -> Callable[[Runs], float]:
    """One figure of a manager; 0 where the run does not have it."""
    return lambda by: by[manager].get(name, 0.0)


def _lead(
    figure: str, words: str, first: str, second: str, name: str = KEPT, case: tuple[Any, ...] = ()
) -> Iterator[StatedRow]:
    """Two rows of an order of two managers: whether it holds, and the lead in points."""
    values = (*case, first, name), (*case, second, name)
    yield order(figure, f"{words}: {first} before {second}", above(*values), note="")
    metric = f"{words}: lead of {first} over {second}, points"
    yield level(figure, metric, difference(*values), note=LEAD)


def _compared(scenario: str) -> Iterator[StatedRow]:
    figure, sources = FORMS[scenario]
    for name in ALL:
        source = sources.get(name, "" if name in {PARAGON, ARQ} else "drawn only")
        yield level(figure, f"{scenario}: QoS kept, {name}, %", _of(name, KEPT), source)
        source = "99.3" if name == ARQ and scenario == "phases" else ""
        yield level(figure, f"{scenario}: mean performance, {name}, %", _of(name, MEAN), source)
    if scenario == "low":
        metric = "low: QoS kept, Paragon and ARQ apart, points"
        yield level(figure, metric, lambda by: abs(by[ARQ][KEPT] - by[PARAGON][KEPT]), "small", "")
        return
    for first, second in PAIRS:
        yield from _lead(figure, f"{scenario}: QoS kept", first, second)
    yield from _times(scenario)
    yield from _use(scenario)


def _times(scenario: str) -> Iterator[StatedRow]:
    """Figure 6.4: what time goes into, and who did not finish."""
    figure = "Figure 6.4"
    for share in ("work", "measuring", "added wait", "whole wait"):
        for which in ("", ", diverted down"):
            for what in ("mean", "95th", "largest"):
                source = "below 5" if share == "added wait" and what == "largest" else ""
                metric = f"{scenario}: {share} over execution{which}, {what}, %"
                yield level(figure, metric, _of(ARQ, f"{share}{which}, {what}, %"), source)
    yield order(
        figure,
        f"{scenario}: added wait below 5% for every job that is not late",
        lambda by: by[ARQ]["largest added wait and measuring of a job that is not late, %"] < LATE_LEAST,
        note="",
    )
    yield level(figure, f"{scenario}: jobs that were late, arq, %", _of(ARQ, "late, %"))
    for name in ALL:
        source = "mcf and blackscholes" if name == "least loaded" else "none"
        metric = f"{scenario}: did not finish for want of memory, {name}"
        yield level(figure, metric, _of(name, "did not finish"), source)


def _use(scenario: str) -> Iterator[StatedRow]:
    section = "Section 6.5.1"
    for name, source, gone in ((PARAGON, "47", ""), (ARQ, "45.5", "earlier with ARQ")):
        if scenario == "oversubscribed":
            for what, told in (
                ("oversubscribed from", "9000"),
                ("oversubscribed until", "17000"),
                ("backlog gone", gone),
            ):
                yield level("Figure 6.5a", f"{what}, {name}, s", _of(name, f"{what}, s"), told)
        metric = f"{scenario}: cores used over least loaded, {name}, %"
        yield level(section, metric, partial(_more_used, name), source, "")
    metric, apart = (
        f"{scenario}: cores used, ARQ over Paragon, points",
        difference((ARQ, USED), (PARAGON, USED)),
    )
    yield level(section, metric, apart, "-1.5", "")
    words = f"{scenario}: cores used by ARQ within 3 points of Paragon"
    yield order(section, words, lambda by: apart(by) >= APART_LEAST, note="")


def _more_used(name: str, by: Runs) -> float:
    return 100 * (by[name][USED] / by["least loaded"][USED] - 1)


def _plotted(results: list[Any]) -> Findings:
    lines = []
    for name, (times_s, required, allocated) in zip((PARAGON, ARQ), results, strict=True):
        lines.append(PlotSeries(f"required, {name}", times_s, required))
        lines.append(PlotSeries(f"allocated, {name}", times_s, allocated))
    plot = Plot("Figure 6.5a", "Cores required and allocated", "time, s", "cores", tuple(lines))
    return Findings(plots=(plot,))


def _chances(seeds: int) -> Part:
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


def _by_count() -> Iterator[StatedRow]:
    for count, name in COUNTS.items():
        for metric, figure, source in (
            ("performance", MEAN, "rises with the number"),
            ("cores used", USED, "falls with the number; 10 is the knee"),
            ("QoS kept", KEPT, ""),
        ):
            words = f"{metric} with {count} lines over that with 10"
            yield level("Figure 6.5b", words, partial(_beside_ten, name, figure), source, "")


def _beside_ten(name: str, figure: str, by: Runs) -> float:
    return by[name][figure] / max(by[ARQ][figure], 1e-9)


def _ordered() -> Iterator[StatedRow]:
    whats = ("harmonic mean", "mean", "standard deviation", "largest")
    for percent in (round(100 * share) for share in GROUPS):
        for what, source in zip(whats[:3], (SJF[percent][0], "", SJF[percent][1]), strict=True):
            metric = f"shortest {percent}%: {what}, %"
            yield level("Table 6.2", metric, _of(SHORTEST, metric), source)
    yield order(
        "Table 6.2",
        "mean deviation, shortest tenth below all",
        lambda by: by[SHORTEST]["shortest 10%: mean, %"] < by[SHORTEST]["shortest 100%: mean, %"],
        note="",
    )
    for group, sources in (("high", ("0.80", "", "0.06", "2")), ("low", ("2.74", "", "0.32", ""))):
        for what, source in zip(whats, sources, strict=True):
            metric = f"{group} priority: {what}, %"
            yield level("Table 6.3", metric, _of(PRIORITIES, metric), source)
    yield order(
        "Table 6.3",
        "mean deviation, high priority below low",
        lambda by: by[PRIORITIES]["high priority: mean, %"] < by[PRIORITIES]["low priority: mean, %"],
        note="",
    )


def _varied(scenario: str) -> Iterator[StatedRow]:
    for name in VARIANTS:
        for metric in (KEPT, MEAN, USED, BUT_FOR_WAIT):
            yield level("Better (a)", f"{scenario}: {name}, {metric}", _of(name, metric))
    for first, second in COMPARED:
        yield from _lead("Better (a)", f"{scenario}: QoS kept", first, second)
        metric = f"{scenario}: cores used, {first} over {second}, points"
        yield level("Better (a)", metric, difference((first, USED), (second, USED)), note="")


def _ablated(scenario: str, cases: list[Any]) -> Iterator[StatedRow]:
    for case in cases:
        for words, name in (("QoS kept", KEPT), ("QoS but for the wait", BUT_FOR_WAIT)):
            yield from _lead("Better (b)", f"{scenario}, {case[-1]}: {words}", ARQ, PARAGON, name, (case,))


HEAD: Final = tuple(
    level("Better (c)", f"Kueue #4809, {name}: {label}", f"{name}: {label}")
    for name in ("strict head", "budget")
    for label in LABELS
)


def _large() -> Iterator[StatedRow]:
    figure, use = "Figure 6.6", "Figure 6.5a"
    for name, kept, little in ((PARAGON, "61", "79"), (SHARED, "61", "79"), (ARQ, "83", "99")):
        yield level(figure, f"QoS kept, {name}, %", _of(name, KEPT), kept)
        yield level(figure, f"loss below 10%, {name}, %", _of(name, LITTLE), little)
        yield level(figure, f"cores used, {name}, %", _of(name, USED))
        yield level(use, f"1,000 servers: backlog gone, {name}, s", _of(name, "backlog gone, s"))
    for metric, source in (("oversubscribed from, s", "9000"), ("oversubscribed until, s", "17000")):
        yield level(use, f"1,000 servers: {metric}", _of(PARAGON, metric), source)
    metric = "busy times at most 1.038 of their mean, %"
    yield level("Figure 6.2a", f"1,000 servers: {metric}", _of(ARQ, metric), "60")
    for family in sorted(BusyFamily):
        metric = f"1,000 servers: seeds in which busy times fit best as {family}"
        yield pooled("Figure 6.2a", metric, partial(_seeds_of, f"family {family}"), "near normal", "")
    for second in (PARAGON, SHARED):
        yield from _lead(figure, "QoS kept", ARQ, second)
        yield from _lead(figure, "QoS but for the added wait", ARQ, second, BUT_FOR_WAIT)


def _seeds_of(family: str, seeds: list[Runs]) -> int | None:
    return sum(family in by[ARQ] for by in seeds) or None


def all_parts(seeds: int) -> tuple[Part, ...]:
    """Parts of the reproduction, each independent.

    Args:
        seeds: number of draws of the fleet.
    """
    spread = partial(study, seeds=seeds, note=FLEET)
    fleet = partial(spread, job=lined_figures)
    ablations = {one: [(one, (ARQ, PARAGON), name) for name in ABLATIONS] for one in BOTH}
    return (
        *(fleet(one, rows=_compared(one), arguments=(one, ALL, None)) for one in FORMS),
        Part(
            "cores over time",
            tuple((allocation_series, ("oversubscribed", name, 0)) for name in (PARAGON, ARQ)),
            _plotted,
            ("Figure 6.5a",),
        ),
        _chances(seeds),
        fleet(
            "number of lines",
            rows=_by_count(),
            arguments=("oversubscribed", tuple(COUNTS.values()), None),
        ),
        fleet(
            "order inside a line",
            rows=_ordered(),
            arguments=("oversubscribed", (SHORTEST, PRIORITIES), None),
        ),
        fleet(
            "1,000 servers",
            rows=_large(),
            arguments=("large", LARGE, None),
            seeds=min(seeds, MAX_LARGE),
        ),
        *(fleet(f"variants, {one}", rows=_varied(one), arguments=(one, VARIANTS, None)) for one in BOTH),
        *(fleet(f"ablations, {one}", rows=_ablated(one, of), cases=of) for one, of in ablations.items()),
        spread("head of line", borrowing_waits, rows=HEAD, note=""),
        unreproduced(MISSING),
    )
