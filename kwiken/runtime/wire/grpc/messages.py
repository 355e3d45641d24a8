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

from kwiken.base.errors import InputError
from kwiken.base.varints import LAST_ONE_BYTE, malformed, read_varint, varint
from kwiken.runtime.wire.transport.call_bodies import ReplicaLoad, checked_load

LENGTH_DELIMITED: Final = 2  # wire type of strings, bytes and messages
PAYLOAD: Final = 1 << 3 | LENGTH_DELIMITED  # tag of the first field of every message here
STAGE: Final = 2 << 3 | LENGTH_DELIMITED  # tag of the stage's name
TIMING: Final = bytes((4 << 3 | LENGTH_DELIMITED,))
WHOLE: Final = b"\x19" + struct.pack("<d", 1.0)  # utility 1
PARTIAL: Final = b"\x10\x01\x19"  # partial: true, and the tag of `utility`
FIXED_BYTES: Final = {1: 8, 5: 4}  # length of a field's value by its wire type
BUSY_MS, INFLIGHT, LATENCY_MS = LOAD_TAGS = (2 << 3 | 1, 3 << 3 | 5, 4 << 3 | 1)
LOAD: Final = struct.Struct("<BdBIBd")  # a replica's load report: each value after its tag
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


def stage_inputs_message(inputs: bytes, stage: str) -> bytes:
    """A `StageInputs`.

    Args:
        inputs: inputs of the handler, encoded.
    """
    return _payload_head(len(inputs)) + inputs + _stage_field(stage)


@functools.cache
def _stage_field(stage: str) -> bytes:
    name = stage.encode()
    return bytes((STAGE,)) + varint(len(name)) + name


def stage_inputs_of(message: bytes) -> tuple[bytes, str]:
    """Inputs and stage of a `StageInputs`, empty if it names none; other fields are skipped.

    Raises:
        InputError: the bytes are no message.
    """
    payload = name = b""
    if message and message[0] == PAYLOAD:
        length, start = read_varint(message, 1)
        end = start + length
        size = len(message) - end - 2  # of the name, if it is all that follows
        if 0 < size <= LAST_ONE_BYTE and message[end] == STAGE and message[end + 1] == size:
            payload, name = message[start:end], message[end + 2 :]
    if not name:
        for tag, start, end in _fields(message):
            if tag == PAYLOAD:
                payload = message[start:end]
            elif tag == STAGE:
                name = message[start:end]
    try:
        return payload, name.decode()
    except UnicodeDecodeError as error:
        raise malformed("the stage's name is not UTF-8") from error


def stage_answer_message(answer: bytes, load: ReplicaLoad) -> bytes:
    """A `StageAnswer`.

    Args:
        answer: answer of the handler, encoded.
    """
    figures = LOAD.pack(BUSY_MS, load.busy_ms, INFLIGHT, load.inflight, LATENCY_MS, load.latency_ms)
    return _payload_head(len(answer)) + answer + figures


def stage_answer_of(message: bytes) -> tuple[bytes, ReplicaLoad]:
    """Answer and load report of a `StageAnswer`; fields that this version does not know are skipped.

    Raises:
        InputError: the bytes are no message, or its load report is missing or out of range.
    """
    if message and message[0] == PAYLOAD:
        length, start = read_varint(message, 1)
        end = start + length
        if end + LOAD.size == len(message):
            busy_tag, busy_ms, inflight_tag, inflight, latency_tag, latency_ms = LOAD.unpack_from(
                message, end
            )
            # As this version sends it. One by one: a tuple would be made for every answer.
            if busy_tag == BUSY_MS and inflight_tag == INFLIGHT and latency_tag == LATENCY_MS:
                return message[start:end], checked_load(busy_ms, inflight, latency_ms)
    payload = b""
    values: dict[int, float] = {}
    for tag, start, end in _fields(message):
        if tag == PAYLOAD:
            payload = message[start:end]
        elif tag in LOAD_TAGS:
            (values[tag],) = struct.unpack_from("<I" if tag == INFLIGHT else "<d", message, start)
    if len(values) < len(LOAD_TAGS):
        raise InputError("its load report is missing", where="message")
    return payload, checked_load(values[BUSY_MS], int(values[INFLIGHT]), values[LATENCY_MS])


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
