"""Index builder: makes the parts of the index from the documents.

Run as a program of its own it writes them to disk, so that no replica carries its imports and memory.
"""

from __future__ import annotations

import math
import sys
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from zlib import crc32

import msgspec

from kwiken.services.search.index import store, text
from kwiken.services.search.index.corpus import Document, corpus
from kwiken.services.search.index.names import private
from kwiken.services.search.index.parts import (
    SHARDS,
    Cards,
    IndexPart,
    Postings,
    Ranking,
    Rows,
    Shard,
    SymbolCard,
    SymbolTable,
    Texts,
    Words,
)

# BM25F (Robertson and Zaragoza 2009, section 3.6): a field's weight, and how far its length counts.
FIELDS = {
    "last": (5.0, 0.4),
    "path": (2.5, 0.3),
    "summary": (2.0, 0.5),
    "body": (1.0, 0.7),
    "signature": (0.6, 0.7),
}
K1 = 1.4
FORWARD = 400
MAX_KEY = 80
# When a name of one run, such as `makedirs`, is read as two words: both are common, the run itself is not.
SPLIT_COMMON, SPLIT_TIMES, SPLIT_LEAST = 15, 4, 3


def parts(documents: Sequence[Document], key: str) -> Iterator[IndexPart]:
    """Every part of the index of these documents, one after another."""
    known = _texts_words(documents)
    fields = [_fields(document, known) for document in documents]
    vocabulary = sorted({term for item in fields for counts in item.values() for term in counts})
    yield _postings(fields, vocabulary, key)
    del fields
    yield _ranking(documents, vocabulary, key)
    yield _words(documents, key)
    yield _symbols(documents, key)
    yield Texts(key=key, texts=_rows((document.text.encode() for document in documents), _bytes))
    cards = (msgspec.msgpack.encode(_card(document)) for document in documents)
    yield Cards(key=key, cards=_rows(cards, _bytes))


def _texts_words(documents: Sequence[Document]) -> Counter[str]:
    """In how many texts each word stands."""
    return Counter(word for document in documents for word in set(text.words(document.text)))


def _split(word: str, known: Counter[str]) -> list[str]:
    """Stems of the two words that a run of letters is best read as; none where it is a word itself."""
    least = max(SPLIT_COMMON, SPLIT_TIMES * known[word])
    pairs = [(word[:at], word[at:]) for at in range(SPLIT_LEAST, len(word) - SPLIT_LEAST + 1)]
    weighed = ((min(known[left], known[right]), (left, right)) for left, right in pairs)
    weight, pair = max(weighed, default=(0, ("", "")))
    return [text.stem(part) for part in pair] if weight >= least else []


def _fields(document: Document, known: Counter[str]) -> dict[str, Counter[str]]:
    path, _, last = document.name.rpartition(".")
    summary, _, body = document.text.partition("\n\n")
    heading = document.title if document.kind == "topic" else last
    inside = [part for word in text.words(last) for part in _split(word, known)]
    return {
        "last": Counter([*text.terms(heading), *inside]),
        "path": Counter(text.terms(path)),
        "summary": Counter(text.terms(summary)),
        "body": Counter(text.terms(body)),
        "signature": Counter(text.terms(document.signature)),
    }


def _postings(fields: Sequence[dict[str, Counter[str]]], vocabulary: list[str], key: str) -> Postings:
    present = Counter(term for item in fields for term in set().union(*item.values()))
    rarity = {term: math.log(1 + (len(fields) - n + 0.5) / (n + 0.5)) for term, n in present.items()}
    means = {
        name: max(1.0, sum(sum(item[name].values()) for item in fields) / max(1, len(fields)))
        for name in FIELDS
    }
    cells: list[dict[str, list[tuple[int, float]]]] = [{} for _ in range(SHARDS)]
    for number, item in enumerate(fields):
        for term, weight in _weights(item, means).items():
            score = rarity[term] * weight * (K1 + 1) / (K1 + weight)
            cells[number % SHARDS].setdefault(term, []).append((number, score))
    return Postings(key=key, terms=vocabulary, shards=[_shard(cell, vocabulary) for cell in cells])


