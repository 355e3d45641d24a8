"""Snippet stage: the passage of each result that holds most of the query, with its words marked."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kwiken.services.search.index import Texts
from kwiken.services.search.index import text as text_module
from kwiken.services.search.stages.types import Query, Ranked, Snippet

SHARDS = 5
LENGTH = 220  # letters
READ = 6000  # letters of a text that are looked at
LATE = 0.3
OPENING = 1.2  # of a word: what a docstring says first, it is about
_WORD = re.compile(r"[A-Za-z0-9]+")
_BREAK = re.compile(r"(?<=[.:;!?])\s+|\n\s*\n")
_SPACE = re.compile(r"\s+")
_RULE = re.compile(r"^[*=\-~^]{4,}$", re.MULTILINE)
ELLIPSIS = "\u2026"


class Clipper:
    """Cuts snippets from the texts."""

    def __init__(self, part: Texts) -> None:
        self.key = part.key
        self._rows = part.texts

    def clip(self, ranked: Ranked, shard: int) -> list[Snippet]:
        """Snippets of every fifth result, from the `shard`-th on."""
        wanted = _wanted(ranked.query)
        return [
            Snippet(document, snippet(self._text(document), wanted))
            for document in ranked.documents[shard::SHARDS]
        ]

    def _text(self, document: int) -> str:
        first, last = self._rows.bounds(document)
        return bytes(self._rows.items[first : min(last, first + 4 * READ)]).decode("utf-8", "ignore")[:READ]


def _wanted(query: Query) -> dict[str, float]:
    """Worth of each term in a snippet."""
    worth: dict[str, float] = {}
    for term in query.terms:
        for option, weight in term.options:
            worth[option] = max(worth.get(option, 0.0), weight)
    return worth


def snippet(text: str, wanted: dict[str, float]) -> list[str]:
    """The best passage, cut up: every second part, from the second on, is a word that was asked for."""
    clean = _RULE.sub("", text)
    worth = {(first, last): _worth(clean[first:last], wanted) for first, last in _passages(clean)}
    best = max(worth, key=lambda place: (worth[place] + OPENING * (not place[0]), -place[0]), default=None)
    if best is None:
        return []
    first, last = best
    shown = _SPACE.sub(" ", clean[first:last]).strip()
    if not shown:
        return []
    parts = _mark(shown, wanted)
    if last < len(clean.rstrip()) and not shown.endswith((".", "!", "?")):
        parts[-1] += f" {ELLIPSIS}"
    return parts


def _passages(text: str) -> Iterator[tuple[int, int]]:
    """Stretches of about LENGTH letters, each from the start of a sentence."""
    starts = [0, *(match.end() for match in _BREAK.finditer(text))]
    for start in starts:
        if text[start : start + 1].strip() or start == 0:
            yield start, _end(text, start)


def _end(text: str, start: int) -> int:
    """End of the passage: the last end of a sentence that fits, else the end of the last whole word."""
    if len(text) - start <= LENGTH:
        return len(text)
    ends = [match.start() for match in _BREAK.finditer(text, start, start + LENGTH)]
    if ends and ends[-1] - start >= LENGTH // 2:
        return ends[-1]
    space = text.rfind(" ", start + LENGTH // 2, start + LENGTH)
    return space if space > 0 else start + LENGTH


def _worth(passage: str, wanted: dict[str, float]) -> float:
    """Sum over the different terms found, less where the first stands late; the same again counts little."""
    seen: dict[str, float] = {}
    again = late = 0
    words = text_module.words(passage)
    for at, word in enumerate(words):
        term = text_module.stem(word)
        if term in wanted:
            late = late if seen else at
            again += term in seen
            seen[term] = wanted[term]
    return sum(seen.values()) + 0.02 * min(again, 10) - LATE * late / max(1, len(words))


def _mark(shown: str, wanted: dict[str, float]) -> list[str]:
    parts = [""]
    at = 0
    for match in _WORD.finditer(shown):
        if _asked(match.group(), wanted):
            parts[-1] += shown[at : match.start()]
            parts += [match.group(), ""]
            at = match.end()
    parts[-1] += shown[at:]
    return parts


def _asked(run: str, wanted: dict[str, float]) -> bool:
    if text_module.stem(run.lower()) in wanted:
        return True
    return any(len(part) > 2 and text_module.stem(part.lower()) in wanted for part in text_module.humps(run))  # noqa: PLR2004
