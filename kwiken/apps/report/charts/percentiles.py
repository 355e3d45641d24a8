"""Chart of latency percentiles from the median to the tail: a line per arm, a band per expectation."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from kwiken.apps.report.charts.scales import Scale, log_scale, log_ticks
from kwiken.apps.report.charts.svg import Drawing, Point
from kwiken.apps.report.model.number_format import ms
from kwiken.apps.report.model.statistics import PERCENTILES, Floats, tail_points

WIDTH, HEIGHT = 820, 380
LEFT, RIGHT, TOP, BOTTOM = 52, 14, 14, 44
AXIS = (50.0, 75.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.99)


@dataclass(frozen=True)
class Line:
    """Line of one arm's measured latencies.

    Attributes:
        key: class of the style sheet, such as `before`, `after` or `even`.
        latencies_ms: latencies of the requests, (n,).
    """

    key: str
    label: str
    latencies_ms: Floats


@dataclass(frozen=True)
class Band:
    """Band of expected percentiles.

    Attributes:
        ladder: latency in ms by percentile, with the keys of `PERCENTILES`.
        bounds: lower and upper bound in ms of some or all percentiles.
    """

    key: str
    label: str
    ladder: dict[str, float]
    bounds: dict[str, tuple[float, float]]


def nines(percentile: float) -> float:
    """Position of a percentile on the log-tail axis: -log10 of the share beyond it."""
    return -math.log10(1 - percentile / 100)


def draw_ladder(lines: Sequence[Line], bands: Sequence[Band] = ()) -> Markup:
    """Draw the chart; lines end where their number of requests cannot resolve more."""
    curves = {line.key: tail_points(line.latencies_ms) for line in lines}
    steps = {band.key: _steps(band.ladder) for band in bands}
    drawing = Drawing(WIDTH, HEIGHT, label="Latency of requests by percentile")
    last = max([x for points in curves.values() for x, _ in points] or [nines(99.9)])
    across = Scale(nines(50), max(last, nines(99)) + 0.06, LEFT, WIDTH - RIGHT)
    heights = [y for points in (*curves.values(), *steps.values()) for _, y in points]
    heights += [y for band in bands for bound in band.bounds.values() for y in bound]
    up = log_scale(heights, HEIGHT - BOTTOM, TOP)
    _axes(drawing, across, up)
    for band in bands:
        _draw_band(drawing, band, steps[band.key], across, up)
    for line in lines:
        _draw_line(drawing, line.key, curves[line.key], across, up)
    return drawing.markup()


def _steps(ladder: dict[str, float]) -> list[Point]:
    return [(nines(at), ladder[key]) for key, at in PERCENTILES.items() if ladder.get(key, 0) > 0]


def _axes(drawing: Drawing, across: Scale, up: Scale) -> None:
    for value in log_ticks(up):
        drawing.line((LEFT, up(value)), (WIDTH - RIGHT, up(value)), "rule")
        drawing.text((LEFT - 6, up(value) + 4), f"{value:g}", "tick", anchor="end")
    for percentile in AXIS:
        if nines(percentile) <= across.high:
            x = across(nines(percentile))
            drawing.line((x, TOP), (x, HEIGHT - BOTTOM), "rule")
            drawing.text((x, HEIGHT - BOTTOM + 16), f"{percentile:g}", "tick", anchor="middle")
    drawing.text(((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8), "percentile of requests", "axis", anchor="middle")
    drawing.text((13, (TOP + HEIGHT - BOTTOM) / 2), "latency, ms", "axis", anchor="middle", turn=True)


def _draw_band(drawing: Drawing, band: Band, steps: list[Point], across: Scale, up: Scale) -> None:
    rungs = [(nines(at), band.bounds[key]) for key, at in PERCENTILES.items() if key in band.bounds]
    rungs = [(x, bound) for x, bound in rungs if x <= across.high]
    edge = [(across(x), up(high)) for x, (_, high) in rungs]
    edge += [(across(x), up(low)) for x, (low, _) in reversed(rungs)]
    drawing.path(edge, f"band {band.key}", closed=True)
    kept = [(across(x), up(y)) for x, y in steps if x <= across.high]
    drawing.path(kept, f"line {band.key}")
    for (x, y), (_, value) in zip(kept, steps, strict=False):
        drawing.circle((x, y), 3.2, f"dot {band.key}", hint=f"{band.label}: {ms(value)}")


def _draw_line(drawing: Drawing, key: str, points: list[Point], across: Scale, up: Scale) -> None:
    drawing.path([(across(x), up(y)) for x, y in points], f"line {key}")
    for percentile in PERCENTILES.values():
        x = nines(percentile)
        if points and x <= points[-1][0]:
            y = _at(points, x)
            hint = f"{key} p{percentile:g}: {ms(y)}"
            drawing.circle((across(x), up(y)), 3.6, f"dot {key}", hint=hint)


def _at(points: list[Point], x: float) -> float:
    """Height of a line at x, by interpolation between its points."""
    for (x0, y0), (x1, y1) in itertools.pairwise(points):
        if x0 <= x <= x1:
            return y0 + (y1 - y0) * (x - x0) / (x1 - x0) if x1 > x0 else y1
    return points[-1][1] if x > points[-1][0] else points[0][1]
