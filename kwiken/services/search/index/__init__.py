"""Search index: corpus, construction, storage and loading."""

from __future__ import annotations

from kwiken.services.search.index.parts import (
    SHARDS,
    Card,
    Cards,
    Postings,
    Ranking,
    SymbolTable,
    Texts,
    Words,
)
from kwiken.services.search.index.text import deletions

__all__ = ["SHARDS", "Card", "Cards", "Postings", "Ranking", "SymbolTable", "Texts", "Words", "deletions"]
