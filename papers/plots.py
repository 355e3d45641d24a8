"""PlotLine and scatter plots of a reproduction."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kwiken.apps.report.charts.scales import Scale, linear_scale, linear_ticks, log_scale, log_ticks
from kwiken.apps.report.charts.svg import Drawing
from kwiken.apps.report.model.page import Figure

if TYPE_CHECKING:
    from papers.figures.rows import Plot, PlotSeries

WIDTH, HEIGHT = 520, 300
LEFT, RIGHT, TOP, BOTTOM = 52, 14, 26, 44
TONES = ("after", "before", "expected", "even", "fifth")


def draw_plot(plot: Plot) -> Figure:
    """Draw one figure, with a legend entry per series."""
    drawing = Drawing(WIDTH, HEIGHT, label=f"{plot.figure}: {plot.title}")
    across, up = _scales(plot)
    drawing.text((LEFT, 14), f"{plot.figure}: {plot.title}", "name")
    _axes(drawing, plot, across, up)
    for series, tone in zip(plot.series, _tones(plot), strict=True):
        _series(drawing, series, tone, across, up)
    legend = tuple(zip(_tones(plot), (series.label for series in plot.series), strict=True))
    return Figure(svg=drawing.markup(), legend=legend)


def _tones(plot: Plot) -> list[str]:
    return [TONES[place % len(TONES)] for place in range(len(plot.series))]


def _scales(plot: Plot) -> tuple[Scale, Scale]:
    xs = [float(x) for series in plot.series for x in series.x]
    ys = [float(y) for series in plot.series for y in series.y]
    up = (
        log_scale(ys, HEIGHT - BOTTOM, TOP)
        if plot.log_y
        else replace(linear_scale(max(ys), HEIGHT - BOTTOM, TOP), low=min(0.0, *ys))
    )
    if plot.log_x:
        return log_scale(xs, LEFT, WIDTH - RIGHT), up
    low = min(xs) if min(xs) > max(xs) / 3 else min(0.0, *xs)
    return Scale(low, max(xs) + 0.03 * (max(xs) - low), LEFT, WIDTH - RIGHT), up


def _axes(drawing: Drawing, plot: Plot, across: Scale, up: Scale) -> None:
    for value in log_ticks(up) if plot.log_y else linear_ticks(up):
        drawing.line((LEFT, up(value)), (WIDTH - RIGHT, up(value)), "rule")
        drawing.text((LEFT - 6, up(value) + 4), f"{value:,g}", "tick", anchor="end")
    places = log_ticks(across) if plot.log_x else [t for t in linear_ticks(across, 8) if t >= across.low]
    for value in places:
        drawing.line((across(value), TOP), (across(value), HEIGHT - BOTTOM), "rule")
        drawing.text((across(value), HEIGHT - BOTTOM + 15), f"{value:,g}", "tick", anchor="middle")
    drawing.text(((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8), plot.x_label, "axis", anchor="middle")
    drawing.text((13, (TOP + HEIGHT - BOTTOM) / 2), plot.y_label, "axis", anchor="middle", turn=True)


def _series(drawing: Drawing, series: PlotSeries, tone: str, across: Scale, up: Scale) -> None:
    places = [(across(float(x)), up(float(y))) for x, y in zip(series.x, series.y, strict=True)]
    if not series.points:
        drawing.path(places, f"line {tone}")
    radius = 2.2 if len(places) > 1 and series.points else 3.4
    for place, x, y in zip(places, series.x, series.y, strict=True):
        drawing.circle(place, radius, f"dot {tone}", hint=f"{series.label}: {x:g}, {y:g}")
