"""Search index: corpus, construction, storage and loading."""

from __future__ import annotations

from kwiken.services.search.index.parts import (
    SHARDS as SHARDS,
    Cards as Cards,
    Postings as Postings,
    Ranking as Ranking,
    SymbolCard as SymbolCard,
    SymbolTable as SymbolTable,
    Texts as Texts,
    Words as Words,
)
from kwiken.services.search.index.text import deletions as deletions
