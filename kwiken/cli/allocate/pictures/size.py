"""Picture of a sizing: cost against p99, with copies and without."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kwiken.allocator.capacity.study import FrontierPoint
from kwiken.apps.report.charts.scales import log_scale, log_ticks
from kwiken.apps.report.charts.svg import Drawing

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 380, 64, 20, 44, 48
STYLE: Final = (
    "text{font:12px system-ui,sans-serif;fill:#222}.t{font-size:10px;fill:#555}svg{background:#fff}"
    ".rule{stroke:#e4e7ea}.joint{stroke:#1f6feb;fill:none;stroke-width:2}.alone{stroke:#c4551d;fill:none;"
    "stroke-width:2}.target{stroke:#555;stroke-dasharray:4 3}.dj{fill:#1f6feb}.da{fill:#c4551d}"
    ".chosen{fill:none;stroke:#222;stroke-width:2}"
)
WAYS: Final = (
    (True, "replicas, nodes and copies together", "joint", "dj"),
    (False, "without copies", "alone", "da"),
)


def draw_frontier(points: Sequence[FrontierPoint], chosen: tuple[float, float], target_ms: float) -> str:
    """Draw cost against p99 as a self-contained SVG, both axes logarithmic.

    Args:
        points: cheapest sizes for several targets, with copies and without.
        chosen: p99 in the trials, milliseconds, and cost of the answer.
        target_ms: p99 to reach, milliseconds.
    """
    drawing = Drawing(WIDTH, HEIGHT, label="Cost against p99, with copies and without")
    across = log_scale([target_ms, *(point.p99_ms for point in points)], LEFT, WIDTH - RIGHT)
    up = log_scale([point.cost for point in points], HEIGHT - BOTTOM, TOP)
    for value in log_ticks(up):
        drawing.line((LEFT, up(value)), (WIDTH - RIGHT, up(value)), "rule")
        drawing.text((LEFT - 6, up(value) + 4), f"{value:,g}", "t", anchor="end")
    for value in log_ticks(across):
        drawing.line((across(value), TOP), (across(value), HEIGHT - BOTTOM), "rule")
        drawing.text((across(value), HEIGHT - BOTTOM + 15), f"{value:,g}", "t", anchor="middle")
    drawing.text(((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10), "p99 of whole requests, ms", anchor="middle")
    drawing.text((14, (TOP + HEIGHT - BOTTOM) / 2), "cost", anchor="middle", turn=True)
    drawing.line((across(target_ms), TOP), (across(target_ms), HEIGHT - BOTTOM), "target")
    drawing.text((across(target_ms) + 4, TOP + 12), f"target {target_ms:g} ms", "t")
    for place, (with_copies, label, line, dot) in enumerate(WAYS):
        own = [point for point in points if point.with_copies is with_copies]
        drawing.path([(across(point.p99_ms), up(point.cost)) for point in own], line)
        for point in own:
            at = across(point.p99_ms), up(point.cost)
            drawing.circle(at, 3, dot, hint=f"{label}: {point.p99_ms:.4g} ms at a cost of {point.cost:.4g}")
        drawing.rect((LEFT + place * 280, 12), (12, 12), dot)
        drawing.text((LEFT + place * 280 + 18, 22), label)
    drawing.circle((across(chosen[0]), up(chosen[1])), 7, "chosen", hint=f"chosen: {chosen[0]:.4g} ms")
    return drawing.document(STYLE)
