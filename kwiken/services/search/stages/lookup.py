"""Look-up stage: BM25F search in one shard of the inverted index."""

from __future__ import annotations

import math
from heapq import nlargest

from kwiken.model.service.stage import Partial
from kwiken.services.search.index.parts import Postings
from kwiken.services.search.stages.types import Hits, Query, Term

MAX_HITS_PER_SHARD = 40
MIN_SHARDS_FOR_FIT = 3
NORMAL_WIDENING = 1.2  # scores have heavier tails than the normal


class Index:
    """Inverted index with all shards: one replica serves any shard."""

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
        best = nlargest(MAX_HITS_PER_SHARD, total.items(), key=lambda item: (item[1], -item[0]))
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
                weighted = weight * score
                if weighted > found.get(document, 0.0):
                    found[document] = weighted
        return found


def utility(answer: Partial[Hits]) -> float:
    """Probability that the best hit of all shards is among the shards that answered.

    A document's number decides its shard, so the shards' best scores are draws from one distribution. There
    are two cases:
    1. Few shards answered, or all best scores are equal: the share of the shards that answered.
    2. Otherwise: the probability that no missing shard beats the best score seen, under a normal fit that is
       widened as for a prediction. A test compares this estimate with the true frequency.
    """
    best_scores = [hits.scores[0] if hits.scores else 0.0 for hits in answer.present]
    known, missing = len(best_scores), len(answer.values) - len(best_scores)
    if not missing or not best_scores:
        return 0.0 if missing else 1.0
    mean = sum(best_scores) / known
    spread = math.sqrt(sum((score - mean) ** 2 for score in best_scores) / max(1, known - 1))
    if known < MIN_SHARDS_FOR_FIT or spread <= 0:
        return known / (known + missing)
    deviation = NORMAL_WIDENING * spread * math.sqrt(1 + 1 / known)
    below = 0.5 * (1 + math.erf((max(best_scores) - mean) / (deviation * math.sqrt(2))))
    return float(below**missing)


def worth(answer: Partial[Hits]) -> list[float]:
    """Worth of each shard's hits once all are known: 1 for the shard with the best hit, 0 for the others.

    If several shards have an equally good best hit, all are 0, because the answer is as good without any one.
    """
    best_scores = [hits.scores[0] if hits is not None and hits.scores else 0.0 for hits in answer.values]
    best = max(best_scores)
    alone = best > 0 and best_scores.count(best) == 1
    return [float(alone and score == best) for score in best_scores]
