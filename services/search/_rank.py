"""Ranking: look-up and symbols together, then how names fit and how near the words stand."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from heapq import nlargest

from kwiken import Partial
from services.search import _text
from services.search._parts import Ranking
from services.search._types import Hits, Query, Ranked, Symbols

CONSIDERED = 60  # documents that get the dear features
READ = 200  # terms of a text that nearness looks at
SYMBOL, NAME, NEAR, TEXT = 0.9, 0.5, 0.15, 1.0
AKIN = 0.6  # a word that the name holds under another word for it


class Ranker:
    """What ranking knows of the documents."""

    def __init__(self, part: Ranking) -> None:
        self.key = part.key
        self._names = part.names
        self._priors = part.priors.cast("f")
        self._terms = {term: at for at, term in enumerate(part.terms)}
        self._starts = part.texts.starts.cast("I")
        self._texts = part.texts.items.cast("I")

    def rank(self, query: Query, hits: Partial[Hits], symbols: Symbols | None) -> Ranked:
        """The best documents of all shards and of the symbol look-up, best first.

        Each feature lies between 0 and 1 and counts by a fixed weight; the document's standing is added.
        """
        text: Counter[int] = Counter()
        for shard in hits.present:
            text.update(dict(zip(shard.documents, shard.scores, strict=True)))
        named = dict(zip(symbols.documents, symbols.scores, strict=True)) if symbols is not None else {}
        scale = max(text.values(), default=1.0) or 1.0
        first = {
            document: TEXT * text[document] / scale
            + SYMBOL * named.get(document, 0.0)
            + self._priors[document]
            for document in text.keys() | named.keys()
        }
        wanted = _Wanted(query, self._terms)
        scored = [
            (score + NAME * self._name(document, wanted) + NEAR * self._near(document, wanted), -document)
            for document, score in nlargest(CONSIDERED, first.items(), key=lambda item: (item[1], -item[0]))
        ]
        scored.sort(reverse=True)
        best = scored[: query.limit]
        return Ranked(
            query=query,
            documents=[-document for _, document in best],
            scores=[round(score, 4) for score, _ in best],
            matched=max(sum(shard.matched for shard in hits.present), len(best)),
            missing=len(hits.values) - len(hits.present),
            worth=round(hits.utility, 4),
        )

    def _name(self, document: int, wanted: _Wanted) -> float:
        """How much of the query the name holds, times how much of the name's last part the query holds."""
        path, _, last = self._names[document].rpartition(".")
        ending = set(_text.terms(last))
        parts = ending.union(_text.terms(path))
        held = sum(weight * _best(options, parts) for options, weight in wanted.words)
        covered = sum(_asked(part, wanted) for part in ending) / max(1, len(ending))
        return held / wanted.weight * (0.4 + 0.6 * covered) if wanted.weight else 0.0

    def _near(self, document: int, wanted: _Wanted) -> float:
        """1 where all words of the query stand side by side in the text, falling as they part or miss."""
        if len(wanted.groups) < 2:  # noqa: PLR2004 - nearness needs two
            return 0.0
        start = self._starts[document]
        row = self._texts[start : min(self._starts[document + 1], start + READ)]
        places = [(at, wanted.numbers[number]) for at, number in enumerate(row) if number in wanted.numbers]
        most, span = _closest(places)
        return (most - 1) / (len(wanted.groups) - 1) * (most / span) ** 0.5 if most > 1 else 0.0


class _Wanted:
    """The query's terms in the forms that the features ask for; common words are left out unless alone."""

    def __init__(self, query: Query, terms: dict[str, int]) -> None:
        strong = [term for term in query.terms if term.options[0][1] >= AKIN] or query.terms
        self.groups = [[option for option, _ in term.options] for term in strong]
        # A compound's whole is no further word of the query.
        singles = {_text.stem(token.text.lower()) for token in query.tokens}
        self.words = [
            ({option: 1.0 if at == 0 else AKIN for at, option in enumerate(group)}, 1.0)
            for group in self.groups
            if group[0] in singles
        ]
        self.weight = sum(weight for _, weight in self.words)
        self.all = {
            option: 1.0 if at == 0 else AKIN for group in self.groups for at, option in enumerate(group)
        }
        self.joined = _text.whole([token.text.lower() for token in query.tokens])
        self.numbers = {
            terms[option]: at
            for at, group in enumerate(self.groups)
            for option in group[:1]
            if option in terms
        }


def _best(options: dict[str, float], parts: set[str]) -> float:
    return max((worth for option, worth in options.items() if option in parts), default=0.0)


def _asked(part: str, wanted: _Wanted) -> float:
    return 1.0 if part == wanted.joined else wanted.all.get(part, 0.0)


def _closest(places: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """Most groups found, and the length of the shortest stretch that holds that many (a sliding window)."""
    most = len({group for _, group in places})
    held: Counter[int] = Counter()
    first, span = 0, math.inf
    for at, group in places:
        held[group] += 1
        while len(held) == most and most:
            start, leaving = places[first]
            span = min(span, at - start + 1)
            held[leaving] -= 1
            if not held[leaving]:
                del held[leaving]
            first += 1
    return most, int(span) if most else 1
