"""Bounded store of spans: beyond the bound it keeps a uniform sample of whole traces."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from kwiken.otel.read.columns import (
    LINK,
    MAX_KINDS,
    MAX_NAMES,
    NO_TEXT,
    OWN,
    SPAN,
    Batch,
    Bools,
    Ids,
    Ints,
    Names,
    Rows,
    Traits,
)
from kwiken.otel.read.timestamps import Epoch

ALL: Final = (1 << 64) - 1  # limit of the hash of a trace that is kept, while all are
MAX_SPANS: Final = 4_000_000  # some 1.3 GB in a fit of many stages
MIN_SPANS: Final = 100_000  # held however little memory there is
SPAN_BYTES: Final = 500  # of one span in a fit of many stages, at the most
MEMORY_SHARE: Final = 0.5  # of the memory, for spans; the rest is for what is being read
_BATCH_SPANS: Final = 8192
_MAX_PARTS: Final = 1024
# Odd, and about 2^64 divided by the golden ratio: multiplying by it spreads neighbouring numbers.
_SPREAD: Final = np.uint64(0x9E3779B97F4A7C15)
_MIX: Final = np.uint64(0xBF58476D1CE4E5B9)
# Columns of `OWN` that hold numbers of texts.
_TEXTS_OF_OWN: Final = ("service", "stage", "replica", "node", "plan")


def spans_within(memory_bytes: int) -> int:
    """Number of spans that are held at most, where a process may use this much memory, bytes."""
    return max(MIN_SPANS, min(MAX_SPANS, int(MEMORY_SHARE * memory_bytes) // SPAN_BYTES))


def trace_keys(spans: Rows) -> Ids:
    """(n,): key of each span's trace, 64 bits."""
    keys: Ids = spans["lo"] ^ (spans["hi"] * _SPREAD)
    return keys


def _luck(keys: Ids) -> Ids:
    """Hash of trace keys, uniform over 64 bits (the finishing step of SplitMix64)."""
    mixed = (keys ^ (keys >> np.uint64(30))) * _MIX
    return mixed ^ (mixed >> np.uint64(31))


@dataclass(frozen=True)
class NameTables:
    """Names of the spans of some files, in the order of their numbers; see `Names` for the fields.

    Attributes:
        operations: service and operation, at full length.
        texts: other texts at full length.
        simulated: what times count from, as `Epoch` keeps it.
    """

    operations: tuple[tuple[str, str], ...]
    texts: tuple[str, ...]
    kinds: tuple[str, ...]
    traits: tuple[Traits, ...]
    stated: Mapping[int, Mapping[str, str]]
    from_paths: Mapping[int, int]
    methods: Mapping[int, frozenset[str]]
    homes: Mapping[int, tuple[str, str]]
    simulated: bool | None

    @classmethod
    def of(cls, names: Names, *, simulated: bool | None) -> NameTables:
        """Tables of some names."""
        return cls(
            operations=names.full_operations(),
            texts=names.full_texts(),
            kinds=tuple(names.kinds),
            traits=tuple(names.traits),
            stated=names.stated,
            from_paths=names.from_paths,
            methods={op: frozenset(found) for op, found in names.methods.items()},
            homes=names.homes,
            simulated=simulated,
        )

    def put_into(self, names: Names) -> Renumbering:
        """Give all names a number among those of this process, as reading the same files next would.

        Raises:
            InputError: there are too many operations or texts.
        """
        ops = [names.operation(*pair) for pair in self.operations]
        texts = [names.text(text) for text in self.texts]
        for op, stated in self.stated.items():
            names.stated.setdefault(ops[op], stated)
        for op, instead in self.from_paths.items():
            names.from_paths.setdefault(ops[op], ops[instead])
        for op, methods in self.methods.items():
            names.methods.setdefault(ops[op], set()).update(methods)
        for text, home in self.homes.items():
            names.homes.setdefault(texts[text], home)
        kinds = [names.kind(kind) for kind in self.kinds]
        traits = [names.known_traits(each) for each in self.traits]
        return Renumbering(*map(_with_none, (ops, texts, kinds, traits)))


@dataclass(frozen=True)
class Renumbering:
    """By number of another process: (n + 1,) numbers of this one; the last is -1, which stands for none."""

    ops: Ints
    texts: Ints
    kinds: Ints
    traits: Ints

    def apply(self, part: tuple[Rows, Rows, Rows]) -> tuple[Rows, Rows, Rows]:
        """Rows of `SPAN`, `OWN` and `LINK` with the numbers of this process."""
        spans, owns, links = (rows.copy() for rows in part)
        for column, numbers in (
            ("op", self.ops),
            ("callee", self.ops),
            ("kind", self.kinds),
            ("instance", self.texts),
            ("traits", self.traits),
        ):
            spans[column] = numbers[spans[column]]
        for column in _TEXTS_OF_OWN:
            owns[column] = self.texts[owns[column]]
        return spans, owns, links


@dataclass(frozen=True)
class StoredSpans:
    """Spans of some files, as a store of another process holds them.

    Attributes:
        rows: rows of `SPAN`, `OWN` and `LINK`.
        names: names of these spans, by the numbers that the rows hold.
        read: number of spans read.
        sampled_out: number of spans of these that were dropped.
        limit: greatest hash of a trace that was kept.
    """

    rows: tuple[Rows, Rows, Rows]
    names: NameTables
    read: int
    sampled_out: int
    limit: int


