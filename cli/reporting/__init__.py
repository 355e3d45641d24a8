"""One self-contained page with pictures: what was learned, what is planned, what came of it."""

from __future__ import annotations

from cli.reporting._build import build_page, made_line
from cli.reporting._curves import CurveView
from cli.reporting._find import find
from cli.reporting._gantt import Bar, Request, Track
from cli.reporting._gather import Wishes, gather
from cli.reporting._page import render
from cli.reporting._requests import pauses_of, pick_requests
from cli.reporting._result import (
    ArmCount,
    Cut,
    DemoResult,
    Disturbance,
    Expectation,
    Paused,
    Settings,
    Spent,
    StageShare,
    read_result,
)
from cli.reporting._rows import LoadRow
from cli.reporting._stats import NAMES, Floats, cut_with_interval, ladder_of, rungs
from cli.reporting._summary import of_result
from cli.reporting._views import Material, budget_shares, curve_views
from cli.reporting._words import change, count, ms, percent

__all__ = [
    "NAMES",
    "ArmCount",
    "Bar",
    "CurveView",
    "Cut",
    "DemoResult",
    "Disturbance",
    "Expectation",
    "Floats",
    "LoadRow",
    "Material",
    "Paused",
    "Request",
    "Settings",
    "Spent",
    "StageShare",
    "Track",
    "Wishes",
    "budget_shares",
    "build_page",
    "change",
    "count",
    "curve_views",
    "cut_with_interval",
    "find",
    "gather",
    "ladder_of",
    "made_line",
    "ms",
    "of_result",
    "pauses_of",
    "percent",
    "pick_requests",
    "read_result",
    "render",
    "rungs",
]
