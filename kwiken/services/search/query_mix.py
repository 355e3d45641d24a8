"""Generator of realistic queries: Zipf-like popularity of documents, and some misspellings."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from itertools import accumulate
from string import ascii_lowercase

import msgspec

from kwiken.services.search.index import store, text as text_module
from kwiken.services.search.index.parts import Cards, SymbolCard, SymbolTable, Texts, Words

ZIPF_EXPONENT = 0.9  # of Zipf's law over the documents, from the most used to the least
LENGTH_SHARES = (0.15, 0.40, 0.30, 0.15)  # share of queries of one, two, three and four words
MISSPELT_SHARE = 0.05
NAME_FIRST_SHARE = 0.5  # share of queries that start with the name; the others take any salient words
MAX_SALIENT_WORDS = 8
MIN_MISSPELT_LETTERS = 5  # letters of a word that may be misspelt


def queries(count: int, seed: int) -> Iterator[str]:
    """Generate `count` queries, the same for the same seed and index.

    A document is drawn by Zipf's law over its rank by prior, then a query is made of its salient words: parts
    of its name first, then the rare words of its first paragraph.
    """
    source = _Source()
    rng = random.Random(seed)  # noqa: S311 - a load, not a secret
    ranks = list(accumulate(1 / rank**ZIPF_EXPONENT for rank in range(1, len(source.order) + 1)))
    for document in rng.choices(source.order, cum_weights=ranks, k=count):
        words = source.query(document, rng)
        if rng.random() < MISSPELT_SHARE:
            words = misspell(words, rng)
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

    def query(self, document: int, rng: random.Random) -> list[str]:
        """One to four words about this document: those of its name in order, then the rarest ones."""
        of_name, rare = self._salient(document)
        length = rng.choices(range(1, len(LENGTH_SHARES) + 1), weights=LENGTH_SHARES)[0]
        pool = [*of_name[-2:], *rare] or ["python"]
        length = min(length, len(pool))
        if rng.random() < NAME_FIRST_SHARE:
            return pool[:length]
        return [pool[at] for at in sorted(rng.sample(range(len(pool)), length))]

    def _salient(self, document: int) -> tuple[list[str], list[str]]:
        first, last = self._cards.bounds(document)
        card = msgspec.msgpack.decode(self._cards.items[first:last], type=SymbolCard)
        of_name = [word for word in dict.fromkeys(text_module.words(card.name)) if word in self._rarity]
        begin, end = self._texts.bounds(document)
        text = bytes(self._texts.items[begin : min(end, begin + 2000)]).decode("utf-8", "ignore")
        rare = {word for word in text_module.words(text.partition("\n\n")[0]) if word in self._rarity}
        rare -= text_module.COMMON.union(of_name)
        return of_name, sorted(rare, key=lambda word: (-self._rarity[word], word))[:MAX_SALIENT_WORDS]


def misspell(words: list[str], rng: random.Random) -> list[str]:
    """The words with one of the long ones mistyped: two letters swapped, one left out, doubled or wrong."""
    long = [at for at, word in enumerate(words) if len(word) >= MIN_MISSPELT_LETTERS]
    if not long:
        return words
    at = rng.choice(long)
    word = words[at]
    place = rng.randrange(1, len(word) - 1)
    wrong = rng.choice(
        (
            word[:place] + word[place + 1] + word[place] + word[place + 2 :],
            word[:place] + word[place + 1 :],
            word[:place] + word[place] + word[place:],
            word[:place] + rng.choice(ascii_lowercase) + word[place + 1 :],
        )
    )
    return [*words[:at], wrong, *words[at + 1 :]]
