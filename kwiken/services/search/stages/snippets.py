"""Snippet stage: the passage of each result that contains most of the query, with its words marked."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kwiken.services.search.index import text as text_module
from kwiken.services.search.index.parts import Texts
from kwiken.services.search.stages.types import Query, Ranked, Snippet

SHARDS = 5
SNIPPET_LETTERS = 220
MAX_LETTERS_READ = 6000  # of one text
LATENESS_PENALTY = 0.3  # of a passage whose first word of the query is its last word
OPENING_BONUS = 1.2  # of the first passage, which says what a document is about
_WORD = re.compile(r"[A-Za-z0-9]+")
_BREAK = re.compile(r"(?<=[.:;!?])\s+|\n\s*\n")
_SPACE = re.compile(r"\s+")
_RULE = re.compile(r"^[*=\-~^]{4,}$", re.MULTILINE)
ELLIPSIS = "\u2026"


class SnippetExtractor:
    """Extracts snippets from the texts of documents."""

    def __init__(self, part: Texts) -> None:
        self.key = part.key
        self._rows = part.texts

    def extract(self, ranked: Ranked, shard: int) -> list[Snippet]:
        """Snippets of every fifth result, from the `shard`-th on."""
        weights = _term_weights(ranked.query)
        return [
            Snippet(document, snippet(self._text(document), weights))
            for document in ranked.documents[shard::SHARDS]
        ]

    def _text(self, document: int) -> str:
        first, last = self._rows.bounds(document)
        return bytes(self._rows.items[first : min(last, first + 4 * MAX_LETTERS_READ)]).decode(
            "utf-8", "ignore"
        )[:MAX_LETTERS_READ]


def _term_weights(query: Query) -> dict[str, float]:
    """Weight of each term of the query."""
    worth: dict[str, float] = {}
    for term in query.terms:
        for option, weight in term.options:
            worth[option] = max(worth.get(option, 0.0), weight)
    return worth


def snippet(text: str, weights: dict[str, float]) -> list[str]:
    """Best passage in parts: every second part, from the second on, is a word of the query."""
    clean = _RULE.sub("", text)
    scores = {(first, last): _score(clean[first:last], weights) for first, last in _passages(clean)}
    best = max(
        scores, key=lambda place: (scores[place] + OPENING_BONUS * (not place[0]), -place[0]), default=None
    )
    if best is None:
        return []
    first, last = best
    shown = _SPACE.sub(" ", clean[first:last]).strip()
    if not shown:
        return []
    parts = _mark(shown, weights)
    if last < len(clean.rstrip()) and not shown.endswith((".", "!", "?")):
        parts[-1] += f" {ELLIPSIS}"
    return parts


def _passages(text: str) -> Iterator[tuple[int, int]]:
    """Passages of about `SNIPPET_LETTERS` letters, each from the start of a sentence."""
    starts = [0, *(match.end() for match in _BREAK.finditer(text))]
    for start in starts:
        if text[start : start + 1].strip() or start == 0:
            yield start, _end(text, start)


def _end(text: str, start: int) -> int:
    """End of the passage: the last end of a sentence that fits, else the end of the last whole word."""
    if len(text) - start <= SNIPPET_LETTERS:
        return len(text)
    ends = [match.start() for match in _BREAK.finditer(text, start, start + SNIPPET_LETTERS)]
    if ends and ends[-1] - start >= SNIPPET_LETTERS // 2:
        return ends[-1]
    space = text.rfind(" ", start + SNIPPET_LETTERS // 2, start + SNIPPET_LETTERS)
    return space if space > 0 else start + SNIPPET_LETTERS


def _score(passage: str, weights: dict[str, float]) -> float:
    """Score of a passage: weights of the different terms in it, more for repeats, less for a late start."""
    found: dict[str, float] = {}
    repeats = late = 0
    words = text_module.words(passage)
    for at, word in enumerate(words):
        term = text_module.stem(word)
        if term in weights:
            late = late if found else at
            repeats += term in found
            found[term] = weights[term]
    return sum(found.values()) + 0.02 * min(repeats, 10) - LATENESS_PENALTY * late / max(1, len(words))


def _mark(shown: str, weights: dict[str, float]) -> list[str]:
    parts = [""]
    at = 0
    for match in _WORD.finditer(shown):
        if _is_query_term(match.group(), weights):
            parts[-1] += shown[at : match.start()]
            parts += [match.group(), ""]
            at = match.end()
    parts[-1] += shown[at:]
    return parts


def _is_query_term(run: str, weights: dict[str, float]) -> bool:
    if text_module.stem(run.lower()) in weights:
        return True
    return any(len(part) > 2 and text_module.stem(part.lower()) in weights for part in text_module.humps(run))  # noqa: PLR2004
