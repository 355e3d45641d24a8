"""What our own spans say of themselves, out of the undecoded attributes of many OTLP spans at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan, nan
from typing import Annotated, Any, Final

import msgspec

from kwiken.otel.read.columns import Names
from kwiken.otel.read.kw_attributes import MARK, MAX_BUSY_MS, busy_ms, own_note, worth

Plain = Callable[[bytes], Mapping[str, Any]]

_REMEMBERED: Final = 8192
# What differs from span to span, as our own writer has it: last, the busy time last of all.
_BUSY: Final = b'"kw.busy_ms","value":{"doubleValue":'
_WORTH: Final = b'"kw.worth","value":{"doubleValue":'
_NEXT: Final = b'}},{"key":'
_END: Final = b"}}]"
_LONGEST: Final = 30  # a number in full, and the end
_NONE: Final = b"null"
_Times = list[Annotated[float, msgspec.Meta(ge=0.0, le=MAX_BUSY_MS)] | None]


@dataclass(slots=True)
class Told:
    """What spans say of themselves.

    Attributes:
        which: of each span, the place of its notes in the batch; -1 for a span that is not ours.
        notes: numbers of their notes.
        busy_ms: their busy times; None or NaN where there is none.
        worth: of their answers; NaN where it is not known.
    """

    which: list[int] = field(default_factory=list)
    notes: list[int] = field(default_factory=list)
    busy_ms: Sequence[float | None] = ()
    worth: list[float] = field(default_factory=list)


# A note's number, the busy time as JSON has it, and the worth.
_Known = tuple[int, bytes, float]


class OwnReader:
    """Reads the attributes of our own spans.

    Notes are remembered by all of the attributes but worth and busy time: our spans differ in little else,
    and we write these last. In another order they merely stay part of what is remembered.

    Args:
        names: where notes are numbered.
        plain: decodes attributes.
    """

    def __init__(self, names: Names, plain: Plain) -> None:
        self._names = names
        self._plain = plain
        self._known: dict[bytes, _Known] = {}
        self._times = msgspec.json.Decoder(_Times)

    def told(self, attributes: Sequence[bytes], first: int) -> Told:
        """What the spans of these attributes say of themselves.

        Args:
            attributes: of each span, as they stand in the file.
            first: place of the first span's notes.

        Raises:
            msgspec.MsgspecError, ValueError: attributes that none of our spans could have.
        """
        try:
            return self._by_heart(attributes, first)
        except (msgspec.MsgspecError, ValueError):
            return self._in_full(attributes, first)

    def _by_heart(self, attributes: Sequence[bytes], first: int) -> Told:
        """As `told`, but any unusual number is an error."""
        found, remembered = Told(), self._known
        which, notes, worths = found.which, found.notes, found.worth
        times: list[bytes] = []
        for raw in attributes:
            if raw.find(MARK) < 0:  # `in` takes twice as long: it asks first whether the mark is a number
                which.append(-1)
                continue
            head, _, tail = raw.rpartition(_BUSY)
            if len(tail) > _LONGEST:  # the busy time is not the last
                head = b""
            known = remembered.get(head or raw) or self._learnt(raw, head)
            if known is None:
                which.append(-1)
                continue
            which.append(first + len(notes))
            notes.append(known[0])
            # With anything but a number before the end that is cut off, the times do not decode.
            times.append(tail[: -len(_END)] if head else known[1])
            worths.append(known[2])
        if times:
            found.busy_ms = self._times.decode(b"[" + b",".join(times) + b"]")
            if len(found.busy_ms) != len(notes):
                raise ValueError
        return found

    def _learnt(self, raw: bytes, head: bytes) -> _Known | None:
        """What attributes say that are not known up to their busy time; None for a span not ours."""
        start, _, told = head.rpartition(_WORTH)
        if not start or not told.endswith(_NEXT):
            return self._note(raw, head or raw)
        key = start + _WORTH  # as no span's attributes up to its busy time end
        known = self._known.get(key) or self._note(raw, key, with_worth=False)
        return None if known is None else (known[0], _NONE, worth(float(told[: -len(_NEXT)])))

    def _note(self, raw: bytes, key: bytes, *, with_worth: bool = True) -> _Known | None:
        """Decode attributes, and remember by a key what they say."""
        attributes = self._plain(raw)
        note = own_note(attributes, self._names)
        if note is None:
            return None
        busy, value = busy_ms(attributes.get("kw.busy_ms")), worth(attributes.get("kw.worth"))
        if len(self._known) >= _REMEMBERED:
            self._known.clear()
        known = (note, _NONE if isnan(busy) else repr(busy).encode(), value if with_worth else nan)
        self._known[key] = known
        return known

    def _in_full(self, attributes: Sequence[bytes], first: int) -> Told:
        """As `told`, span by span."""
        found = Told()
        times: list[float] = []
        for raw in attributes:
            said = self._plain(raw) if MARK in raw else {}
            note = own_note(said, self._names)
            found.which.append(-1 if note is None else first + len(found.notes))
            if note is not None:
                found.notes.append(note)
                times.append(busy_ms(said.get("kw.busy_ms")))
                found.worth.append(worth(said.get("kw.worth")))
        found.busy_ms = times
        return found
