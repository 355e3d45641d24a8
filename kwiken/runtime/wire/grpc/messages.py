"""Messages of `kwiken.proto` in Protocol Buffers' encoding, written by hand.

A message here is one field of bytes with at most three numbers beside it, so its encoding is a few bytes
around the payload. Generated code would load Protocol Buffers into every process that only calls, and ties
an installation to the release that generated the code. Tests compare this module with Protocol Buffers' own.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Iterator
from typing import Final

from kwiken.base.varints import malformed, read_varint, varint

LENGTH_DELIMITED: Final = 2  # wire type of strings, bytes and messages
PAYLOAD: Final = 1 << 3 | LENGTH_DELIMITED  # tag of the first field of every message here
TIMING: Final = bytes((4 << 3 | LENGTH_DELIMITED,))
WHOLE: Final = b"\x19" + struct.pack("<d", 1.0)  # utility 1
PARTIAL: Final = b"\x10\x01\x19"  # partial: true, and the tag of `utility`
FIXED_BYTES: Final = {1: 8, 5: 4}  # length of a field's value by its wire type
VARINT: Final = 0
MAX_FIELDS: Final = 1000  # of one message; a version to come may add a few, never that many
MAX_HEADS: Final = 4096  # different lengths of payloads whose heads are kept


def payload_message(payload: bytes) -> bytes:
    """Message whose only field is the payload, for example a `Request`."""
    return _payload_head(len(payload)) + payload


@functools.lru_cache(maxsize=MAX_HEADS)
def _payload_head(length: int) -> bytes:
    return bytes((PAYLOAD,)) + varint(length)


def answer_message(json: bytes, *, partial: bool, utility: float, timing_json: bytes = b"") -> bytes:
    """An `Answer`.

    Args:
        utility: worth of the answer, 0 to 1.
        timing_json: where the time went; empty for nothing.
    """
    figures = PARTIAL + struct.pack("<d", utility) if partial else WHOLE
    timing = TIMING + varint(len(timing_json)) + timing_json if timing_json else b""
    return payload_message(json) + figures + timing


def payload_of(message: bytes) -> bytes:
    """Value of a message's first field; other fields are skipped.

    Args:
        message: `Request` or `Answer`, encoded.

    Raises:
        InputError: the bytes are no message.
    """
    if not message:
        return b""
    if message[0] == PAYLOAD:
        length, start = read_varint(message, 1)
        if start + length == len(message):  # all that this version sends
            return message[start:]
    payload = b""
    for tag, start, end in _fields(message):
        if tag == PAYLOAD:  # of a repeated field the last one counts
            payload = message[start:end]
    return payload


def _fields(message: bytes) -> Iterator[tuple[int, int, int]]:
    """Fields of a message: tag, and the places where the value begins and ends.

    Raises:
        InputError: the bytes are no message, or have more fields than any message here.
    """
    place = count = 0
    while place < len(message):
        count += 1
        if count > MAX_FIELDS:
            raise malformed(f"it has more than {MAX_FIELDS} fields")
        tag, start = read_varint(message, place)
        kind = tag & 7
        if tag >> 3 == 0:
            raise malformed("a field has the number 0")
        if kind == VARINT:
            _, place = read_varint(message, start)
        elif kind in FIXED_BYTES:
            place = start + FIXED_BYTES[kind]
        elif kind == LENGTH_DELIMITED:
            length, start = read_varint(message, start)
            place = start + length
        else:
            raise malformed(f"a field has the wire type {kind}")
        if place > len(message):
            raise malformed("it ends within a field")
        yield tag, start, place
