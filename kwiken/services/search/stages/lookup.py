"""Look-up stage: BM25F search in one shard of the inverted index."""

from __future__ import annotations

import math
from heapq import nlargest

from kwiken.service import Partial
from kwiken.services.search.index import Postings
from kwiken.services.search.stages.types import Hits, Query, Term

KEPT = 40
_FEW = 3
WIDEN = 1.2  # scores have heavier tails than the normal


class Index:
    """The inverted index, all shards of it: a replica serves any."""

    def __init__(self, part: Postings) -> None:
        self.key = part.key
        self._terms = {term: at for at, term in enumerate(part.terms)}
        self._shards = [
            (shard.documents.starts.cast("I"), shard.documents.items.cast("I"), shard.scores.cast("f"))
            for shard in part.shards
        ]

    def find(self, query: Query, shard: int) -> Hits:
        """The shard's best documents for the query, by the sum over terms of each term's best option."""
        total: dict[int, float] = {}
        for term in query.terms:
            for document, score in self._term(term, shard).items():
                total[document] = total.get(document, 0.0) + score
        best = nlargest(KEPT, total.items(), key=lambda item: (item[1], -item[0]))
        return Hits([document for document, _ in best], [round(score, 4) for _, score in best], len(total))

    def _term(self, term: Term, shard: int) -> dict[int, float]:
        starts, documents, scores = self._shards[shard]
        found: dict[int, float] = {}
        for option, weight in term.options:
            number = self._terms.get(option)
            if number is None:
                continue
            first, last = starts[number], starts[number + 1]
            for document, score in zip(documents[first:last], scores[first:last], strict=True):
                worth = weight * score
                if worth > found.get(document, 0.0):
                    found[document] = worth
        return found


def utility(answer: Partial[Hits]) -> float:
    """The chance that the best hit of all shards is among those that answered.

    Documents are dealt to shards by number, so the shards' best scores are draws from one distribution. With
    few known, or all alike, it is the share of the shards; with more, the chance under a normal fit (widened
    as a prediction must be) that no missing shard beats the best one seen. A test holds it to what is so.
    """
    tops = [hits.scores[0] if hits.scores else 0.0 for hits in answer.present]
    known, missing = len(tops), len(answer.values) - len(tops)
    if not missing or not tops:
        return 0.0 if missing else 1.0
    mean = sum(tops) / known
    spread = math.sqrt(sum((top - mean) ** 2 for top in tops) / max(1, known - 1))
    if known < _FEW or spread <= 0:
        return known / (known + missing)
    wide = WIDEN * spread * math.sqrt(1 + 1 / known)
    below = 0.5 * (1 + math.erf((max(tops) - mean) / (wide * math.sqrt(2))))
    return float(below**missing)


def worth(answer: Partial[Hits]) -> list[float]:
    """Worth of each shard's hits once all are known: 1 for the shard with the best hit, 0 for the others.

    If several shards have an equally good best hit, all are 0, because the answer is as good without any one.
    """
    tops = [hits.scores[0] if hits is not None and hits.scores else 0.0 for hits in answer.values]
    best = max(tops)
    alone = best > 0 and tops.count(best) == 1
    return [float(alone and top == best) for top in tops]
