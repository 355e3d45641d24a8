"""Spell stage: corrects words that are not in the corpus, and chooses index terms."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator
from itertools import pairwise
from zlib import crc32

from kwiken.services.search.index import synonyms, text
from kwiken.services.search.index.parts import Words
from kwiken.services.search.index.text import deletions
from kwiken.services.search.stages.types import Parsed, Query, Term, Token

MAX_EDITS = 2
EDIT_COST = 4.0  # in natural logarithms of frequency: a word one edit further must be 55 times as common
FIRST_LETTER_BONUS = 1.5  # first letters are seldom misspelt
MAX_CANDIDATES = 400
MIN_SPLIT_LETTERS = 3  # of each part of a word that lacks a space
COMMON_WEIGHT, COMMON_WEIGHT_IN_SHORT_QUERY = 0.15, 0.5
MIN_PREFIX_LETTERS, MAX_COMPLETIONS, COMPLETION_WEIGHT = 3, 4, 0.7


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
        """True if the corpus contains the word or a form of it, or the word is not to be corrected."""
        if len(word) <= 2 or not word.isalpha() or word in text.COMMON:  # noqa: PLR2004
            return True
        term = text.stem(word)
        return word in self._numbers or term in self._stems or term in synonyms.TABLE

    def has_stem(self, term: str) -> bool:
        """True if the term is the stem of a word of the corpus."""
        return term in self._stems

    def completions(self, word: str) -> list[str]:
        """Most frequent words with this prefix, for a last word that may not be complete."""
        if len(word) < MIN_PREFIX_LETTERS:
            return []
        first = bisect_left(self._sorted, word)
        last = bisect_left(self._sorted, word + "{", first)  # "{" follows "z"
        return sorted(self._sorted[first:last], key=self._numbers.__getitem__)[:MAX_COMPLETIONS]

    def correct(self, word: str) -> list[str]:
        """Most likely intended word; two words where a space is missing; nothing where no word is similar."""
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
                yield score + FIRST_LETTER_BONUS * (other[0] == word[0]), distance, other

    def _near(self, word: str) -> list[int]:
        """Numbers of the words that share a deletion with this one, commonest first, bounded."""
        found: set[int] = set()
        for left in deletions(word):
            code = crc32(left.encode())
            at = bisect_left(self._hashes, code)
            while at < len(self._hashes) and self._hashes[at] == code:
                found.add(self._owners[at])
                at += 1
        return sorted(found)[:MAX_CANDIDATES]

    def _split(self, word: str) -> list[str]:
        best = 0
        parts: list[str] = []
        for at in range(MIN_SPLIT_LETTERS, len(word) - MIN_SPLIT_LETTERS + 1):
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
    """Query after correction: unknown words corrected, index terms and their synonyms chosen."""
    completions = _completions(parsed.tokens, speller)
    unfinished = parsed.tokens[-1:] if completions else []
    tokens: list[Token] = []
    for name in _names(parsed.tokens[: len(parsed.tokens) - len(unfinished)]):
        tokens.extend(_fix_name(name, speller))
    tokens.extend(unfinished)
    changed = tokens != parsed.tokens
    return Query(
        query=parsed.query,
        corrected="".join(token.text + token.glue for token in tokens).strip() if changed else None,
        tokens=tokens,
        terms=_terms(tokens, completions, speller),
        index=speller.key,
        limit=parsed.limit,
    )


def _completions(tokens: list[Token], speller: Speller) -> list[str]:
    """Completions of the last word, if it is no word itself."""
    last = tokens[-1].text.lower() if tokens else ""
    return [] if speller.knows(last) else speller.completions(last)


def _names(tokens: list[Token]) -> Iterator[list[Token]]:
    """Tokens by name: the parts of one compound name together."""
    name: list[Token] = []
    for token in tokens:
        name.append(token)
        if not text.joins(token.glue):
            yield name
            name = []
    if name:
        yield name


def _fix_name(name: list[Token], speller: Speller) -> list[Token]:
    """Correct a name: a compound as a whole first, so that `OrderdDict` becomes `OrderedDict`."""
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


def _terms(tokens: list[Token], completions: list[str], speller: Speller) -> list[Term]:
    """One term for each word and for each whole compound name; common words have a low weight."""
    lower_words = [token.text.lower() for token in tokens]
    content = sum(word not in text.COMMON for word in lower_words)
    terms: dict[str, Term] = {}
    for word in lower_words:
        term = text.stem(word)
        if content and word in text.COMMON:
            options = [(term, COMMON_WEIGHT if content > 1 else COMMON_WEIGHT_IN_SHORT_QUERY)]
        else:
            options = [(term, 1.0), *synonyms.also(term)]
        terms.setdefault(term, Term(options))
    if completions:
        terms[term] = Term([(term, 1.0), *((text.stem(word), COMPLETION_WEIGHT) for word in completions)])
    for name in _wholes(tokens, lower_words, speller):
        terms.setdefault(name, Term([(name, 1.0)]))
    return list(terms.values())


def _wholes(tokens: list[Token], lower_words: list[str], speller: Speller) -> Iterator[str]:
    """Names written as compounds, and pairs of words that the corpus writes as one: `data class`."""
    compound: list[str] = []
    for word, token in zip(lower_words, tokens, strict=True):
        compound.append(word)
        if not text.joins(token.glue) or token is tokens[-1]:
            if len(compound) > 1:
                yield text.whole(compound)
            compound = []
    for left, right in pairwise(lower_words):
        name = text.whole([left, right])
        if speller.has_stem(name):
            yield name
