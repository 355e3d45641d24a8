"""Results of a reproduction: rows with their verdicts, plots, and the jobs that yield both."""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import Any, Final

import msgspec

from kwiken.base.errors import InputError
from kwiken.base.jobs import Job, Spread, one_by_one
from papers.figures.bounds import Bound, stated_bound

__all__ = [
    "FigureRow",
    "Findings",
    "MissingRow",
    "Part",
    "Plot",
    "PlotSeries",
    "Reproduction",
    "RequiredRow",
    "RowKind",
    "RowVerdict",
    "gain",
    "median_row",
    "order_row",
    "over_seeds",
    "percent",
    "row",
    "run",
    "unreproduced",
]

SEEDS_OF_AN_ORDER: Final = (7, 8)  # an order holds if it does in at least 7 of 8 seeds
ERRORS: Final = ("error", "deviation")  # words of metrics of which less is better
EXACT_DIFFERENCE: Final = 0.005  # relative, of a closed form from the printed value: its rounding


class RowKind(StrEnum):
    """What a row is, which decides how it is judged.

    BOUND: a measured value with a bound that was stated before: `met` or `missed`.
    ORDER: an order of alternatives, `held` in at least 7 of 8 seeds or `failed`; a tie holds nothing.
    EXACT: a closed form, `met` if it is the printed value up to rounding, else `missed`.
    UNSTATED: a measured value without one of the source to compare with: counts for nothing.
    """

    BOUND = "bound"
    ORDER = "order"
    EXACT = "exact"
    UNSTATED = "unstated"


class RowVerdict(StrEnum):
    """RowVerdict on a row; none for kinds that count for nothing."""

    MET = "met"
    MISSED = "missed"
    HELD = "held"
    FAILED = "failed"
    NONE = ""


class FigureRow(msgspec.Struct, frozen=True, kw_only=True):
    """One value of a source beside ours.

    Attributes:
        figure: figure, table or section of the source, for example "Figure 5.5".
        metric: quantity that is measured, with its unit.
        source: the source's value or claim, as a text; empty where it gives none.
        ours: our value, in the unit that `metric` names.
        kind: what the row is.
        verdict: verdict on `ours`; empty for kinds that count for nothing.
        note: reason for a difference, or conditions of our measurement.
        low: lowest of the values that `ours` is the median of, in the same unit; None where it is no median.
        high: highest of them, in the same unit; None where `ours` is no median.
    """

    figure: str
    metric: str
    source: str
    ours: float
    kind: RowKind = RowKind.UNSTATED
    verdict: RowVerdict = RowVerdict.NONE
    note: str = ""
    low: float | None = None
    high: float | None = None


class MissingRow(msgspec.Struct, frozen=True, kw_only=True):
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
        MissingRow(figure=one.figure, metric=one.metric, source=one.source, reason=one.reason)
        for one in required
        if one.reason
    )
    figures = tuple(dict.fromkeys(one.figure for one in missing))
    return Part("not reproduced", (), lambda _: Findings(missing=missing), figures)


def row(
    figure: str,
    metric: str,
    ours: float,
    *,
    source: str = "",
    note: str = "",
    kind: RowKind | None = None,
    bound: Bound | None = None,
    of: Sequence[float] = (),
) -> FigureRow:
    """FigureRow of one value, with its verdict.

    Args:
        kind: None for a measured value, which is judged where the source or `bound` states a bound.
        bound: bound that the specification states; None for the one that the text of `source` states.
        of: values over the seeds, of which the lowest and the highest are shown.
    """
    if bound is None:
        bound = stated_bound(source, error=is_error(metric))
    if kind is None:
        kind = RowKind.UNSTATED if bound is None else RowKind.BOUND
    verdict = RowVerdict.NONE
    if kind is RowKind.BOUND and bound is not None:
        verdict = RowVerdict.MET if bound.holds(ours) else RowVerdict.MISSED
    elif kind is RowKind.EXACT:
        verdict = RowVerdict.MET if _is_printed(ours, source) else RowVerdict.MISSED
    return FigureRow(
        figure=figure,
        metric=metric,
        source=source,
        ours=_rounded(ours),
        kind=kind,
        verdict=verdict,
        note=note,
        low=_rounded(min(of)) if of else None,
        high=_rounded(max(of)) if of else None,
    )


def is_error(metric: str) -> bool:
    """Whether a metric is an error, of which less than the source's is as good."""
    return any(word in metric for word in ERRORS)


def _is_printed(ours: float, source: str) -> bool:
    """Whether a closed form gives the printed value; true if none is printed, since nothing contradicts."""
    bound = stated_bound(source)
    if bound is None or bound.low == -float("inf") or bound.high == float("inf"):
        return bound is None or bound.holds(ours)
    middle, half = (bound.low + bound.high) / 2, (bound.high - bound.low) / 2
    unit = half if half > abs(middle) * 0.1 * 1.001 else 0.0  # the printed digits decide for small numbers
    return abs(ours - middle) <= max(EXACT_DIFFERENCE * abs(middle), unit)


def median_row(
    figure: str,
    metric: str,
    values: Sequence[float],
    source: str = "",
    note: str = "",
    *,
    kind: RowKind | None = None,
    bound: Bound | None = None,
) -> FigureRow:
    """FigureRow of a median over the seeds, with the lowest and the highest value."""
    return row(
        figure,
        metric,
        statistics.median(values),
        source=source,
        note=note,
        kind=kind,
        bound=bound,
        of=values,
    )


