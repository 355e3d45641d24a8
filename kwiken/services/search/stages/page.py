"""Page stage: assembles the answer that the user sees."""

from __future__ import annotations

import msgspec

from kwiken.model.service.stage import Partial
from kwiken.services.search.index.parts import Cards, SymbolCard
from kwiken.services.search.stages.types import Answer, Ranked, Result, Snippet


class PageBuilder:
    """Builds answers from the cards of documents: the fields that a result shows."""

    def __init__(self, part: Cards) -> None:
        self.key = part.key
        self._rows = part.cards
        self._decoder = msgspec.msgpack.Decoder(SymbolCard)

    def card(self, document: int) -> SymbolCard:
        """The document's card."""
        first, last = self._rows.bounds(document)
        return self._decoder.decode(self._rows.items[first:last])

    def answer(self, ranked: Ranked, snippets: Partial[list[Snippet]]) -> Answer:
        """Answer with the ranked documents' cards, and the snippets of the shards that answered."""
        texts = {item.document: item.parts for shard in snippets.present for item in shard}
        results = [
            _result(self.card(document), texts.get(document, []), score)
            for document, score in zip(ranked.documents, ranked.scores, strict=True)
        ]
        return Answer(
            query=ranked.query.query,
            corrected=ranked.query.corrected,
            count=ranked.matched,
            results=results,
            note=_note(ranked, len(snippets.values) - len(snippets.present)),
        )


def _result(card: SymbolCard, parts: list[str], score: float) -> Result:
    return Result(
        kind=card.kind,
        name=card.name,
        title=card.title,
        signature=card.signature,
        path=card.path,
        line=card.line,
        snippet=parts,
        score=score,
    )


def _note(ranked: Ranked, without_text: int) -> str | None:
    remarks = []
    if ranked.missing:
        chance = f"; the best result is here with a chance of {ranked.worth:.0%}"
        remarks.append(
            f"{ranked.missing} part{'s' * (ranked.missing > 1)} of the index did not answer in time{chance}"
        )
    if without_text:
        remarks.append("some results are shown without their text")
    return "; ".join(remarks) if remarks else None
