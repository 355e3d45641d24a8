"""Reproductions: tables and figures of published sources, computed anew beside the published values."""

from __future__ import annotations

from kwiken.lab.reproduction.rows import (
    Plot as Plot,
    PlotSeries as PlotSeries,
    ReproducedRow as ReproducedRow,
    UnreproducedRow as UnreproducedRow,
    run as run,
)
from kwiken.lab.reproduction.sources import NAMES as NAMES, reproduction as reproduction
