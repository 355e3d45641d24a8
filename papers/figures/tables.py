"""Tables of a reproduction as data: figure, metric, published value, and how ours is obtained."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from papers.figures.bounds import Bound
from papers.figures.rows import (
    FigureRow,
    Findings,
    Part,
    Plot,
    PlotSeries,
    RowKind,
    order_row,
    over_seeds,
    row,
)

__all__ = [
    "PlotLine",
    "PlotOf",
    "StatedRow",
    "above",
    "difference",
    "exact",
    "level",
    "levels",
    "once",
    "order",
    "pooled",
    "ratio",
    "study",
]

# How a value is obtained from the result of one seed: a key, keys of nested mappings, or a function. Where a
# study has cases, the result of a seed is a mapping from the case to its result.
Value = str | tuple[Hashable, ...] | Callable[[Any], Any]
Summary = Callable[[Sequence[float]], float]
Metric = str | Callable[[list[Any]], str]


@dataclass(frozen=True, kw_only=True)
class StatedRow:
    """FigureRow of a table, stated before anything is run.

    Attributes:
        figure: figure, table or section of the source.
        metric: quantity that is measured, with its unit; of an order, its words; a function gives either from
            the list of all seeds' results.
        value: how ours is obtained from the result of one seed; of an order, whether it holds; None leaves
            the seed out, and a row without a seed is not shown.
        source: the source's value or claim, as a text; empty where it gives none.
        note: conditions of our measurement, or the reason for a difference; None for the study's own.
        kind: None for a measured value, which is judged where `source` or `bound` states a bound.
        bound: bound that the specification states, where the text of `source` does not.
        scale: factor from the unit of the result to that of the metric.
        over: how values of the seeds become one.
        spread: whether the lowest and the highest of the seeds are shown.
        ordered: whether the row is of an order.
        whole: whether `value` takes the list of all seeds' results, and gives one figure.
        shown: whether there is such a row, by the list of all seeds' results; None for always.
    """

    figure: str
    metric: Metric
    value: Value
    source: str = ""
    note: str | None = None
    kind: RowKind | None = None
    bound: Bound | None = None
    scale: float = 1.0
    over: Summary = statistics.median
    spread: bool = True
    ordered: bool = False
    whole: bool = False
    shown: Callable[[list[Any]], object] | None = None


def level(
    figure: str, metric: Metric, value: Value, source: str = "", note: str | None = None, **options: Any
) -> StatedRow:
    """FigureRow of a measured value: the median over the seeds, with the lowest and the highest.

    Args:
        options: attributes of `StatedRow`.
    """
    return StatedRow(figure=figure, metric=metric, value=value, source=source, note=note, **options)


def levels(figure: str, entries: Iterable[tuple[str, Value, str]], **options: Any) -> Iterator[StatedRow]:
    """Rows of one figure: metric, value and source of each; options are those of `level`."""
    return (level(figure, metric, value, source, **options) for metric, value, source in entries)


def order(figure: str, words: Metric, holds: Value, source: str = "", note: str | None = None) -> StatedRow:
    """FigureRow of an order, which holds in a seed if `holds` is true of its result."""
    return level(figure, words, holds, source, note, kind=RowKind.ORDER, ordered=True)


def exact(figure: str, metric: str, value: Value, source: str = "", note: str | None = None) -> StatedRow:
    """FigureRow of a closed form."""
    return level(figure, metric, value, source, note, kind=RowKind.EXACT, spread=False)


def ratio(first: Value, second: Value) -> Callable[[Any], float]:
    """Value of a row: one value of a seed's result over another."""
    return lambda result: float(obtained(first, result) / obtained(second, result))


def difference(first: Value, second: Value) -> Callable[[Any], float]:
    """Value of a row: one value of a seed's result less another."""
    return lambda result: float(obtained(first, result) - obtained(second, result))


def above(first: Value, second: Value) -> Callable[[Any], bool]:
    """Value of an order: whether one value of a seed's result is above another."""
    return lambda result: bool(obtained(first, result) > obtained(second, result))


def pooled(
    figure: str, metric: Metric, value: Callable[[list[Any]], float | None], *texts: str, **options: Any
) -> StatedRow:
    """FigureRow of one figure of all seeds together; texts and options are those of `level`."""
    return level(figure, metric, value, *texts, whole=True, spread=False, **options)


@dataclass(frozen=True)
class PlotLine:
    """PlotLine of a plot: the median over the seeds, or what `over` gives, of each value, by coordinates."""

    label: str
    x: Sequence[float] | Value
    y: Sequence[Value] | Value
    points: bool = False
    over: Summary = statistics.median


