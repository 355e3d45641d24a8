"""One self-contained page with pictures: what was learned, what is planned, what came of it."""

from __future__ import annotations

from cli.reporting._build import build_page
from cli.reporting._curves import CurveView
from cli.reporting._gantt import Bar, Request, Track
from cli.reporting._page import render
from cli.reporting._result import DemoResult, read_result
from cli.reporting._stats import cut_with_interval, ladder_of
from cli.reporting._views import Material, budget_shares

__all__ = [
    "Bar",
    "CurveView",
    "DemoResult",
    "Material",
    "Request",
    "Track",
    "budget_shares",
    "build_page",
    "cut_with_interval",
    "ladder_of",
    "read_result",
    "render",
]
