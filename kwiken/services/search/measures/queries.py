"""Generator of realistic queries: Zipf-like popularity of documents, and some misspellings."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from itertools import accumulate
from string import ascii_lowercase

import msgspec

from kwiken.services.search.index import Card, Cards, SymbolTable, Texts, Words, store
from kwiken.services.search.index import text as text_module

EXPONENT = 0.9  # of Zipf's law over the documents, from the most used to the least
LENGTHS = (0.15, 0.40, 0.30, 0.15)  # share of queries of one, two, three and four words
MISSPELT = 0.05
BY_NAME = 0.5  # share of queries that start with the name; the others take any salient words
SALIENT = 8
LONG_ENOUGH = 5  # letters of a word that someone may misspell


def queries(count: int, seed: int) -> Iterator[str]:
    """Generate `count` queries, the same for the same seed and index.

    A document is drawn by Zipf's law over the standing that the index gives it, then a query is made of what
    is salient in it: parts of its name first, then the rare words of its first paragraph.
    """
    source = _Source()
    chance = random.Random(seed)  # noqa: S311 - a load, not a secret
    ranks = list(accumulate(1 / rank**EXPONENT for rank in range(1, len(source.order) + 1)))
    for document in chance.choices(source.order, cum_weights=ranks, k=count):
        words = source.query(document, chance)
        if chance.random() < MISSPELT:
            words = misspell(words, chance)
        yield " ".join(words)


class _Source:
    """Names, texts and word counts, from the index."""

    def __init__(self) -> None:
        cards, texts = store.load(Cards), store.load(Texts)
        words, symbols = store.load(Words), store.load(SymbolTable)
        self._cards, self._texts = cards.cards, texts.texts
        counts = words.counts.cast("I")
        total = len(symbols.names)
        self._rarity = {word: math.log(total / counts[at]) for at, word in enumerate(words.words)}
        priors = symbols.priors.cast("f")
        self.order = sorted(range(total), key=lambda document: (-priors[document], document))

    def query(self, document: int, chance: random.Random) -> list[str]:
        """One to four words about this document: those of its name in order, then the rarest ones."""
        named, said = self._salient(document)
        length = chance.choices(range(1, len(LENGTHS) + 1), weights=LENGTHS)[0]
        pool = [*named[-2:], *said] or ["python"]
        length = min(length, len(pool))
        if chance.random() < BY_NAME:
            return pool[:length]
        return [pool[at] for at in sorted(chance.sample(range(len(pool)), length))]

    def _salient(self, document: int) -> tuple[list[str], list[str]]:
        first, last = self._cards.bounds(document)
        card = msgspec.msgpack.decode(self._cards.items[first:last], type=Card)
        named = [word for word in dict.fromkeys(text_module.words(card.name)) if word in self._rarity]
        begin, end = self._texts.bounds(document)
        text = bytes(self._texts.items[begin : min(end, begin + 2000)]).decode("utf-8", "ignore")
        said = {word for word in text_module.words(text.partition("\n\n")[0]) if word in self._rarity}
        said -= text_module.COMMON.union(named)
        return named, sorted(said, key=lambda word: (-self._rarity[word], word))[:SALIENT]


def misspell(words: list[str], chance: random.Random) -> list[str]:
    """The words with one of the long ones mistyped: two letters swapped, one left out, doubled or wrong."""
    long = [at for at, word in enumerate(words) if len(word) >= LONG_ENOUGH]
    if not long:
        return words
    at = chance.choice(long)
    word = words[at]
    place = chance.randrange(1, len(word) - 1)
    wrong = chance.choice(
        (
            word[:place] + word[place + 1] + word[place] + word[place + 2 :],
            word[:place] + word[place + 1 :],
            word[:place] + word[place] + word[place:],
            word[:place] + chance.choice(ascii_lowercase) + word[place + 1 :],
        )
    )
    return [*words[:at], wrong, *words[at + 1 :]]