@dataclass(frozen=True)
class PlotOf:
    """Plot of a study, stated before anything is run; the labels are those of `Plot`."""

    figure: str
    title: str
    x_label: str
    y_label: str
    lines: Sequence[PlotLine]
    log_x: bool = False
    log_y: bool = False


def study(
    name: str,
    job: Callable[..., Any],
    seeds: int,
    rows: Iterable[StatedRow],
    *,
    arguments: tuple[Any, ...] = (),
    cases: Iterable[Hashable] | None = None,
    plots: Iterable[PlotOf] = (),
    note: str = "",
    first_seed: int = 0,
) -> Part:
    """Part whose rows are stated: one job for each case and seed.

    Args:
        job: module-level function of the case and, last, a seed.
        seeds: number of seeds, counted from the first one.
        arguments: arguments of a job without cases, before the seed.
        cases: arguments of each case, a tuple of several or the only one; None for a job of the seed alone.
        note: note of rows that have none of their own.
        first_seed: the first seed.
    """
    stated, drawn = tuple(rows), tuple(plots)
    names = None if cases is None else tuple(cases)
    each = [arguments] if names is None else [one if isinstance(one, tuple) else (one,) for one in names]
    return over_seeds(
        name,
        job,
        seeds,
        partial(_conclude, stated, drawn, names, note),
        each,
        figures=_figures(stated, drawn),
        first_seed=first_seed,
    )


def once(
    name: str,
    job: Callable[..., Any],
    rows: Iterable[StatedRow],
    *,
    arguments: tuple[Any, ...] = (),
    note: str = "",
) -> Part:
    """Part of one job without a seed, such as closed forms."""
    stated = tuple(rows)
    return Part(
        name,
        ((job, arguments),),
        lambda results: _conclude(stated, (), None, note, [results]),
        _figures(stated, ()),
    )


def _figures(rows: Sequence[StatedRow], plots: Sequence[PlotOf]) -> tuple[str, ...]:
    return tuple(dict.fromkeys([one.figure for one in rows] + [one.figure for one in plots]))


def _conclude(
    rows: Sequence[StatedRow],
    plots: Sequence[PlotOf],
    names: tuple[Hashable, ...] | None,
    note: str,
    results: list[list[Any]],
) -> Findings:
    """Findings of results by case and seed."""
    seeds: list[Any] = (
        results[0]
        if names is None
        else [dict(zip(names, each, strict=True)) for each in zip(*results, strict=True)]
    )
    shown = (_row(one, seeds, note) for one in rows if one.shown is None or one.shown(seeds))
    return Findings(tuple(filter(None, shown)), tuple(_plot(one, seeds) for one in plots))


def _row(stated: StatedRow, seeds: list[Any], note: str) -> FigureRow | None:
    words = note if stated.note is None else stated.note
    metric = stated.metric(seeds) if callable(stated.metric) else stated.metric
    if stated.whole:
        assert callable(stated.value)
        found = [stated.value(seeds)]
    else:
        found = [obtained(stated.value, seed) for seed in seeds]
    if stated.ordered:
        return order_row(
            stated.figure, metric, found, stated.source, words, kind=stated.kind or RowKind.ORDER
        )
    values = [stated.scale * float(one) for one in found if one is not None]
    if not values:
        return None
    return row(
        stated.figure,
        metric,
        stated.over(values),
        source=stated.source,
        note=words,
        kind=stated.kind,
        bound=stated.bound,
        of=values if stated.spread else (),
    )


def obtained(value: Value, result: Any) -> Any:
    """What a row takes from the result of one seed."""
    if callable(value):
        return value(result)
    for key in (value,) if isinstance(value, str) else value:
        result = result[key]
    return result


def _plot(stated: PlotOf, seeds: list[Any]) -> Plot:
    return Plot(
        stated.figure,
        stated.title,
        stated.x_label,
        stated.y_label,
        tuple(
            PlotSeries(one.label, _points(one.x, seeds), _points(one.y, seeds, one.over), one.points)
            for one in stated.lines
        ),
        stated.log_x,
        stated.log_y,
    )


def _points(values: Any, seeds: list[Any], over: Summary = statistics.median) -> Sequence[float]:
    """Coordinates: one for each seed of a single value, else medians, or the numbers as they stand."""
    if isinstance(values, (str, tuple)) or callable(values):
        if isinstance(values, tuple) and all(isinstance(one, (int, float)) for one in values):
            return values
        return [float(obtained(values, seed)) for seed in seeds]
    return [
        float(one) if isinstance(one, (int, float)) else over([obtained(one, seed) for seed in seeds])
        for one in values
    ]
