"""Data model of a report: results, rows, statistics, and parts of the page."""

from __future__ import annotations

from kwiken.cli.report.model.number_format import between, change, count, ms, percent
from kwiken.cli.report.model.page import Card, Figure, Page, Row, Section, Table, render
from kwiken.cli.report.model.result import (
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
from kwiken.cli.report.model.rows import LoadRow, Loads, read_rows
from kwiken.cli.report.model.statistics import (
    MIN_BEYOND,
    NAMES,
    PERCENTILES,
    Floats,
    cut_with_interval,
    ladder_of,
    rungs,
    tail_points,
)

__all__ = [
    "MIN_BEYOND",
    "NAMES",
    "PERCENTILES",
    "ArmCount",
    "Card",
    "Cut",
    "DemoResult",
    "Disturbance",
    "Expectation",
    "Figure",
    "Floats",
    "LoadRow",
    "Loads",
    "Page",
    "Paused",
    "Row",
    "Section",
    "Settings",
    "Spent",
    "StageShare",
    "Table",
    "between",
    "change",
    "count",
    "cut_with_interval",
    "ladder_of",
    "ms",
    "percent",
    "read_result",
    "read_rows",
    "render",
    "rungs",
    "tail_points",
]
