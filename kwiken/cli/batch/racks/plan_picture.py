"""Picture of a plan of racks: a row for each rack, time across, one box a job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kwiken.apps.report.charts.scales import linear_scale, linear_ticks
from kwiken.apps.report.charts.svg import Drawing

if TYPE_CHECKING:
    from kwiken.batch.racks.document import RackPlan

WIDTH, LEFT, RIGHT, TOP, BOTTOM = 960, 90, 20, 30, 44
ROW: Final = 14
MAX_BOXES: Final = 6000  # those with the most rack time are drawn
COLOURS: Final = ("#1f6feb", "#c4551d", "#1a7f37", "#7b52ab", "#b08d57", "#d4a72c", "#8a6d3b", "#57606a")
STYLE: Final = (
    "text{font:12px system-ui,sans-serif;fill:#222}.t{font-size:10px;fill:#555}svg{background:#fff}"
    ".rule{stroke:#e4e7ea}"
    + "".join(
        f".d{place}{{fill:{colour};stroke:#fff;stroke-width:.4}}" for place, colour in enumerate(COLOURS)
    )
)


def draw_plan(plan: RackPlan) -> str:
    """Draw racks over time as a self-contained SVG."""
    height = TOP + ROW * len(plan.racks) + BOTTOM
    drawing = Drawing(WIDTH, height, label="Racks over time, one box for each job and rack")
    last = max(job.start_s + job.took_s for job in plan.jobs)
    across = linear_scale(last, LEFT, WIDTH - RIGHT)
    for value in linear_ticks(across):
        drawing.line((across(value), TOP), (across(value), height - BOTTOM), "rule")
        drawing.text((across(value), height - BOTTOM + 15), f"{value:,g}", "t", anchor="middle")
    drawing.text(((LEFT + WIDTH - RIGHT) / 2, height - 8), "seconds", anchor="middle")
    row = {name: place for place, name in enumerate(plan.racks)}
    for name, place in row.items():
        drawing.text((LEFT - 6, TOP + ROW * place + ROW - 3), name[:12], "t", anchor="end")
    boxes = 0
    by_rack_time = sorted(plan.jobs, key=lambda each: -each.took_s * len(each.racks))
    for place, job in enumerate(by_rack_time):
        boxes += len(job.racks)
        if boxes > MAX_BOXES:
            told = f"only the {place} jobs with the most rack time are drawn"
            drawing.text((LEFT, TOP - 10), told, "t")
            break
        start, end = across(job.start_s), across(job.start_s + job.took_s)
        for rack in job.racks:
            corner = (start, TOP + ROW * row[rack] + 1)
            drawing.rect(corner, (max(0.5, end - start), ROW - 2), f"d{job.priority % len(COLOURS)}")
    return drawing.document(STYLE)