def order_row(
    figure: str,
    words: str,
    holds: Sequence[bool],
    source: str = "",
    note: str = "",
    *,
    kind: RowKind = RowKind.ORDER,
) -> FigureRow:
    """FigureRow of an order: `ours` is the number of seeds in which the order holds strictly."""
    count, seeds = sum(map(bool, holds)), len(holds)
    needed, of = SEEDS_OF_AN_ORDER
    verdict = RowVerdict.HELD if count * of >= needed * seeds else RowVerdict.FAILED
    return FigureRow(
        figure=figure,
        metric=f"order: {words}, seeds of {seeds}",
        source=source,
        ours=float(count),
        kind=kind,
        verdict=verdict if kind is RowKind.ORDER else RowVerdict.NONE,
        note=note,
    )


def _rounded(value: float) -> float:
    return float(f"{value:.4g}") if abs(value) < 1e4 else float(round(value))  # noqa: PLR2004 - whole numbers stay


@dataclass(frozen=True)
class PlotSeries:
    """PlotLine or cloud of points.

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

    rows: tuple[FigureRow, ...] = ()
    plots: tuple[Plot, ...] = ()
    missing: tuple[MissingRow, ...] = ()


@dataclass(frozen=True)
class Part:
    """Part of a reproduction: independent jobs, and a function from their results to findings.

    Attributes:
        jobs: module-level functions with plain arguments, so that other processes can run them.
        conclude: function from the results, in the order of the jobs, to findings.
        figures: every figure of the findings.
    """

    name: str
    jobs: tuple[Job, ...]
    conclude: Callable[[list[Any]], Findings]
    figures: tuple[str, ...]


def over_seeds(
    name: str,
    job: Callable[..., Any],
    seeds: int,
    conclude: Callable[[list[list[Any]]], Findings],
    cases: Iterable[tuple[Any, ...]] = ((),),
    *,
    figures: Iterable[str],
    first_seed: int = 0,
) -> Part:
    """Part with one job for each case and seed.

    Args:
        job: module-level function of the case's arguments and, last, a seed.
        seeds: number of seeds, counted from the first one.
        conclude: function from the results, by case and seed, to findings.
        figures: every figure of the findings.
        first_seed: the first seed; sources whose seeds were tried out begin with fresh ones.
    """
    drawn = range(first_seed, first_seed + seeds)
    jobs = tuple((job, (*case, seed)) for case in cases for seed in drawn)
    return Part(name, jobs, partial(_by_case, conclude, seeds), tuple(figures))


def _by_case(conclude: Callable[[list[list[Any]]], Findings], seeds: int, results: list[Any]) -> Findings:
    return conclude([results[first : first + seeds] for first in range(0, len(results), seeds)])


@dataclass(frozen=True)
class Reproduction:
    """Reproduction of one source."""

    name: str
    title: str
    parts: tuple[Part, ...] = field(default=())

    def only(self, figure: str) -> Reproduction:
        """The parts that yield a figure.

        Args:
            figure: name of the figure; the word "Figure" may be left out.

        Raises:
            InputError: no part yields the figure.
        """
        every = {name.lower(): name for part in self.parts for name in part.figures}
        name = every.get(figure.lower()) or every.get(f"figure {figure.lower()}")
        if name is None:
            known = ", ".join(sorted(every.values(), key=_position))
            raise InputError(f"{self.name} has no figure {figure!r}; it has {known}", where="--figure")
        chosen = (part for part in self.parts if name in part.figures)
        return Reproduction(self.name, self.title, tuple(_narrowed(part, name) for part in chosen))


def _narrowed(part: Part, figure: str) -> Part:
    """A part whose findings are those of one figure."""

    def conclude(results: list[Any]) -> Findings:
        found = part.conclude(results)
        return Findings(
            tuple(one for one in found.rows if one.figure == figure),
            tuple(one for one in found.plots if one.figure == figure),
            tuple(one for one in found.missing if one.figure == figure),
        )

    return Part(part.name, part.jobs, conclude, (figure,))


def jobs_of(reproduction: Reproduction) -> list[Job]:
    """Jobs of all parts, each once: parts may share the results of a job."""
    return list(dict.fromkeys(job for part in reproduction.parts for job in part.jobs))


def run(reproduction: Reproduction, spread: Spread = one_by_one) -> Findings:
    """Run the jobs of all parts and collect their findings, in the order of the source.

    Args:
        spread: function that runs jobs, for example in other processes, and gives their results in order.
    """
    jobs = jobs_of(reproduction)
    results = dict(zip(jobs, spread(jobs), strict=True))
    rows: list[FigureRow] = []
    plots: list[Plot] = []
    missing: list[MissingRow] = []
    for part in reproduction.parts:
        found = part.conclude([results[job] for job in part.jobs])
        named: list[FigureRow | Plot | MissingRow] = [*found.rows, *found.plots, *found.missing]
        strays = {one.figure for one in named} - set(part.figures)
        assert not strays, f"{part.name} yields {strays}, which it does not name"
        rows += found.rows
        plots += found.plots
        missing += found.missing
    rows.sort(key=lambda row: _position(row.figure))
    plots.sort(key=lambda plot: _position(plot.figure))
    missing.sort(key=lambda one: _position(one.figure))
    return Findings(tuple(rows), tuple(plots), tuple(missing))


KINDS = ("Figure", "Table", "Equation", "Section")


def _position(figure: str) -> tuple[int, list[str]]:
    """Sort key of a figure: figures by number, then tables, equations and sections, then the rest."""
    kind, _, number = figure.partition(" ")
    return (KINDS.index(kind) if kind in KINDS else len(KINDS), re.split(r"(?<=\d)(?=[a-z])|\.", number))


def percent(share: float) -> float:
    """A share in percent, rounded to a hundredth."""
    return round(100 * share, 2)


def gain(before: float, after: float) -> float:
    """Relative fall of a latency, as a share."""
    return 1.0 - after / before if before > 0 else 0.0
