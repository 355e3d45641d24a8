"""Sections of a report, and the data that they are made from."""

from __future__ import annotations

from kwiken.apps.report.sections.causes import diagnosis as diagnosis
from kwiken.apps.report.sections.excess import (
    excess_sentence as excess_sentence,
    excess_table as excess_table,
    replica_words as replica_words,
)
from kwiken.apps.report.sections.headline import cards as cards, of_result as of_result, summary as summary
from kwiken.apps.report.sections.levers import other_levers as other_levers
from kwiken.apps.report.sections.spend import spending as spending
from kwiken.apps.report.sections.views import (
    Material as Material,
    budget_shares as budget_shares,
    curve_views as curve_views,
)
