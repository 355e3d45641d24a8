"""Stages of the search service as plain functions and classes."""

from __future__ import annotations

from kwiken.services.search.stages.lookup import Index
from kwiken.services.search.stages.page import PageBuilder
from kwiken.services.search.stages.rank import Ranker
from kwiken.services.search.stages.snippets import SHARDS, SnippetExtractor
from kwiken.services.search.stages.spell import Speller
from kwiken.services.search.stages.symbols import Table
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

__all__ = [
    "SHARDS",
    "Answer",
    "Hits",
    "Index",
    "PageBuilder",
    "Parsed",
    "Query",
    "Ranked",
    "Ranker",
    "Request",
    "Result",
    "Snippet",
    "SnippetExtractor",
    "Speller",
    "Symbols",
    "Table",
]