def _weights(item: dict[str, Counter[str]], means: dict[str, float]) -> Counter[str]:
    """Weighted count of each term over the fields, each count against its field's length."""
    weights: Counter[str] = Counter()
    for name, (weight, lengthy) in FIELDS.items():
        counts = item[name]
        scale = weight / (1 - lengthy + lengthy * sum(counts.values()) / means[name])
        for term, count in counts.items():
            weights[term] += count * scale  # type: ignore[assignment] # a Counter of floats
    return weights


def _shard(cell: dict[str, list[tuple[int, float]]], vocabulary: list[str]) -> Shard:
    rows = [cell.get(term, []) for term in vocabulary]
    scores = array("f", (score for row in rows for _, score in row))
    documents = _rows(([number for number, _ in row] for row in rows), _numbers)
    return Shard(documents=documents, scores=_view(scores))


def _ranking(documents: Sequence[Document], vocabulary: list[str], key: str) -> Ranking:
    numbers = {term: at for at, term in enumerate(vocabulary)}
    texts = (
        [numbers[term] for term in text.terms(document.text)[:FORWARD] if term in numbers]
        for document in documents
    )
    return Ranking(
        key=key,
        names=[document.title for document in documents],
        priors=_view(array("f", (document.prior for document in documents))),
        terms=vocabulary,
        texts=_rows(texts, _numbers),
    )


def _words(documents: Sequence[Document], key: str) -> Words:
    counts: Counter[str] = Counter()
    for document in documents:
        found = set(text.words(document.text))
        named = set(text.words(document.name)) if not private(document.name) else set()
        named.update(name for name in (_plain(part) for part in document.name.split(".")) if name)
        counts.update(word for word in found if _correctable(word))
        counts.update({word: 3 for word in named if _correctable(word)})
    words = [word for word, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0]))]
    pairs = sorted(
        {crc32(left.encode()) << 32 | at for at, word in enumerate(words) for left in text.deletions(word)}
    )
    return Words(
        key=key,
        words=words,
        counts=_view(array("I", (counts[word] for word in words))),
        stems=sorted({text.stem(word) for word in words}),
        hashes=_view(array("I", (pair >> 32 for pair in pairs))),
        owners=_view(array("I", (pair & 0xFFFFFFFF for pair in pairs))),
    )


def _correctable(word: str) -> bool:
    return 2 < len(word) <= 30 and word.isalpha() and word.isascii()  # noqa: PLR2004 - what people misspell


def _symbols(documents: Sequence[Document], key: str) -> SymbolTable:
    table: dict[str, set[int]] = {}
    for number, document in enumerate(documents):
        for name in (document.name, *document.aliases):
            if name == document.name or not private(name):
                for ending in _endings(_plain(name)):
                    table.setdefault(ending, set()).add(number)
    keys = sorted(table)
    return SymbolTable(
        key=key,
        keys=keys,
        documents=_rows((sorted(table[item]) for item in keys), _numbers),
        names=[_plain(document.name) for document in documents],
        priors=_view(array("f", (document.prior for document in documents))),
    )


def _plain(name: str) -> str:
    return name.lower().replace("_", "")[:MAX_KEY]


def _endings(name: str) -> Iterator[str]:
    """`a.b.c`, `b.c` and `c`."""
    yield name
    while "." in name:
        name = name.partition(".")[2]
        yield name


def _card(document: Document) -> SymbolCard:
    return SymbolCard(
        document.kind, document.name, document.title, document.signature, document.path, document.line
    )


def _numbers(row: list[int]) -> tuple[int, bytes]:
    return len(row), array("I", row).tobytes()


def _bytes(row: bytes) -> tuple[int, bytes]:
    return len(row), row


def _rows(rows: Iterable[object], pack: object) -> Rows:
    packed = [pack(row) for row in rows]  # type: ignore[operator]
    starts = array("I", accumulate((size for size, _ in packed), initial=0))
    return Rows(starts=_view(starts), items=memoryview(b"".join(data for _, data in packed)))


def _view(numbers: array[int] | array[float]) -> memoryview:
    return memoryview(numbers.tobytes())


def main(folder: str) -> None:
    """Build the index of this interpreter's library into that folder."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    key = store.key()
    for part in parts(corpus(), key):
        store.write(Path(folder), part)


if __name__ == "__main__":
    main(sys.argv[1])
