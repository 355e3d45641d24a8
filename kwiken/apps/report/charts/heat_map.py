"""Heat map of latency by replica and time, grouped by stage (Kwiken Figure 5.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from kwiken.apps.console.bands import BANDS
from kwiken.apps.report.charts.scales import Scale, linear_ticks
from kwiken.apps.report.charts.svg import Drawing, short_name
from kwiken.apps.report.model.number_format import ms
from kwiken.tail.diagnosis.heat_map import Heat

WIDTH, LEFT, RIGHT, TOP, BOTTOM = 1040, 262, 12, 8, 40
ROW, GAP = 15, 7
MAX_ROWS = 48
LABEL_LENGTH = 28  # ordinary letters that fit at the left, in the size of phones
LEGEND = (
    ("heat0", f"p95 below {BANDS[0]:g} times the stage's median"),
    *((f"heat{i + 1}", f"from {low:g}") for i, low in enumerate(BANDS)),  # each is a shade darker
    ("heatnone", "no calls"),
)


@dataclass(frozen=True)
class _Row:
    name: str
    label: str
    typical_ms: float
    slow_ms: Sequence[float | None]
    first: bool


def draw_heat(maps: Sequence[Heat]) -> tuple[Markup, int]:
    """Draw the heat map; returns it with the number of replicas left out.

    Args:
        maps: heat maps of one profile, with the same intervals of time; at least one.
    """
    rows = [
        _Row(name, _label(heat.stage, name, label), heat.typical_ms, slow, place == 0)
        for heat in maps
        for place, (name, label, slow) in enumerate(
            zip(heat.replicas, heat.labels, heat.slow_ms, strict=True)
        )
    ]
    shown = rows[:MAX_ROWS]
    height = TOP + sum(ROW + (GAP if row.first else 0) for row in shown) + BOTTOM
    drawing = Drawing(WIDTH, height, label="Latency by replica and time")
    edges = maps[0].edges_s
    top = float(TOP)
    for row in shown:
        top += GAP if row.first else 0
        _draw_row(drawing, row, edges, top)
        top += ROW
    _axis(drawing, edges, top)
    return drawing.markup(), len(rows) - len(shown)


def _label(stage: str, name: str, label: str) -> str:
    """Label of a row, with the stage's name shortened to the room there is."""
    return label if label == name else f"{short_name(stage, 18)} {name}"


def _draw_row(drawing: Drawing, row: _Row, edges: Sequence[float], top: float) -> None:
    drawing.text((LEFT - 8, top + ROW - 4), short_name(row.label, LABEL_LENGTH), "tick", anchor="end")
    step = (WIDTH - LEFT - RIGHT) / len(row.slow_ms)
    for place, value in enumerate(row.slow_ms):
        hint = None
        if value is not None:
            hint = f"{row.name}, from {edges[place] - edges[0]:.3g} s: p95 {ms(value)}"
        shade = _shade(value, row.typical_ms)
        drawing.rect((LEFT + place * step, top), (step - 0.6, ROW - 1.5), f"heat {shade}", hint=hint)


def _shade(value: float | None, typical_ms: float) -> str:
    if value is None:
        return "heatnone"
    return f"heat{sum(value >= limit * typical_ms for limit in BANDS)}" if typical_ms > 0 else "heat0"


def _axis(drawing: Drawing, edges: Sequence[float], top: float) -> None:
    across = Scale(0.0, edges[-1] - edges[0], LEFT, WIDTH - RIGHT)
    for value in linear_ticks(across, 8):
        drawing.line((across(value), top), (across(value), top + 4), "rule")
        drawing.text((across(value), top + 17), f"{value:g}", "tick", anchor="middle")
    middle = (LEFT + WIDTH - RIGHT) / 2
    drawing.text((middle, top + 33), "seconds since the first request", "axis", anchor="middle")
