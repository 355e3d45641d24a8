"""Messages of `kwiken.proto` in Protocol Buffers' encoding, written by hand.

A message here is one field of bytes with at most three figures beside it, so its encoding is a few bytes
around the payload. Generated code would load Protocol Buffers into every process that only calls, and ties
an installation to the release that generated the code. Tests compare this module with Protocol Buffers' own.
"""

from __future__ import annotations

import struct
from typing import Final

from kwiken.errors import InputError

LENGTH_DELIMITED: Final = 2  # wire type of strings, bytes and messages
PAYLOAD: Final = 1 << 3 | LENGTH_DELIMITED  # tag of the first field of every message here
TIMING: Final = bytes((4 << 3 | LENGTH_DELIMITED,))
WHOLE: Final = b"\x19" + struct.pack("<d", 1.0)  # utility 1
PARTIAL: Final = b"\x10\x01\x19"  # partial: true, and the tag of `utility`
FIXED_BYTES: Final = {1: 8, 5: 4}  # length of a field's value by its wire type
VARINT: Final = 0
MAX_VARINT: Final = 10  # bytes
LAST_ONE_BYTE: Final = 0x7F  # largest number that a varint of one byte holds


def payload_message(payload: bytes) -> bytes:
    """Message whose only field is the payload: `Request`, `StageInputs` or `StageAnswer`.

    Args:
        payload: value of the field.
    """
    return b"\x0a" + _varint(len(payload)) + payload


def answer_message(json: bytes, *, partial: bool, utility: float, timing_json: bytes = b"") -> bytes:
    """An `Answer`.

    Args:
        json: answer of the last stage.
        partial: whether a part is missing.
        utility: worth of the answer, 0 to 1.
        timing_json: where the time went; empty for nothing.
    """
    figures = PARTIAL + struct.pack("<d", utility) if partial else WHOLE
    timing = TIMING + _varint(len(timing_json)) + timing_json if timing_json else b""
    return payload_message(json) + figures + timing


def payload_of(message: bytes) -> bytes:
    """Value of a message's first field; fields that this version does not know are skipped.

    Args:
        message: `Request`, `Answer`, `StageInputs` or `StageAnswer`, encoded.

    Raises:
        InputError: the bytes are no message.
    """
    if not message:
        return b""
    if message[0] == PAYLOAD:
        length, start = _read_varint(message, 1)
        if start + length == len(message):  # all that this version sends
            return message[start:]
    return _last_payload(message)


def _last_payload(message: bytes) -> bytes:
    """Payload of a message with several fields: of a repeated field the last one counts."""
    payload, place, end = b"", 0, len(message)
    while place < end:
        tag, place = _read_varint(message, place)
        kind = tag & 7
        if tag >> 3 == 0:
            raise _malformed("a field has the number 0")
        if kind == VARINT:
            _, place = _read_varint(message, place)
        elif kind in FIXED_BYTES:
            place += FIXED_BYTES[kind]
        elif kind == LENGTH_DELIMITED:
            length, start = _read_varint(message, place)
            place = start + length
            if tag == PAYLOAD:
                payload = message[start:place]
        else:
            raise _malformed(f"a field has the wire type {kind}")
    if place > end:
        raise _malformed("it ends within a field")
    return payload


def _varint(number: int) -> bytes:
    if number <= LAST_ONE_BYTE:
        return bytes((number,))
    out = bytearray()
    while number > LAST_ONE_BYTE:
        out.append(number & LAST_ONE_BYTE | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _read_varint(message: bytes, place: int) -> tuple[int, int]:
    """Number at a place, and the place after it."""
    number = 0
    for count, byte in enumerate(message[place : place + MAX_VARINT]):
        number |= (byte & LAST_ONE_BYTE) << 7 * count
        if byte <= LAST_ONE_BYTE:
            return number, place + count + 1
    cut = place + MAX_VARINT > len(message)
    raise _malformed("it ends within a number" if cut else "a number is too long")


def _malformed(reason: str) -> InputError:
    return InputError(f"not a message of Protocol Buffers: {reason}", where="message")
