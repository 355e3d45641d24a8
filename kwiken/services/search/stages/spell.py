"""Spell stage: corrects words that the corpus does not know, and chooses index terms."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator
from itertools import pairwise
from zlib import crc32

from kwiken.services.search.index import Words, deletions, synonyms, text
from kwiken.services.search.stages.types import Parsed, Query, Term, Token

MAX_EDITS = 2
EDIT_COST = 4.0  # in natural logarithms of frequency: a word one edit further must be 55 times as common
FIRST_LETTER = 1.5  # people seldom miss the first letter
CANDIDATES = 400
SPLIT_LEAST = 3
COMMON_WEIGHT, COMMON_IN_SHORT = 0.15, 0.5
PREFIX_LEAST, PREFIX_MOST, PREFIX_WEIGHT = 3, 4, 0.7


class Speller:
    """Corrects words by symmetric deletes (Garbe 2012) over the corpus' vocabulary, by frequency."""

    def __init__(self, part: Words) -> None:
        self.key = part.key
        self._words = part.words
        self._sorted = sorted(part.words)
        self._numbers = {word: at for at, word in enumerate(part.words)}
        self._stems = frozenset(part.stems)
        self._counts = part.counts.cast("I")
        self._hashes = part.hashes.cast("I")
        self._owners = part.owners.cast("I")

    def knows(self, word: str) -> bool:
        """True if the corpus holds the word or a form of it, or the word is not to be corrected."""
        if len(word) <= 2 or not word.isalpha() or word in text.COMMON:  # noqa: PLR2004
            return True
        term = text.stem(word)
        return word in self._numbers or term in self._stems or term in synonyms.TABLE

    def holds(self, term: str) -> bool:
        """True if the term is the stem of a word of the corpus."""
        return term in self._stems

    def begun(self, word: str) -> list[str]:
        """The commonest words that start so, for a last word that may not be typed to its end."""
        if len(word) < PREFIX_LEAST:
            return []
        first = bisect_left(self._sorted, word)
        last = bisect_left(self._sorted, word + "{", first)  # "{" follows "z"
        return sorted(self._sorted[first:last], key=self._numbers.__getitem__)[:PREFIX_MOST]

    def correct(self, word: str) -> list[str]:
        """The likeliest meant word; two words where they were run together; nothing where none is near."""
        best = max(self._candidates(word), default=None)
        if best is not None and best[1] == 1:
            return [best[2]]
        return self._split(word) or ([best[2]] if best is not None else [])

    def _candidates(self, word: str) -> Iterator[tuple[float, int, str]]:
        limit = MAX_EDITS if len(word) > 4 else 1  # noqa: PLR2004 - two edits turn a short word into any other
        for number in self._near(word):
            other = self._words[number]
            distance = edits(word, other, limit) if abs(len(other) - len(word)) <= limit else limit + 1
            if distance <= limit:
                score = math.log(self._counts[number]) - EDIT_COST * distance
                yield score + FIRST_LETTER * (other[0] == word[0]), distance, other

    def _near(self, word: str) -> list[int]:
        """Numbers of the words that share a deletion with this one, commonest first, bounded."""
        found: set[int] = set()
        for left in deletions(word):
            code = crc32(left.encode())
            at = bisect_left(self._hashes, code)
            while at < len(self._hashes) and self._hashes[at] == code:
                found.add(self._owners[at])
                at += 1
        return sorted(found)[:CANDIDATES]

    def _split(self, word: str) -> list[str]:
        best = 0
        parts: list[str] = []
        for at in range(SPLIT_LEAST, len(word) - SPLIT_LEAST + 1):
            left, right = self._numbers.get(word[:at]), self._numbers.get(word[at:])
            if left is not None and right is not None:
                weight = min(self._counts[left], self._counts[right])
                if weight > best:
                    best, parts = weight, [word[:at], word[at:]]
        return parts


