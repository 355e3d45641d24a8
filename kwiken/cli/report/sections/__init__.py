"""Sections of a report, and the data that they are made from."""

from __future__ import annotations

from kwiken.cli.report.sections.causes import diagnosis
from kwiken.cli.report.sections.excess import excess_sentence, excess_table
from kwiken.cli.report.sections.headline import cards, of_result, summary
from kwiken.cli.report.sections.levers import other_levers
from kwiken.cli.report.sections.spend import spending
from kwiken.cli.report.sections.views import Material, budget_shares, curve_views

__all__ = [
    "Material",
    "budget_shares",
    "cards",
    "curve_views",
    "diagnosis",
    "excess_sentence",
    "excess_table",
    "of_result",
    "other_levers",
    "spending",
    "summary",
]