class SpanStore:
    """Columns of the spans of many files.

    When there would be more than `max_spans`, half of the traces are dropped, chosen by a hash of their ids.
    So the rest is a uniform sample of whole traces, even if a trace's spans come from several files.

    Args:
        kind_by: attribute whose values are the classes of requests; None for none.
        limit: greatest hash of a trace that is kept; less than `ALL` where a store for the same traces has
            dropped some already.
    """

    def __init__(self, *, max_spans: int = MAX_SPANS, kind_by: str | None = None, limit: int = ALL) -> None:
        self.names = Names()
        self.kind_by = kind_by
        self.epoch = Epoch()
        self.read = 0
        self.sampled_out = 0
        self._max_spans = max_spans
        self._limit = limit
        self._batch = Batch()
        self._parts: list[tuple[Rows, Rows, Rows]] = []
        self._held = 0

    @property
    def batch(self) -> Batch:
        """Batch that a reader adds spans to; the reader calls `ready` after each group of spans."""
        return self._batch

    def ready(self) -> None:
        """Convert the batch to columns if it is large enough."""
        if len(self._batch) >= _BATCH_SPANS:
            self.flush()

    def flush(self) -> None:
        """Convert the batch to columns."""
        batch, self._batch = self._batch, Batch()
        if not len(batch):
            return
        self.read += len(batch)
        part = batch.columns(self.names)
        if self._limit != ALL:
            part = self._lucky(part)
        self._keep(part)

    def _keep(self, part: tuple[Rows, Rows, Rows]) -> None:
        self._parts.append(part)
        self._held += len(part[0])
        if len(self._parts) > _MAX_PARTS:  # many small files
            self._parts = [_join(self._parts)]
        while self._held > self._max_spans and self._limit > 1:
            self._lower(self._limit // 2)

    @property
    def limit(self) -> int:
        """Greatest hash of a trace that is kept."""
        return self._limit

    def stored(self) -> StoredSpans:
        """All that the store holds, for the store of another process; the store is empty afterwards."""
        rows = self.columns()
        names = NameTables.of(self.names, simulated=self.epoch.simulated)
        return StoredSpans(rows, names, self.read, self.sampled_out, self._limit)

    def absorb(self, stored: StoredSpans) -> bool:
        """Add the spans of the next files, which another process has read.

        Returns:
            False where reading the same files here could have given something else: there are so many names
            that some are left out, or times count from another epoch. The store is of no use then.

        Raises:
            InputError: there are too many names.
        """
        if self.epoch.simulated is None:
            self.epoch.simulated = stored.names.simulated
        part = stored.names.put_into(self.names).apply(stored.rows)
        self.read += stored.read
        self.sampled_out += stored.sampled_out
        if stored.limit < self._limit:
            self._lower(stored.limit)
        elif self._limit < stored.limit:
            part = self._lucky(part)
        self._keep(part)
        return not _near_bounds(self.names) and stored.names.simulated in {None, self.epoch.simulated}

    def columns(self) -> tuple[Rows, Rows, Rows]:
        """All spans held, as rows of `SPAN`, `OWN` and `LINK`; the store is empty afterwards."""
        self.flush()
        joined = _join(self._parts)
        self._parts, self._held = [], 0
        return joined

    def _lower(self, limit: int) -> None:
        """Drop the traces whose hash is above a lower limit."""
        self._limit = limit
        joined = _join(self._parts)
        self._parts = []
        kept = self._lucky(joined)
        self._parts = [kept]
        self._held = len(kept[0])

    def _lucky(self, part: tuple[Rows, Rows, Rows]) -> tuple[Rows, Rows, Rows]:
        spans = part[0]
        keep = _luck(trace_keys(spans)) <= np.uint64(self._limit)
        self.sampled_out += int(len(spans) - keep.sum())
        return select(part, keep)


def select(part: tuple[Rows, Rows, Rows], keep: Bools) -> tuple[Rows, Rows, Rows]:
    """Columns of the spans to keep, with their notes and links."""
    spans, owns, links = part
    spans = spans[keep]
    noted = spans["own"] >= 0
    old = spans["own"][noted]
    places = np.full(len(owns) + 1, -1, np.int32)
    places[old] = np.arange(len(old), dtype=np.int32)
    spans["own"][noted] = places[old]
    links = links[places[links["own"]] >= 0]
    links["own"] = places[links["own"]]
    return spans, owns[old], links


def _join(parts: list[tuple[Rows, Rows, Rows]]) -> tuple[Rows, Rows, Rows]:
    if not parts:
        return np.empty(0, SPAN), np.empty(0, OWN), np.empty(0, LINK)
    offset = 0
    for spans, owns, links in parts:
        spans["own"][spans["own"] >= 0] += offset
        links["own"] += offset
        offset += len(owns)
    spans, owns, links = (np.concatenate(column) for column in zip(*parts, strict=True))
    return spans, owns, links


def _near_bounds(names: Names) -> bool:
    """Whether names are so many that later ones are left out, which depends on all names before."""
    full = len(names.traits) >= MAX_NAMES
    return full or len(names.texts) >= MAX_NAMES // 2 or len(names.kinds) >= MAX_KINDS - 1


def _with_none(numbers: list[int]) -> Ints:
    return np.array([*numbers, NO_TEXT], np.int64)
