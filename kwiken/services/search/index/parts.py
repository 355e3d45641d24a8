"""Parts of the index. Each stage loads only its own part; arrays stay memory-mapped until they are read."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct

SHARDS = 8


class IndexPart(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base class of the parts.

    Attributes:
        key: name of the index; parts of different indexes cannot be combined.
    """

    file: ClassVar[str]
    key: str


class Rows(Struct, frozen=True, array_like=True):
    """Rows of unequal length end to end: row i is `items[starts[i]:starts[i + 1]]`.

    Attributes:
        items: unsigned 32-bit numbers, or bytes, as said where it is used.
    """

    starts: memoryview
    items: memoryview

    def bounds(self, row: int) -> tuple[int, int]:
        """First item of a row, and the first of the next."""
        starts = self.starts.cast("I")
        return starts[row], starts[row + 1]


class Words(IndexPart, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Part for spelling correction: words of the corpus, commonest first, indexed by their deletions.

    Attributes:
        counts: in how many documents, unsigned 32-bit.
        stems: every stem that the index knows.
        hashes: CRC-32 of every string that deleting up to two letters of a word's head leaves; rising.
        owners: for each hash the word's number, unsigned 32-bit.
    """

    file = "words"
    words: list[str]
    counts: memoryview
    stems: list[str]
    hashes: memoryview
    owners: memoryview


class Shard(Struct, frozen=True, array_like=True):
    """One shard's inverted index: rows by term.

    Attributes:
        documents: rows of document numbers, unsigned 32-bit.
        scores: BM25F score of the term in the document, 32-bit floats, in the same places.
    """

    documents: Rows
    scores: memoryview


class Postings(IndexPart, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Part for look-up: the inverted index, split into shards by document number."""

    file = "postings"
    terms: list[str]
    shards: list[Shard]


class SymbolTable(IndexPart, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Part for symbols: names and their suffixes (`asyncio.gather`, `gather`), lower case, no underscores.

    Attributes:
        documents: rows of document numbers by key, unsigned 32-bit.
        names: by document, in the form of the keys.
        priors: by document, 32-bit floats.
    """

    file = "symbols"
    keys: list[str]
    documents: Rows
    names: list[str]
    priors: memoryview


class Ranking(IndexPart, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Part for ranking: name, prior and terms of each document.

    Attributes:
        names: titles: public names, and the headings of topics.
        priors: standing before any query, 32-bit floats.
        texts: rows of term numbers, in the order of the text, cut at `FORWARD` terms; unsigned 32-bit.
    """

    file = "ranking"
    names: list[str]
    priors: memoryview
    terms: list[str]
    texts: Rows


class Texts(IndexPart, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Part for snippets: texts in UTF-8, by document."""

    file = "texts"
    texts: Rows


class SymbolCard(Struct, frozen=True, array_like=True):
    """Fields of a result besides its snippet."""

    kind: str
    name: str
    title: str
    signature: str
    path: str
    line: int


class Cards(IndexPart, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Part for the result page: rows of `SymbolCard` in MessagePack, by document."""

    file = "cards"
    cards: Rows


PARTS: tuple[type[IndexPart], ...] = (Words, Postings, SymbolTable, Ranking, Texts, Cards)
