"""Picture of a prediction: completion time over executors, with its interval and the known runs."""

from __future__ import annotations

from typing import Final

from kwiken.apps.report.charts.scales import log_scale, log_ticks
from kwiken.apps.report.charts.svg import Drawing
from kwiken.cli.batch.predictions.predict_report import PredictedCurve

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 360, 64, 20, 40, 46
MS: Final = 1000.0
TICKS: Final = 5


def draw_prediction(found: PredictedCurve) -> str:
    """Draw completion time over executors as a self-contained SVG."""
    drawing = Drawing(WIDTH, HEIGHT, label=f"Completion time of {found.runs[0].name} over executors")
    sizes = [float(point.executors) for point in found.points]
    known = [(float(max(1, run.n_executors)), run.took_ms / MS) for run in found.runs]
    across = log_scale([*sizes, *(n for n, _ in known)], LEFT, WIDTH - RIGHT)
    top = max(*(point.high_ms / MS for point in found.points), *(time for _, time in known), 1e-9)

    def up(seconds: float) -> float:
        return HEIGHT - BOTTOM - seconds / top * (HEIGHT - BOTTOM - TOP)

    for step in range(TICKS):
        value = top * step / (TICKS - 1)
        drawing.line((LEFT, up(value)), (WIDTH - RIGHT, up(value)), "rule")
        drawing.text((LEFT - 6, up(value) + 4), f"{value:,.4g}", "t", anchor="end")
    for n in log_ticks(across):
        drawing.text((across(n), HEIGHT - BOTTOM + 15), f"{n:g}", "t", anchor="middle")
    drawing.text(((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8), "executors", anchor="middle")
    drawing.text((14, (TOP + HEIGHT - BOTTOM) / 2), "completion time, s", anchor="middle", turn=True)
    for point in found.points:
        at = across(float(point.executors))
        drawing.line((at, up(point.low_ms / MS)), (at, up(point.high_ms / MS)), "rule")
    line = [(across(n), up(time / MS)) for n, time in zip(sizes, found.total_ms, strict=True)]
    drawing.path(line, "told")
    waves = [
        (across(n), up(min(top, time / MS))) for n, time in zip(sizes, found.baselines["waves"], strict=True)
    ]
    drawing.path(waves, "seen")
    for (x, y), point in zip(line, found.points, strict=True):
        hint = f"{point.executors} executors: {point.low_ms / MS:.1f} to {point.high_ms / MS:.1f} s"
        drawing.circle((x, y), 3, "dot", hint=hint)
    for n, time in known:
        drawing.circle((across(n), up(time)), 5, "chosen", hint=f"known run: {time:.1f} s")
    drawing.text(
        (LEFT, 22), "line with dots: predicted, bars: nine in ten; rings: known runs; other line: by waves"
    )
    return drawing.document(STYLE)


STYLE: Final = (
    "text{font:12px system-ui,sans-serif;fill:#222}.t{font-size:10px;fill:#555}svg{background:#fff}"
    ".rule{stroke:#c9ced4}.told{stroke:#1f6feb;fill:none;stroke-width:2}.dot{fill:#1f6feb}"
    ".seen{stroke:#c4551d;fill:none;stroke-dasharray:4 3}.chosen{fill:none;stroke:#222;stroke-width:2}"
)
