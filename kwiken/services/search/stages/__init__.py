"""Stages of the search service as plain functions and classes."""

from __future__ import annotations

from kwiken.services.search.stages.lookup import Index as Index
from kwiken.services.search.stages.page import PageBuilder as PageBuilder
from kwiken.services.search.stages.rank import Ranker as Ranker
from kwiken.services.search.stages.snippets import SHARDS as SHARDS, SnippetExtractor as SnippetExtractor
from kwiken.services.search.stages.spell import Speller as Speller
from kwiken.services.search.stages.symbols import SymbolIndex as SymbolIndex
from kwiken.services.search.stages.types import (
    Answer as Answer,
    Hits as Hits,
    Parsed as Parsed,
    Query as Query,
    Ranked as Ranked,
    Request as Request,
    Result as Result,
    Snippet as Snippet,
    Symbols as Symbols,
)
