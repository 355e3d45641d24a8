"""Charts of a report as inline SVG."""

from __future__ import annotations

from kwiken.apps.report.charts.curves import CurveView as CurveView, draw_curve as draw_curve
from kwiken.apps.report.charts.dag import MAX_BOXES as MAX_BOXES, StageBox as StageBox, draw_dag as draw_dag
from kwiken.apps.report.charts.gantt import GanttRequest as GanttRequest, draw_gantt as draw_gantt
from kwiken.apps.report.charts.heat_map import LEGEND as LEGEND, draw_heat as draw_heat
from kwiken.apps.report.charts.judgement_chart import (
    JUDGEMENT_LEGEND as JUDGEMENT_LEGEND,
    draw_judgement as draw_judgement,
)
from kwiken.apps.report.charts.percentiles import Band as Band, Line as Line, draw_ladder as draw_ladder
from kwiken.apps.report.charts.plots import draw_plot as draw_plot
from kwiken.apps.report.charts.requests import pauses_of as pauses_of, pick_requests as pick_requests
from kwiken.apps.report.charts.scales import (
    linear_scale as linear_scale,
    linear_ticks as linear_ticks,
    log_scale as log_scale,
    log_ticks as log_ticks,
)
from kwiken.apps.report.charts.svg import Drawing as Drawing, shorten as shorten
from kwiken.apps.report.charts.worth import draw_worth as draw_worth
