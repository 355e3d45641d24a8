"""Results of a reproduction: rows beside the source's values, series to plot, and jobs that yield them."""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec

from kwiken.base.jobs import Job, Spread, one_by_one

__all__ = [
    "Findings",
    "Part",
    "Plot",
    "PlotSeries",
    "ReproducedRow",
    "Reproduction",
    "RequiredRow",
    "UnreproducedRow",
    "gain",
    "median_row",
    "order_row",
    "over_seeds",
    "percent",
    "row",
    "run",
    "unreproduced",
]


class ReproducedRow(msgspec.Struct, frozen=True, kw_only=True):
    """One value of a source beside ours.

    Attributes:
        figure: figure, table or section of the source, for example "Figure 5.5".
        metric: quantity that is measured, with its unit.
        source: the source's value or claim, as a text; empty where it gives none.
        ours: our value, in the unit that `metric` names.
        note: reason for a difference, or conditions of our measurement.
        low: lowest of the values that `ours` is the median of, in the same unit; None where it is no median.
        high: highest of them, in the same unit; None where `ours` is no median.
    """

    figure: str
    metric: str
    source: str
    ours: float
    note: str = ""
    low: float | None = None
    high: float | None = None


class UnreproducedRow(msgspec.Struct, frozen=True, kw_only=True):
    """One value of a source that nothing here computes.

    Attributes:
        figure: figure, table or section of the source, for example "Figure 5.5".
        metric: quantity that the source measures, with its unit.
        source: the source's value or claim, as a text; empty where it gives none.
        reason: why the value is not computed.
    """

    figure: str
    metric: str
    source: str
    reason: str


@dataclass(frozen=True)
class RequiredRow:
    """One result of a source's specification, and where the reproduction shows it, or why it does not.

    Attributes:
        number: number of the result in the specification, for example "R6".
        figure: figure, table or section of the source under which the rows stand.
        metric: beginning of the metric of the rows that show the result; else what the source measures.
        source: the source's value or claim, as a text; needed where nothing is computed.
        reason: why nothing is computed; empty where rows show the result.
    """

    number: str
    figure: str
    metric: str
    source: str = ""
    reason: str = ""


def unreproduced(required: Iterable[RequiredRow]) -> Part:
    """Part without work, whose findings are the results that are not computed, each with its reason."""
    missing = tuple(
        UnreproducedRow(figure=one.figure, metric=one.metric, source=one.source, reason=one.reason)
        for one in required
        if one.reason
    )
    return Part("not reproduced", (), lambda _: Findings(missing=missing))


def row(figure: str, metric: str, ours: float, *, source: str = "", note: str = "") -> ReproducedRow:
    """A row in one line."""
    return ReproducedRow(figure=figure, metric=metric, source=source, ours=ours, note=note)


MOST_SEEDS = 7 / 8  # share of the seeds in which an order has to hold
ORDER_NOTE = "seeds in which the order holds; a tie is none"


def median_row(
    figure: str, metric: str, values: Sequence[float], source: str = "", note: str = ""
) -> ReproducedRow:
    """Row of a median over the seeds, with the lowest and the highest value."""
    return ReproducedRow(
        figure=figure,
        metric=metric,
        source=source,
        ours=_rounded(statistics.median(values)),
        note=note,
        low=_rounded(min(values)),
        high=_rounded(max(values)),
    )


def of_seeds(held: int, seeds: int) -> str:
    """Number of the seeds that an order was tried with, marked where it mostly fails.

    Args:
        held: number of seeds in which it holds.
    """
    return f"seeds of {seeds}" if held >= MOST_SEEDS * seeds else f"seeds of {seeds}; FAILS"


def order_row(
    figure: str, words: str, holds: Sequence[bool], source: str = "", note: str = ORDER_NOTE
) -> ReproducedRow:
    """Row of an order: the number of seeds in which it holds; one that mostly fails says so."""
    count = sum(holds)
    return ReproducedRow(
        figure=figure,
        metric=f"order: {words}, {of_seeds(count, len(holds))}",
        source=source,
        ours=float(count),
        note=note,
    )


def verdict_row(figure: str, metric: str, held: Sequence[bool]) -> ReproducedRow:
    """Row of an order with its verdict: it holds if at most one seed is against it."""
    least = max(len(held) - 1, 1)
    verdict = "holds" if sum(held) >= least else "FAILS"
    return ReproducedRow(
        figure=figure,
        metric=f"order {verdict}: {metric}, seeds of {len(held)}",
        source=f"{least} or more",
        ours=float(sum(held)),
        note="a tie is no order",
    )


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")


