"""Spend of copies in the units of every cost model: calls, typical, mean and measured work."""

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
    """Line with the cost of copies by every cost model.

    Args:
        spent: share of the cost by cost model, as `spent_by_model` returns it.
    """
    return ", ".join(f"{spent[model]:.2%} {words}" for model, words in WORDS.items() if model in spent)
