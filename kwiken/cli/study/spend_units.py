"""Spend told in every unit: the budget's own, calls, typical and mean work."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

WORDS: Final = {
    "calls": "of the calls",
    "typical": "of typical work",
    "mean": "of mean work",
    "busy": "of measured work",
}


def by_every_count(spent: Mapping[str, float]) -> str:
    """One line: what copies cost by every cost model, as `spent_by_model` has it."""
    return ", ".join(f"{spent[model]:.2%} {words}" for model, words in WORDS.items() if model in spent)
