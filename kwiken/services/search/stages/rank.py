"""Rank stage: merges look-up and symbols, then scores matching names and the proximity of words."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from heapq import nlargest
from itertools import combinations

from kwiken.model.service.stage import Partial
from kwiken.services.search.index import text as text_module
from kwiken.services.search.index.parts import Ranking
from kwiken.services.search.stages.types import Hits, Query, Ranked, Symbols

MAX_RERANKED = 60  # documents whose names and proximity are scored, which is expensive
MAX_TERMS_READ = 200  # terms of a text that proximity is computed from
TEXT_WEIGHT, SYMBOL_WEIGHT, NAME_WEIGHT, PROXIMITY_WEIGHT = 1.0, 0.6, 0.5, 0.25
MAX_NAME_WORDS = 4  # words of a compound name
SYNONYM_WEIGHT = 0.6  # of a word of the query that a name contains only as a synonym


class Ranker:
    """Ranker over the names, priors and terms of all documents."""

    def __init__(self, part: Ranking) -> None:
        self.key = part.key
        self._names = part.names
        self._priors = part.priors.cast("f")
        self._terms = {term: at for at, term in enumerate(part.terms)}
        self._starts = part.texts.starts.cast("I")
        self._texts = part.texts.items.cast("I")

    def rank(self, query: Query, hits: Partial[Hits], symbols: Symbols | None) -> Ranked:
        """The best documents of all shards and of the symbol look-up, best first.

        Each feature is from 0 to 1 and has a fixed weight; the document's prior is added.
        """
        text: Counter[int] = Counter()
        for shard in hits.present:
            text.update(dict(zip(shard.documents, shard.scores, strict=True)))
        named = dict(zip(symbols.documents, symbols.scores, strict=True)) if symbols is not None else {}
        scale = max(text.values(), default=1.0) or 1.0
        first = {
            document: TEXT_WEIGHT * text[document] / scale
            + SYMBOL_WEIGHT * named.get(document, 0.0)
            + self._priors[document]
            for document in text.keys() | named.keys()
        }
        terms = _QueryTerms(query, self._terms)
        scored = [
            (
                score
                + NAME_WEIGHT * self._name_match(document, terms)
                + PROXIMITY_WEIGHT * self._proximity(document, terms),
                -document,
            )
            for document, score in nlargest(MAX_RERANKED, first.items(), key=lambda item: (item[1], -item[0]))
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

    def _name_match(self, document: int, terms: _QueryTerms) -> float:
        """Share of the query's words in the name, times the share of the name's last part in the query."""
        path, _, last = self._names[document].rpartition(".")
        ending = [text_module.stem(word) for word in text_module.words(last)]
        parts = {*ending, *text_module.terms(path), "".join(ending)}
        held = sum(terms.held(parts)) / max(1, len(terms.words))
        covered = sum(terms.all.get(part, 0.0) for part in ending) / max(1, len(ending))
        return held * (0.4 + 0.6 * covered)

    def _proximity(self, document: int, terms: _QueryTerms) -> float:
        """Proximity of the query's words in the text: 1 where all are adjacent, less with gaps or misses."""
        if len(terms.groups) < 2:  # noqa: PLR2004 - proximity needs two
            return 0.0
        start = self._starts[document]
        row = self._texts[start : min(self._starts[document + 1], start + MAX_TERMS_READ)]
        places = [(at, terms.numbers[number]) for at, number in enumerate(row) if number in terms.numbers]
        most, span = _closest(places)
        return (most - 1) / (len(terms.groups) - 1) * (most / span) ** 0.5 if most > 1 else 0.0


class _QueryTerms:
    """Terms of a query in the forms that the features need, without common words unless all are common."""

    def __init__(self, query: Query, terms: dict[str, int]) -> None:
        strong = [term for term in query.terms if term.options[0][1] >= SYNONYM_WEIGHT] or query.terms
        self.groups = [[option for option, _ in term.options] for term in strong]
        self.all = {
            name: 1.0 if at == 0 else SYNONYM_WEIGHT for group in self.groups for at, name in enumerate(group)
        }
        heads = {group[0]: group for group in self.groups}
        lowers = [token.text.lower() for token in query.tokens]
        self.words = [heads[term] for term in dict.fromkeys(map(text_module.stem, lowers)) if term in heads]
        self.wholes = {
            name: {text_module.stem(word) for word in lowers[first:last]}
            for first, last in combinations(range(len(lowers) + 1), 2)
            if 1 < last - first <= MAX_NAME_WORDS and (name := text_module.whole(lowers[first:last])) in heads
        }
        numbered = enumerate(group for group in self.groups if group[0] in terms)
        self.numbers = {terms[group[0]]: at for at, group in numbered}

    def held(self, parts: set[str]) -> list[float]:
        """Weights of the query's words that these parts of a name contain, alone or as compounds."""
        joined = {word for name, words in self.wholes.items() if name in parts for word in words}
        weights = (1.0 if group[0] in joined else self._best(group, parts) for group in self.words)
        return [weight for weight in weights if weight]

    def _best(self, group: list[str], parts: set[str]) -> float:
        return max((self.all[name] for name in group if name in parts), default=0.0)


def _closest(places: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """Number of different groups, and the length of the shortest window that contains all of them."""
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
