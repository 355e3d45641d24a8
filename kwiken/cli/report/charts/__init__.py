"""Charts of a report as inline SVG."""

from __future__ import annotations

from kwiken.cli.report.charts.curves import CurveView, draw_curve
from kwiken.cli.report.charts.dag import MAX_BOXES, Box, draw_dag
from kwiken.cli.report.charts.gantt import Request, draw_gantt
from kwiken.cli.report.charts.heat_map import LEGEND, draw_heat
from kwiken.cli.report.charts.judgement import LEGEND as JUDGEMENT_LEGEND
from kwiken.cli.report.charts.judgement import draw_judgement
from kwiken.cli.report.charts.percentiles import Band, Line, draw_ladder
from kwiken.cli.report.charts.plots import draw_plot
from kwiken.cli.report.charts.requests import pauses_of, pick_requests
from kwiken.cli.report.charts.scales import log_scale, log_ticks
from kwiken.cli.report.charts.svg import Drawing, shorten

__all__ = [
    "JUDGEMENT_LEGEND",
    "LEGEND",
    "MAX_BOXES",
    "Band",
    "Box",
    "CurveView",
    "Drawing",
    "Line",
    "Request",
    "draw_curve",
    "draw_dag",
    "draw_gantt",
    "draw_heat",
    "draw_judgement",
    "draw_ladder",
    "draw_plot",
    "log_scale",
    "log_ticks",
    "pauses_of",
    "pick_requests",
    "shorten",
]
