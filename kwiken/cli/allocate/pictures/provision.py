"""Picture of a provision: cost over time of each strategy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from kwiken.allocator.provisioning.load_curve import LoadCurve
from kwiken.allocator.provisioning.payment import Payment
from kwiken.apps.report.charts.scales import linear_scale, linear_ticks
from kwiken.apps.report.charts.svg import Drawing

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 400, 64, 250, 30, 48
MAX_POINTS: Final = 300  # of a line; of more, means are drawn
S_PER_DAY: Final = 86_400.0
COLOURS: Final = (
    "#999999",
    "#c4551d",
    "#8a6d3b",
    "#b08d57",
    "#7b52ab",
    "#1f6feb",
    "#1a7f37",
    "#222222",
    "#d4a72c",
)
STYLE: Final = (
    "text{font:12px system-ui,sans-serif;fill:#222}.t{font-size:10px;fill:#555}svg{background:#fff}"
    ".rule{stroke:#e4e7ea}"
    + "".join(
        f".l{place}{{stroke:{colour};fill:none;stroke-width:1.6}}.d{place}{{fill:{colour}}}"
        for place, colour in enumerate(COLOURS)
    )
)


def draw_costs(payments: Mapping[str, Payment], load: LoadCurve, currency: str) -> str:
    """Draw the cost in an hour of each strategy over a load as a self-contained SVG.

    Args:
        payments: payments on the load, by strategy.
        load: load that was paid.
        currency: name of the currency, for the axis.
    """
    drawing = Drawing(WIDTH, HEIGHT, label="Cost in an hour over time, by strategy")
    groups = np.array_split(np.arange(len(load.cores)), min(MAX_POINTS, len(load.cores)))
    lines = {name: [float(one.over_time[group].mean()) for group in groups] for name, one in payments.items()}
    days = [float(group.mean()) * load.step_s / S_PER_DAY for group in groups]
    up = linear_scale(max(max(line) for line in lines.values()), HEIGHT - BOTTOM, TOP)
    across = linear_scale(days[-1], LEFT, WIDTH - RIGHT)
    for value in linear_ticks(up):
        drawing.line((LEFT, up(value)), (WIDTH - RIGHT, up(value)), "rule")
        drawing.text((LEFT - 6, up(value) + 4), f"{value:,g}", "t", anchor="end")
    for value in linear_ticks(across):
        drawing.line((across(value), TOP), (across(value), HEIGHT - BOTTOM), "rule")
        drawing.text((across(value), HEIGHT - BOTTOM + 15), f"{value:g}", "t", anchor="middle")
    drawing.text(((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10), "days", anchor="middle")
    drawing.text((14, (TOP + HEIGHT - BOTTOM) / 2), f"{currency} an hour", anchor="middle", turn=True)
    for place, (name, line) in enumerate(lines.items()):
        drawing.path([(across(day), up(value)) for day, value in zip(days, line, strict=True)], f"l{place}")
        drawing.rect((WIDTH - RIGHT + 14, TOP + 22 * place), (12, 12), f"d{place}")
        mean = payments[name].total
        drawing.text((WIDTH - RIGHT + 32, TOP + 22 * place + 10), f"{name}: {mean:.4g}")
    return drawing.document(STYLE)
