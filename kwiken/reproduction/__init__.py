"""Reproductions: tables and figures of published sources, computed anew beside the published values."""

from __future__ import annotations

from kwiken.reproduction.rows import Plot, Row, Series, run
from kwiken.reproduction.sources import NAMES, reproduction

__all__ = ["NAMES", "Plot", "Row", "Series", "reproduction", "run"]
