"""Symbol stage: names that match the query in full, by their last parts, or by a prefix."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator
from itertools import product

from kwiken.services.search.index import text
from kwiken.services.search.index.parts import SymbolTable
from kwiken.services.search.stages.types import Query, Symbols

MAX_HITS = 40
MAX_NAME_WORDS = 4  # words of a name
MIN_PREFIX_LETTERS = 3
MAX_PREFIX_NAMES = 60  # names with one prefix
FULL_NAME_SCORE, ENDING_SCORE, PREFIX_SCORE = 1.0, 0.8, 0.55


class SymbolIndex:
    """Names and the ends of names, sorted."""

    def __init__(self, part: SymbolTable) -> None:
        self.key = part.key
        self._keys = part.keys
        self._starts = part.documents.starts.cast("I")
        self._documents = part.documents.items.cast("I")
        self._names = part.names
        self._priors = part.priors.cast("f")

    def find(self, query: Query) -> Symbols:
        """Documents whose name matches a part of the query, scored by the size of that part."""
        words = [token.text.lower() for token in query.tokens]
        best: dict[int, float] = {}
        for first, last, name in _spellings(words):
            share = _share(words, first, last)
            for document, fit in self._exact(name):
                best[document] = max(best.get(document, 0.0), fit * share)
            if last == len(words):
                for document, fit in self._prefix(name):
                    best[document] = max(best.get(document, 0.0), fit * share)
        ranked = sorted(best.items(), key=lambda item: (-item[1], -self._priors[item[0]], item[0]))[:MAX_HITS]
        return Symbols([document for document, _ in ranked], [round(score, 4) for _, score in ranked])

    def _exact(self, name: str) -> Iterator[tuple[int, float]]:
        at = bisect_left(self._keys, name)
        if at == len(self._keys) or self._keys[at] != name:
            return
        row = self._documents[self._starts[at] : self._starts[at + 1]]
        for document in row:
            if self._names[document] == name:
                yield document, FULL_NAME_SCORE
            else:  # an ending that many names share identifies none of them
                yield document, ENDING_SCORE / (1 + 0.3 * math.log(len(row)))

    def _prefix(self, name: str) -> Iterator[tuple[int, float]]:
        if len(name) < MIN_PREFIX_LETTERS:
            return
        at = bisect_left(self._keys, name)
        for place in range(at, min(at + MAX_PREFIX_NAMES, len(self._keys))):
            key = self._keys[place]
            if not key.startswith(name):
                return
            row = self._documents[self._starts[place] : self._starts[place + 1]]
            for document in row[:MAX_PREFIX_NAMES]:
                yield document, PREFIX_SCORE * len(name) / len(key) / (1 + 0.3 * math.log(len(row)))


def _spellings(words: list[str]) -> Iterator[tuple[int, int, str]]:
    """Each sequence of words, in each way to write it as a name: `a b` is `ab` (also `a_b`) or `a.b`."""
    for first in range(len(words)):
        for last in range(first + 1, min(first + MAX_NAME_WORDS, len(words)) + 1):
            run = words[first:last]
            for glue in product((".", ""), repeat=last - first - 1):
                yield first, last, run[0] + "".join(map("".join, zip(glue, run[1:], strict=True)))


def _share(words: list[str], first: int, last: int) -> float:
    """Score of a run of words: the square of its share of the query; common words count a third."""
    weights = [1 / 3 if word in text.COMMON else 1.0 for word in words]
    return (sum(weights[first:last]) / sum(weights)) ** 2
