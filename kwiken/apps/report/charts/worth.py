"""Charts of what copies buy: p99 on later requests by budget, and p99 expected by spend."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from kwiken.apps.report.charts.scales import Scale, linear_scale, linear_ticks
from kwiken.apps.report.charts.svg import Drawing
from kwiken.apps.report.model.number_format import ms, percent
from kwiken.tail.advice.worth import Worth

WIDTH, HEIGHT = 520, 240
LEFT, RIGHT, TOP, BOTTOM = 62, 16, 24, 46


def draw_worth(worth: Sequence[Worth], before_ms: float, knee: float | None, *, sure: bool = True) -> Markup:
    """Draw p99 on the later requests by budget, from no budget on.

    Args:
        worth: what each budget buys, smallest budget first, one or more.
        before_ms: p99 of these requests without copies, milliseconds.
        knee: the smallest budget that buys nearly as much as any other; None for none.
        sure: whether the cuts have intervals.
    """
    drawing = Drawing(WIDTH, HEIGHT, label="p99 of the later requests by budget")
    across = Scale(0.0, 1.06 * worth[-1].budget, LEFT, WIDTH - RIGHT)
    lows = [max(0.0, before_ms * (1 - each.high)) for each in worth]
    highs = [before_ms * (1 - each.low) for each in worth]
    up = linear_scale(max([before_ms, *highs, *(each.p99_ms for each in worth)]), HEIGHT - BOTTOM, TOP)
    _axes(drawing, up, "budget, share of all work")
    places = [across(each.budget) for each in worth]
    drawing.line((across(0.0), up(before_ms)), (WIDTH - RIGHT, up(before_ms)), "line before")
    for x, low, high in zip(places, lows, highs, strict=True) if sure else ():
        drawing.line((x, up(low)), (x, up(high)), "drop after")
    points = [(across(0.0), up(before_ms)), *((x, up(w.p99_ms)) for x, w in zip(places, worth, strict=True))]
    drawing.path(points, "line after")
    for x, each in zip(places, worth, strict=True):
        hint = f"{percent(each.budget)}: p99 {ms(each.p99_ms)}, {percent(each.spent)} spent"
        drawing.circle((x, up(each.p99_ms)), 6 if each.budget == knee else 4, "dot after", hint=hint)
        drawing.text((x, HEIGHT - BOTTOM + 16), f"{100 * each.budget:.3g}%", "tick", anchor="middle")
        if each.budget == knee:
            drawing.text((x, TOP - 8), "enough", "name", anchor="middle")
    return drawing.markup()


def draw_by_spend(by_spend: Sequence[tuple[float, float]], chosen: tuple[float, float]) -> Markup:
    """Draw the p99 that a plan's planner expected of each spend, and the plan's own.

    Args:
        by_spend: spend, as a share of all work, and p99 in milliseconds, cheapest first, two or more.
        chosen: spend and p99 of the plan.
    """
    drawing = Drawing(WIDTH, HEIGHT, label="p99 expected by spend on copies")
    across = linear_scale(max(by_spend[-1][0], chosen[0]), LEFT, WIDTH - RIGHT)
    up = linear_scale(by_spend[0][1], HEIGHT - BOTTOM, TOP)
    _axes(drawing, up, "spend on copies, share of all work")
    for value in linear_ticks(across, 4):
        drawing.text((across(value), HEIGHT - BOTTOM + 16), f"{100 * value:.3g}%", "tick", anchor="middle")
    drawing.path([(across(spent), up(p99_ms)) for spent, p99_ms in by_spend], "line after")
    for spent, p99_ms in by_spend:
        hint = f"{percent(spent)} spent: p99 {ms(p99_ms)}"
        drawing.circle((across(spent), up(p99_ms)), 3, "dot after", hint=hint)
    drawing.circle((across(chosen[0]), up(chosen[1])), 6, "dot after", hint=f"the plan: {ms(chosen[1])}")
    drawing.text((across(chosen[0]), up(chosen[1]) - 10), "the plan", "name", anchor="middle")
    return drawing.markup()


def _axes(drawing: Drawing, up: Scale, across: str) -> None:
    """Draw the rules of p99, and the names of both axes."""
    for value in linear_ticks(up, 4):
        drawing.line((LEFT, up(value)), (WIDTH - RIGHT, up(value)), "rule")
        drawing.text((LEFT - 6, up(value) + 4), f"{value:g}", "tick", anchor="end")
    drawing.text((14, (TOP + HEIGHT - BOTTOM) / 2), "p99, ms", "axis", anchor="middle", turn=True)
    drawing.text(((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8), across, "axis", anchor="middle")
