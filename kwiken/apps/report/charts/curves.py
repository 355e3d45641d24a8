"""Chart of variance-response curves: a stage's variance by the share of its calls that are reissued."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from kwiken.apps.report.charts.scales import Scale, linear_scale, linear_ticks
from kwiken.apps.report.charts.svg import Drawing, short_name
from kwiken.apps.report.model.number_format import percent

WIDTH, HEIGHT = 270, 190
LEFT, RIGHT, TOP, BOTTOM = 40, 10, 30, 34
FLOOR = 1e-3  # the left end of the logarithmic axis, for 0


@dataclass(frozen=True, kw_only=True)
class CurveView:
    """Curve of one stage.

    Attributes:
        share: shares of calls reissued, from 0 to 1, ascending from 0.
        risk: variance at each share, as a ratio to that without reissues.
        hull: lower convex hull of `risk` at each share.
        chosen: share that the plan gives the stage; 0 for none.
        even: share that the even spread gives the stage; None if there is no such plan.
    """

    name: str
    share: Sequence[float]
    risk: Sequence[float]
    hull: Sequence[float]
    chosen: float
    even: float | None = None


def draw_curve(view: CurveView) -> Markup:
    """Draw the curve of one stage: points, hull, and the share that the plan chose."""
    drawing = Drawing(WIDTH, HEIGHT, label=f"Variance of {view.name} against the share of calls reissued")
    across = Scale(_log(FLOOR), 0.0, LEFT, WIDTH - RIGHT)
    up = linear_scale(max([1.0, *view.risk]), HEIGHT - BOTTOM, TOP)
    drawing.text((LEFT, 16), short_name(view.name, 30), "name")
    _axes(drawing, across, up)
    drawing.path([(across(_log(x)), up(y)) for x, y in zip(view.share, view.hull, strict=True)], "line after")
    for x, y in zip(view.share, view.risk, strict=True):
        hint = f"{percent(x)} reissued: {percent(y, places=0)} of the variance"
        drawing.circle((across(_log(x)), up(y)), 2, "dot faint", hint=hint)
    if view.even is not None and view.even > 0:
        _mark(drawing, view, view.even, "even", across, up)
    if view.chosen > 0:
        _mark(drawing, view, view.chosen, "after", across, up)
    return drawing.markup()


def _axes(drawing: Drawing, across: Scale, up: Scale) -> None:
    for value in linear_ticks(up, 4):
        drawing.line((LEFT, up(value)), (WIDTH - RIGHT, up(value)), "rule")
        drawing.text((LEFT - 5, up(value) + 4), percent(value, places=0), "tick", anchor="end")
    for share, label in ((FLOOR, "0.1%"), (0.01, "1%"), (0.1, "10%"), (1.0, "100%")):
        x = across(_log(share))
        drawing.line((x, TOP), (x, HEIGHT - BOTTOM), "rule")
        anchor = "end" if share == 1 else "middle"
        drawing.text((x, HEIGHT - BOTTOM + 14), label, "tick", anchor=anchor)
    drawing.text(((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 5), "share of calls reissued", "tick", anchor="middle")


def _mark(drawing: Drawing, view: CurveView, at: float, cls: str, across: Scale, up: Scale) -> None:
    x, y = across(_log(at)), up(height_at(view, at))
    drawing.line((x, HEIGHT - BOTTOM), (x, y), f"drop {cls}")
    drawing.circle((x, y), 5, f"dot {cls}", hint=f"{percent(at)} reissued")


def height_at(view: CurveView, at: float) -> float:
    """Height of the hull at a share, by linear interpolation."""
    points = list(zip(view.share, view.hull, strict=True))
    for (x0, y0), (x1, y1) in itertools.pairwise(points):
        if x0 <= at <= x1:
            return y0 + (y1 - y0) * (at - x0) / (x1 - x0)
    return points[-1][1] if points else 1.0


def _log(share: float) -> float:
    return math.log10(max(share, FLOOR))
