"""What a reproduction says: rows beside the source's values, and series to plot."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One figure of a source beside ours.

    Attributes:
        figure: of the source, "Figure 5.5" say.
        metric: what is measured, with its unit.
        source: the source's value or claim, as a text; empty where it gives none.
        ours: our value, in the unit that `metric` names.
        note: why they differ, or how ours was measured.
    """

    figure: str
    metric: str
    source: str
    ours: float
    note: str = ""


def row(figure: str, metric: str, ours: float, *, source: str = "", note: str = "") -> Row:
    """A row in one line."""
    return Row(figure=figure, metric=metric, source=source, ours=ours, note=note)


@dataclass(frozen=True)
class Series:
    """A line or a cloud of points.

    Attributes:
        label: for the legend.
        x: (n,) places across, in the unit of the plot's axis.
        y: (n,) heights, in the unit of the other axis.
        points: whether it is a cloud and no line.
    """

    label: str
    x: Sequence[float]
    y: Sequence[float]
    points: bool = False


@dataclass(frozen=True)
class Plot:
    """A figure to draw beside the source's.

    Attributes:
        figure: of the source, "Figure 5.5" say.
        title: what it shows.
        x_label: of the axis across, with its unit.
        y_label: of the axis upwards, with its unit.
        series: lines and clouds.
        log_x: whether the axis across is logarithmic.
        log_y: whether the axis upwards is.
    """

    figure: str
    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    log_x: bool = False
    log_y: bool = False


@dataclass(frozen=True)
class Findings:
    """All that one part of a reproduction found.

    Attributes:
        rows: our values beside the source's.
        plots: figures to draw.
    """

    rows: tuple[Row, ...] = ()
    plots: tuple[Plot, ...] = ()


# One independent piece of work: a function of module level and plain arguments, for another process to run.
Job = tuple[Callable[..., Any], tuple[Any, ...]]
Spread = Callable[[Sequence[Job]], Iterable[Any]]


@dataclass(frozen=True)
class Part:
    """A part of a reproduction: independent jobs, and what their results come to."""

    name: str
    jobs: tuple[Job, ...]
    conclude: Callable[[list[Any]], Findings]


@dataclass(frozen=True)
class Reproduction:
    """Everything that reproduces one source.

    Attributes:
        name: by which it is called.
        title: of the source.
        parts: independent of one another.
    """

    name: str
    title: str
    parts: tuple[Part, ...] = field(default=())


def one_by_one(jobs: Sequence[Job]) -> Iterable[Any]:
    """Run jobs in this process, in order.

    Args:
        jobs: functions with their arguments.
    """
    return [function(*arguments) for function, arguments in jobs]


def run(reproduction: Reproduction, spread: Spread = one_by_one) -> Findings:
    """Run all jobs of all parts, however `spread` distributes them, and conclude.

    Args:
        reproduction: what to run.
        spread: runs jobs and gives their results in order.
    """
    jobs = [job for part in reproduction.parts for job in part.jobs]
    results = list(spread(jobs))
    rows: list[Row] = []
    plots: list[Plot] = []
    at = 0
    for part in reproduction.parts:
        found = part.conclude(results[at : at + len(part.jobs)])
        at += len(part.jobs)
        rows += found.rows
        plots += found.plots
    rows.sort(key=lambda row: _place(row.figure))
    plots.sort(key=lambda plot: _place(plot.figure))
    return Findings(tuple(rows), tuple(plots))


KINDS = ("Figure", "Table", "Equation", "Section")


def _place(figure: str) -> tuple[int, list[str]]:
    """Where a figure stands: figures by number, then whatever else the source numbers, then the rest."""
    kind, _, number = figure.partition(" ")
    return (KINDS.index(kind) if kind in KINDS else len(KINDS), re.split(r"(?<=\d)(?=[a-z])|\.", number))


def percent(share: float) -> float:
    """A share in percent, to a hundredth."""
    return round(100 * share, 2)


def gain(before: float, after: float) -> float:
    """By which share a latency fell."""
    return 1.0 - after / before if before > 0 else 0.0
