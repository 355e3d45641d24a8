"""Data model of a report: results, rows, statistics, and parts of the page."""

from __future__ import annotations

from kwiken.apps.report.model.number_format import (
    between as between,
    change as change,
    count as count,
    ms as ms,
    percent as percent,
)
from kwiken.apps.report.model.page import (
    Card as Card,
    Figure as Figure,
    Page as Page,
    Row as Row,
    Section as Section,
    Table as Table,
    render as render,
)
from kwiken.apps.report.model.result import (
    ArmCount as ArmCount,
    CutInterval as CutInterval,
    DemoResult as DemoResult,
    Disturbance as Disturbance,
    Expectation as Expectation,
    Paused as Paused,
    Settings as Settings,
    Spent as Spent,
    StageShare as StageShare,
    read_result as read_result,
)
from kwiken.apps.report.model.rows import LoadRow as LoadRow, Loads as Loads, read_rows as read_rows
from kwiken.apps.report.model.statistics import (
    MIN_BEYOND as MIN_BEYOND,
    NAMES as NAMES,
    PERCENTILES as PERCENTILES,
    Floats as Floats,
    cut_with_interval as cut_with_interval,
    ladder_of as ladder_of,
    rungs as rungs,
    tail_points as tail_points,
)
