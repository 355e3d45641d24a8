"""Picture of a machine probe: pressure by level for each source, and the matrix of crosstalk."""

from __future__ import annotations

from typing import Final

from kwiken.allocator.contention.calibration import Calibration
from kwiken.allocator.contention.crosstalk import Crosstalk
from kwiken.allocator.contention.machine_probe import MachineProbe
from kwiken.apps.report.charts.svg import Drawing

IN_ROW: Final = 5
SIDE, GAP_X, GAP_Y, LEFT, TOP = 120, 40, 58, 40, 40
CELL, LABELS = 34, 120
STYLE: Final = (
    "text{font:12px system-ui,sans-serif;fill:#222}.s{font-size:10px;fill:#555}svg{background:#fff}"
    ".i{stroke:#bbb;stroke-dasharray:3 3}.f{fill:none;stroke:#ccd}"
    ".c{fill:none;stroke:#2563a8;stroke-width:1.5}.d{fill:#2563a8}.v{font-size:9px}"
)


def draw_probe(found: MachineProbe) -> str:
    """Draw a probe as a self-contained SVG.

    Each square shows one source: the pressure that was reached, as a share of that at full level, over the
    level that was wanted; the dashed line is the ideal. Below is the loss of each column's kernel while the
    row's presses.
    """
    count = len(found.calibrations)
    rows = (count + IN_ROW - 1) // IN_ROW
    below = TOP + rows * (SIDE + GAP_Y)
    cross = found.crosstalk
    matrix = 0 if cross is None else LABELS + 30 + len(cross.sources) * CELL
    width = max(LEFT + min(count, IN_ROW) * (SIDE + GAP_X), 0 if cross is None else matrix + 20)
    drawing = Drawing(width, below + matrix, label="Pressure by level, and crosstalk between sources")
    for place, each in enumerate(found.calibrations.values()):
        x = LEFT + place % IN_ROW * (SIDE + GAP_X)
        _draw_calibration(drawing, each, (x, TOP + place // IN_ROW * (SIDE + GAP_Y)))
    if cross is not None:
        _draw_crosstalk(drawing, cross, below)
    return drawing.document(STYLE)


def _draw_calibration(drawing: Drawing, each: Calibration, corner: tuple[float, float]) -> None:
    x, y = corner
    highest = max(1.0, *each.reached)
    points = [
        (x + level * SIDE, y + SIDE * (1 - share / highest))
        for level, share in zip(each.levels, each.reached, strict=True)
    ]
    drawing.text((x, y - 6), each.source)
    drawing.rect(corner, (SIDE, SIDE), "f")
    drawing.line((x, y + SIDE), (x + SIDE, y + SIDE * (1 - 1 / highest)), "i")
    drawing.path(points, "c")
    for point, level, share in zip(points, each.levels, each.reached, strict=True):
        drawing.circle(point, 2.5, "d", hint=f"level {level:g}: {share:.1%}")
    drawing.text((x, y + SIDE + 13), f"residual {each.residual:.1%}, R² {each.r_squared:.3f}", "s")


def _draw_crosstalk(drawing: Drawing, cross: Crosstalk, top: float) -> None:
    drawing.text((8, top), f"Loss of the column's kernel while the row's presses, at level {cross.level:g}")
    left, first = LABELS, top + LABELS
    for place, name in enumerate(cross.sources):
        drawing.text((left + (place + 0.65) * CELL, first - 6), name, "s", turn=True)
        drawing.text((left - 6, first + (place + 0.62) * CELL), name, "s", anchor="end")
    for row, presser in enumerate(cross.sources):
        for column, pressed in enumerate(cross.sources):
            lost = float(cross.losses[row, column])
            shade = 97 - 50 * min(1.0, max(0.0, lost))
            at = left + column * CELL, first + row * CELL
            hint = f"{presser} on {pressed}: {lost:.1%}"
            drawing.rect(at, (CELL - 2, CELL - 2), "p", fill=f"hsl(8 60% {shade:.0f}%)", hint=hint)
            drawing.text((at[0] + CELL / 2 - 1, at[1] + CELL / 2 + 3), f"{lost:.0%}", "v", anchor="middle")