def edits(left: str, right: str, limit: int) -> int:
    """Letters to insert, delete, change or swap with their neighbour to turn one word into the other.

    The optimal string alignment distance (Damerau 1964); `limit + 1` where it is more than `limit`.
    """
    older: list[int] = []
    old = list(range(len(right) + 1))
    for i, a in enumerate(left, 1):
        row = [i]
        for j, b in enumerate(right, 1):
            cost = min(old[j] + 1, row[j - 1] + 1, old[j - 1] + (a != b))
            if i > 1 and j > 1 and a == right[j - 2] and left[i - 2] == b:
                cost = min(cost, older[j - 2] + 1)
            row.append(cost)
        if min(row) > limit:
            return limit + 1
        older, old = old, row
    return min(old[-1], limit + 1)


def spell(parsed: Parsed, speller: Speller) -> Query:
    """The query as understood: unknown words corrected, terms and what else they may be called chosen."""
    begun = _begun(parsed.tokens, speller)
    kept = parsed.tokens[-1:] if begun else []
    tokens: list[Token] = []
    for name in _names(parsed.tokens[: len(parsed.tokens) - len(kept)]):
        tokens.extend(_fix_name(name, speller))
    tokens.extend(kept)
    changed = tokens != parsed.tokens
    return Query(
        query=parsed.query,
        corrected="".join(token.text + token.glue for token in tokens).strip() if changed else None,
        tokens=tokens,
        terms=_terms(tokens, begun, speller),
        index=speller.key,
        limit=parsed.limit,
    )


def _begun(tokens: list[Token], speller: Speller) -> list[str]:
    """Words that the last word may be the start of, if it is no word itself."""
    last = tokens[-1].text.lower() if tokens else ""
    return [] if speller.knows(last) else speller.begun(last)


def _names(tokens: list[Token]) -> Iterator[list[Token]]:
    """The tokens, those of one compound name together."""
    name: list[Token] = []
    for token in tokens:
        name.append(token)
        if not text.joins(token.glue):
            yield name
            name = []
    if name:
        yield name


def _fix_name(name: list[Token], speller: Speller) -> list[Token]:
    """A compound is first corrected as the whole name that it may be: `OrderdDict` is no `OrderDict`."""
    if len(name) > 1 and not all(speller.knows(token.text.lower()) for token in name):
        found = speller.correct("".join(token.text.lower() for token in name))
        if len(found) == 1:
            return [Token(found[0], name[-1].glue)]
    return [fixed for token in name for fixed in _fix(token, speller)]


def _fix(token: Token, speller: Speller) -> list[Token]:
    word = token.text.lower()
    if speller.knows(word):
        return [token]
    found = speller.correct(word)
    if not found:
        return [token]
    return [Token(part, " ") for part in found[:-1]] + [Token(found[-1], token.glue)]


def _terms(tokens: list[Token], begun: list[str], speller: Speller) -> list[Term]:
    """One term a word, and one for each compound name as a whole; common words count little."""
    lowers = [token.text.lower() for token in tokens]
    content = sum(word not in text.COMMON for word in lowers)
    terms: dict[str, Term] = {}
    for word in lowers:
        term = text.stem(word)
        if content and word in text.COMMON:
            options = [(term, COMMON_WEIGHT if content > 1 else COMMON_IN_SHORT)]
        else:
            options = [(term, 1.0), *synonyms.also(term)]
        terms.setdefault(term, Term(options))
    if begun:
        terms[term] = Term([(term, 1.0), *((text.stem(word), PREFIX_WEIGHT) for word in begun)])
    for name in _wholes(tokens, lowers, speller):
        terms.setdefault(name, Term([(name, 1.0)]))
    return list(terms.values())


def _wholes(tokens: list[Token], lowers: list[str], speller: Speller) -> Iterator[str]:
    """Names written as compounds, and pairs of words that the corpus writes as one: `data class`."""
    compound: list[str] = []
    for word, token in zip(lowers, tokens, strict=True):
        compound.append(word)
        if not text.joins(token.glue) or token is tokens[-1]:
            if len(compound) > 1:
                yield text.whole(compound)
            compound = []
    for left, right in pairwise(lowers):
        name = text.whole([left, right])
        if speller.holds(name):
            yield name
