"""Messages between the stages, sent between processes."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

MAX_QUERY = 300
MAX_RESULTS = 50


class Request(Struct, frozen=True, forbid_unknown_fields=True):
    """Search request: the words as typed, and the largest number of results."""

    query: Annotated[str, Meta(max_length=MAX_QUERY)]
    limit: Annotated[int, Meta(ge=1, le=MAX_RESULTS)] = 10


class Token(Struct, frozen=True, array_like=True):
    """One word of the query and what stands between it and the next (see `text.pieces`)."""

    text: str
    glue: str


class Parsed(Struct, frozen=True):
    """The query as words; at most 16 of them, the rest is dropped."""

    query: str
    limit: int
    tokens: list[Token]


class Term(Struct, frozen=True, array_like=True):
    """One term of a query: index terms, each with a weight; a document counts by the best one that it has.

    The first index term is the word itself; the others are its synonyms or completions.
    """

    options: list[tuple[str, float]]


class Query(Struct, frozen=True):
    """The query after correction.

    Attributes:
        corrected: query after correction; None where nothing was changed.
        index: digest of the index that the terms were chosen from; document numbers are valid only there.
    """

    query: str
    corrected: str | None
    tokens: list[Token]
    terms: list[Term]
    index: str
    limit: int


class Hits(Struct, frozen=True):
    """One shard's best documents, best first.

    Attributes:
        scores: their BM25F scores, comparable between shards.
        matched: number of documents of the shard that contain any of the terms.
    """

    documents: list[int]
    scores: list[float]
    matched: int


class Symbols(Struct, frozen=True):
    """Documents whose name matches the query, in whole or in part, best first; scores from 0 to 1."""

    documents: list[int]
    scores: list[float]


class Ranked(Struct, frozen=True):
    """Results in order, without their texts.

    Attributes:
        documents: numbers of the best documents, best first.
        scores: their scores, descending.
        matched: number of documents that matched, in the shards that answered.
        missing: number of shards of the look-up that did not answer.
        worth: utility of the look-up's answer, from 0 to 1.
    """

    query: Query
    documents: list[int]
    scores: list[float]
    matched: int
    missing: int
    worth: float


class Snippet(Struct, frozen=True, array_like=True):
    """Part of a document's text.

    Attributes:
        parts: the text in parts; every second part, from the second on, is a word of the query.
    """

    document: int
    parts: list[str]


class Result(Struct, frozen=True):
    """One result as shown.

    Attributes:
        kind: one of module, class, function, method, property or topic.
        name: full public name, as `asyncio.gather`.
        title: heading of the result: the name, or a topic's heading.
        signature: parameters as written; empty where there are none to write.
        path: source file, relative to the standard library; empty for what is written in C.
        line: in that file, from 1; 0 where there is no file.
        snippet: see `Snippet.parts`; empty where its shard did not answer.
        score: larger is better; only the order within one answer means anything.
    """

    kind: str
    name: str
    title: str
    signature: str
    path: str
    line: int
    snippet: list[str]
    score: float


class Answer(Struct, frozen=True):
    """The answer to a search.

    Attributes:
        corrected: query after correction; None where nothing was changed.
        results: the best of them, best first.
        note: sentence for the user where parts are missing; None where the answer is complete.
    """

    query: str
    corrected: str | None
    count: int
    results: list[Result]
    note: str | None