@dataclass(frozen=True)
class PlotSeries:
    """Line or cloud of points.

    Attributes:
        x: (n,) horizontal coordinates, in the unit of the plot's axis.
        y: (n,) vertical coordinates, in the unit of the plot's axis.
        points: whether to draw points instead of a line.
    """

    label: str
    x: Sequence[float]
    y: Sequence[float]
    points: bool = False


@dataclass(frozen=True)
class Plot:
    """Figure to draw beside the source's.

    Attributes:
        figure: figure of the source, for example "Figure 5.5".
        x_label: label of the horizontal axis, with its unit.
        y_label: label of the vertical axis, with its unit.
    """

    figure: str
    title: str
    x_label: str
    y_label: str
    series: tuple[PlotSeries, ...]
    log_x: bool = False
    log_y: bool = False


@dataclass(frozen=True)
class Findings:
    """Results of one part of a reproduction."""

    rows: tuple[ReproducedRow, ...] = ()
    plots: tuple[Plot, ...] = ()
    missing: tuple[UnreproducedRow, ...] = ()


# One independent piece of work: a module-level function and plain arguments, so that another process can run
# it.


@dataclass(frozen=True)
class Part:
    """Part of a reproduction: independent jobs, and a function from their results to findings."""

    name: str
    jobs: tuple[Job, ...]
    conclude: Callable[[list[Any]], Findings]


def over_seeds(
    name: str,
    job: Callable[..., Any],
    seeds: int,
    conclude: Callable[[list[list[Any]]], Findings],
    cases: Iterable[tuple[Any, ...]] = ((),),
    *,
    first_seed: int = 0,
) -> Part:
    """Part with one job for each case and seed.

    Args:
        job: module-level function of the case's arguments and, last, a seed.
        seeds: number of seeds, counted from the first one.
        conclude: function from the results, by case and seed, to findings.
        first_seed: the first seed; sources whose seeds were tried out begin with fresh ones.
    """
    drawn = range(first_seed, first_seed + seeds)
    jobs = tuple((job, (*case, seed)) for case in cases for seed in drawn)
    return Part(name, jobs, partial(_by_case, conclude, seeds))


def _by_case(conclude: Callable[[list[list[Any]]], Findings], seeds: int, results: list[Any]) -> Findings:
    return conclude([results[first : first + seeds] for first in range(0, len(results), seeds)])


@dataclass(frozen=True)
class Reproduction:
    """Reproduction of one source."""

    name: str
    title: str
    parts: tuple[Part, ...] = field(default=())


def run(reproduction: Reproduction, spread: Spread = one_by_one) -> Findings:
    """Run the jobs of all parts and collect their findings, in the order of the source.

    Args:
        spread: function that runs jobs, for example in other processes, and gives their results in order.
    """
    jobs = [job for part in reproduction.parts for job in part.jobs]
    results = list(spread(jobs))
    rows: list[ReproducedRow] = []
    plots: list[Plot] = []
    missing: list[UnreproducedRow] = []
    at = 0
    for part in reproduction.parts:
        found = part.conclude(results[at : at + len(part.jobs)])
        at += len(part.jobs)
        rows += found.rows
        plots += found.plots
        missing += found.missing
    rows.sort(key=lambda row: _place(row.figure))
    plots.sort(key=lambda plot: _place(plot.figure))
    missing.sort(key=lambda one: _place(one.figure))
    return Findings(tuple(rows), tuple(plots), tuple(missing))


KINDS = ("Figure", "Table", "Equation", "Section")


def _place(figure: str) -> tuple[int, list[str]]:
    """Sort key of a figure: figures by number, then tables, equations and sections, then the rest."""
    kind, _, number = figure.partition(" ")
    return (KINDS.index(kind) if kind in KINDS else len(KINDS), re.split(r"(?<=\d)(?=[a-z])|\.", number))


def percent(share: float) -> float:
    """A share in percent, rounded to a hundredth."""
    return round(100 * share, 2)


def gain(before: float, after: float) -> float:
    """Relative fall of a latency, as a share."""
    return 1.0 - after / before if before > 0 else 0.0
