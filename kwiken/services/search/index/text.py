"""Tokenizer and light stemmer for the index and for queries, with a list of common words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

# A run of letters and digits; identifiers and dotted names are several runs with glue between them.
_RUN = re.compile(r"[A-Za-z0-9]+")
# The humps of camelCase: HTTPServer -> HTTP Server, b64encode -> b64 encode, IPv4Address -> IPv4 Address.
_HUMP = re.compile(r"IPv\d|[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+\d*|[A-Z]+\d*|\d+")
_VOWEL = re.compile(r"[aeiouy]")
MAX_WORD = 40
HEAD = 7  # letters of a word whose deletions are stored (SymSpell's prefix length)

# Words that say little in a question; they still count a little, for `with` and `is` are topics of Python.
_COMMON = """
a an and are as at be by can do does for from has have how i if in into is it its me my not of on or our
should that the then there this to up use using want was what when where which with you
"""
COMMON = frozenset(_COMMON.split())


@lru_cache(maxsize=65536)
def humps(run: str) -> tuple[str, ...]:
    """Parts of one run of letters and digits, as a camelCase name is read."""
    found = tuple(_HUMP.findall(run))
    return found if found or run.islower() or run.isdigit() else (run,)


def pieces(text: str) -> Iterator[tuple[str, str]]:
    """Each word of `text` with what stands between it and the next: "" within camelCase, "_", ".", " " ...

    Words keep their case; those longer than 40 characters are cut, so that no input costs much.
    """
    runs = list(_RUN.finditer(text))
    for at, match in enumerate(runs):
        follow = runs[at + 1].start() if at + 1 < len(runs) else match.end()
        parts = humps(match.group())
        for part in parts[:-1]:
            yield part[:MAX_WORD], ""
        yield parts[-1][:MAX_WORD], text[match.end() : follow]


def words(text: str) -> list[str]:
    """Words of `text` in lower case, split as names are, in order."""
    return [word.lower() for run in _RUN.findall(text) for word in humps(run)]


def terms(text: str) -> list[str]:
    """Index terms of `text`, in order: the stem of each word, and each compound name once more as a whole."""
    found: list[str] = []
    compound: list[str] = []
    for word, glue in pieces(text):
        lower = word.lower()
        found.append(stem(lower))
        compound.append(lower)
        if not joins(glue):
            _add_whole(found, compound)
            compound = []
    _add_whole(found, compound)
    return found


def joins(glue: str) -> bool:
    """True if two words with this text between them are one name: nothing (camelCase) or underscores."""
    return not glue.strip("_")


def whole(compound: list[str]) -> str:
    """The index term of a compound name: `create_task` and `createTask` are both `createtask`."""
    return stem("".join(compound)[:MAX_WORD])


def _add_whole(found: list[str], compound: list[str]) -> None:
    if len(compound) > 1:
        found.append(whole(compound))


@lru_cache(maxsize=65536)
def stem(word: str) -> str:
    """The word without its plural, -ing, -ed and final e, where a plausible stem is left.

    A light stemmer (in the spirit of Harman 1991, "How effective is suffixing?"): it joins the forms of one
    word and rarely two words. Stems are keys, not shown to anyone.
    """
    if len(word) <= 3 or not word.isalpha():  # noqa: PLR2004 - too short to have a suffix
        return word
    word = _singular(word)
    if word.endswith(("tion", "sion")) and len(word) > 8:  # noqa: PLR2004 - insertion, but not function
        return word[:-3]
    for suffix in ("ing", "ed"):
        if word.endswith(suffix) and len(word) - len(suffix) >= 3 and _VOWEL.search(word[: -len(suffix)]):  # noqa: PLR2004
            word = _undouble(word[: -len(suffix)])
            break
    if word.endswith("e") and len(word) > 3:  # noqa: PLR2004
        word = word[:-1]
    return word[:-1] + "i" if word.endswith("y") and len(word) > 3 else word  # noqa: PLR2004


def _singular(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:  # noqa: PLR2004
        return word[:-3] + "y"
    if word.endswith(("sses", "shes", "ches", "xes", "zes")):
        return word[:-2]
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


def _undouble(word: str) -> str:
    """`runn` -> `run`, but `fall` and `pass` stay."""
    if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "lsz":  # noqa: PLR2004
        return word[:-1]
    return word


def deletions(word: str) -> set[str]:
    """The word's head, and the head without up to two of its letters (one if the word is short).

    Two words within two edits of each other share one of these (Garbe 2012, symmetric delete correction).
    """
    found = {word[:HEAD]}
    for _ in range(2 if len(word) > 4 else 1):  # noqa: PLR2004
        found |= {item[:at] + item[at + 1 :] for item in found for at in range(len(item))}
    return found
