"""Web search over the documentation in this machine's own Python standard library.

Stages: `parse`, `spell`, then `lookup` (8 shards) beside `symbols`, `rank`, `snippets` (5 shards), `page`.
docs/build/search.md says what each does and how results are ranked.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from kwiken.base.errors import KwikenError
from kwiken.model.service.service import Service
from kwiken.model.service.stage import Partial
from kwiken.services.search.index import store
from kwiken.services.search.index.parts import SHARDS, Cards, Postings, Ranking, SymbolTable, Texts, Words
from kwiken.services.search.stages import (
    lookup as lookup_module,
    parse as parse_module,
    spell as spell_module,
)
from kwiken.services.search.stages.lookup import Index
from kwiken.services.search.stages.page import PageBuilder
from kwiken.services.search.stages.rank import Ranker
from kwiken.services.search.stages.snippets import SHARDS as SNIPPET_SHARDS, SnippetExtractor
from kwiken.services.search.stages.spell import Speller
from kwiken.services.search.stages.symbols import SymbolIndex
from kwiken.services.search.stages.types import (
    Answer,
    Hits,
    Parsed,
    Query,
    Ranked,
    Request,
    Result,
    Snippet,
    Symbols,
)

__all__ = ["Answer", "Request", "Result", "search"]

search = Service("search", page=Path(__file__).with_name("page.html").read_text(encoding="utf-8"))


class OtherIndexError(KwikenError):
    """Two replicas hold indexes of different libraries; document numbers of one mean nothing in the other."""


def _same(mine: str, query: Query) -> None:
    if mine != query.index:
        raise OtherIndexError(
            f"this replica's index is {mine}, the query's is {query.index}:"
            " all replicas need the same Python, the same standard library and the same code"
        )


# What each stage loads: once in a process, before it is ready, and its own part of the index only.
@cache
def _speller() -> Speller:
    return Speller(store.load(Words))


@cache
def _index() -> Index:
    return Index(store.load(Postings))


@cache
def _table() -> SymbolIndex:
    return SymbolIndex(store.load(SymbolTable))


@cache
def _ranker() -> Ranker:
    return Ranker(store.load(Ranking))


@cache
def _snippet_extractor() -> SnippetExtractor:
    return SnippetExtractor(store.load(Texts))


@cache
def _page_builder() -> PageBuilder:
    return PageBuilder(store.load(Cards))


@search.stage(replicas=2, idempotent=True)
async def parse(request: Request | str) -> Parsed:
    """Words of the query; a bare string is a request for ten results."""
    return parse_module.parse(Request(request) if isinstance(request, str) else request)


@search.stage(after=[parse], replicas=2, idempotent=True, setup=_speller)
async def spell(parsed: Parsed) -> Query:
    """Unknown words corrected, terms chosen."""
    return spell_module.spell(parsed, _speller())


@search.stage(
    after=[spell],
    fanout=SHARDS,
    replicas=3,
    idempotent=True,
    utility=lookup_module.utility,
    worth=lookup_module.worth,
    utility_weight=4.0,
    setup=_index,
)
async def lookup(query: Query, *, shard: int) -> Hits:
    """The shard's best documents by BM25F."""
    index = _index()
    _same(index.key, query)
    return index.find(query, shard)


@search.stage(after=[spell], replicas=2, idempotent=True, optional=True, setup=_table)
async def symbols(query: Query) -> Symbols:
    """Documents whose name the query spells."""
    table = _table()
    _same(table.key, query)
    return table.find(query)


@search.stage(after=[spell, lookup, symbols], replicas=2, idempotent=True, setup=_ranker)
async def rank(query: Query, hits: Partial[Hits], named: Symbols | None) -> Ranked:
    """The best documents of all, in order."""
    ranker = _ranker()
    _same(ranker.key, query)
    return ranker.rank(query, hits, named)


@search.stage(after=[rank], fanout=SNIPPET_SHARDS, replicas=3, idempotent=True, setup=_snippet_extractor)
async def snippets(ranked: Ranked, *, shard: int) -> list[Snippet]:
    """Passages that show the query, for every fifth result."""
    snippet_extractor = _snippet_extractor()
    _same(snippet_extractor.key, ranked.query)
    return snippet_extractor.extract(ranked, shard)


@search.stage(after=[rank, snippets], replicas=2, idempotent=True, setup=_page_builder)
async def page(ranked: Ranked, texts: Partial[list[Snippet]]) -> Answer:
    """The answer as shown."""
    page_builder = _page_builder()
    _same(page_builder.key, ranked.query)
    return page_builder.answer(ranked, texts)


search.check()
