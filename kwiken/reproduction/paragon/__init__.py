"""Paragon: classification by platform and by source of contention, and the schedulers compared."""

from __future__ import annotations

from kwiken.reproduction.paragon.episodes import Episode, TwoEntries, by_density, drawn, two_entries
from kwiken.reproduction.paragon.generators import platform_rows
from kwiken.reproduction.paragon.parts import all_parts

__all__ = [
    "Episode",
    "TwoEntries",
    "all_parts",
    "by_density",
    "drawn",
    "platform_rows",
    "two_entries",
]
