"""Batch decoder of the `kw.*` attributes of our own spans, with a cache of attributes that recur.

The note of a span is what these attributes state, other than CPU time and worth. Equal notes have one number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan, nan
from typing import Annotated, Any, Final

import msgspec

from kwiken.otel.read.columns import Names
from kwiken.otel.read.kw_attributes import MARK, MAX_BUSY_MS, busy_ms, own_note, worth

Plain = Callable[[bytes], Mapping[str, Any]]

_MAX_CACHED: Final = 8192
# Our own writer puts the attributes that differ from span to span last, the CPU time last of all.
_BUSY: Final = b'"kw.busy_ms","value":{"doubleValue":'
_WORTH: Final = b'"kw.worth","value":{"doubleValue":'
_NEXT: Final = b'}},{"key":'
_END: Final = b"}}]"
_MAX_TAIL: Final = 30  # bytes of a number in full, and the end
_NONE: Final = b"null"
_Times = list[Annotated[float, msgspec.Meta(ge=0.0, le=MAX_BUSY_MS)] | None]


@dataclass(slots=True)
class OwnSpans:
    """Decoded attributes of a list of spans, some of them our own.

    Attributes:
        which: by span: index of its note in the batch; -1 for a span of another tracer.
        notes: by own span: number of its note.
        busy_ms: by own span: CPU time of its call, milliseconds; None or NaN if not stated.
        worth: by own span: weight of its answer, from 0 to 1; NaN if not stated.
    """

    which: list[int] = field(default_factory=list)
    notes: list[int] = field(default_factory=list)
    busy_ms: Sequence[float | None] = ()
    worth: list[float] = field(default_factory=list)


# Number of a note, CPU time as JSON, and worth.
_Known = tuple[int, bytes, float]


class OwnReader:
    """Decoder of the attributes of our own spans.

    Notes are cached by the undecoded attributes without worth and CPU time: our spans differ in little else,
    and our writer puts these last. In another order they are a part of the cache's key.
    """

    def __init__(self, names: Names, plain: Plain) -> None:
        self._names = names
        self._plain = plain
        self._cached: dict[bytes, _Known] = {}
        self._times = msgspec.json.Decoder(_Times)

    def decode(self, attributes: Sequence[bytes], first: int) -> OwnSpans:
        """Decode the attributes of spans.

        Args:
            attributes: undecoded attributes of each span.
            first: index of the first note in the batch.

        Raises:
            msgspec.MsgspecError, ValueError: an attribute has a wrong type or range.
        """
        try:
            return self._decode_cached(attributes, first)
        except (msgspec.MsgspecError, ValueError):
            return self._decode_uncached(attributes, first)

    def _decode_cached(self, attributes: Sequence[bytes], first: int) -> OwnSpans:
        """Decode with the cache; raises for a number in an unusual form."""
        found, cached = OwnSpans(), self._cached
        which, notes, worths = found.which, found.notes, found.worth
        times: list[bytes] = []
        for raw in attributes:
            # `in` takes twice as long, because it first checks whether the mark is a number.
            if raw.find(MARK) < 0:
                which.append(-1)
                continue
            head, _, tail = raw.rpartition(_BUSY)
            if len(tail) > _MAX_TAIL:  # the CPU time is not the last attribute
                head = b""
            known = cached.get(head or raw) or self._decode_new(raw, head)
            if known is None:
                which.append(-1)
                continue
            which.append(first + len(notes))
            notes.append(known[0])
            # If anything but a number stands before the end, the times do not decode.
            times.append(tail[: -len(_END)] if head else known[1])
            worths.append(known[2])
        if times:
            found.busy_ms = self._times.decode(b"[" + b",".join(times) + b"]")
            if len(found.busy_ms) != len(notes):
                raise ValueError
        return found

    def _decode_new(self, raw: bytes, head: bytes) -> _Known | None:
        """Decode attributes that are not cached up to the CPU time; None for a span of another tracer."""
        start, _, stated = head.rpartition(_WORTH)
        if not start or not stated.endswith(_NEXT):
            return self._note(raw, head or raw)
        key = start + _WORTH  # no other key ends like this: it lacks the number
        known = self._cached.get(key) or self._note(raw, key, with_worth=False)
        return None if known is None else (known[0], _NONE, worth(float(stated[: -len(_NEXT)])))

    def _note(self, raw: bytes, key: bytes, *, with_worth: bool = True) -> _Known | None:
        """Decode attributes, and cache the result by a key."""
        attributes = self._plain(raw)
        note = own_note(attributes, self._names)
        if note is None:
            return None
        busy, value = busy_ms(attributes.get("kw.busy_ms")), worth(attributes.get("kw.worth"))
        if len(self._cached) >= _MAX_CACHED:
            self._cached.clear()
        known = (note, _NONE if isnan(busy) else repr(busy).encode(), value if with_worth else nan)
        self._cached[key] = known
        return known

    def _decode_uncached(self, attributes: Sequence[bytes], first: int) -> OwnSpans:
        """Decode span by span, without the cache."""
        found = OwnSpans()
        times: list[float] = []
        for raw in attributes:
            decoded = self._plain(raw) if MARK in raw else {}
            note = own_note(decoded, self._names)
            found.which.append(-1 if note is None else first + len(found.notes))
            if note is not None:
                found.notes.append(note)
                times.append(busy_ms(decoded.get("kw.busy_ms")))
                found.worth.append(worth(decoded.get("kw.worth")))
        found.busy_ms = times
        return found
