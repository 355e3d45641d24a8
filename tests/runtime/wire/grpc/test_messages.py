"""Messages by hand: the same bytes as Protocol Buffers', and its descriptors are those of the `.proto`."""

from __future__ import annotations

import string
import struct
from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2
from google.protobuf.message import DecodeError
from grpc_tools import protoc
from hypothesis import example, given, strategies as st

from kwiken.base.errors import InputError
from kwiken.runtime.wire.grpc.messages import (
    answer_message,
    payload_message,
    payload_of,
)
from tests.support.peers.grpc_messages import DESCRIPTORS, FOLDER, Answer, Request


def test_the_descriptors_are_those_of_the_proto_file(tmp_path: Path) -> None:
    out = tmp_path / "kwiken.binpb"
    code = protoc.main(["protoc", f"-I{FOLDER}", f"--descriptor_set_out={out}", str(FOLDER / "kwiken.proto")])
    assert code == 0
    assert descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes()) == DESCRIPTORS


LENGTHS = pytest.mark.parametrize("length", [0, 1, 127, 128, 16_383, 16_384, 3_000_000])


@LENGTHS
def test_payloads_of_every_length_go_both_ways(length: int) -> None:
    payload = (string.printable * (length // 100 + 1))[:length].encode()
    assert Request.FromString(payload_message(payload)).json.encode() == payload
    assert payload_of(Request(json=payload.decode()).SerializeToString()) == payload
    assert payload_of(payload_message(payload)) == payload


@given(st.text())
def test_requests_of_other_clients_are_read(json: str) -> None:
    assert payload_of(Request(json=json).SerializeToString()) == json.encode()


@given(st.text(), st.booleans(), st.floats(0.0, 1.0), st.text())
@example("", False, 1.0, "")
@example("{}", True, 0.0, "")
def test_answers_are_read_by_other_clients(json: str, partial: bool, utility: float, timing: str) -> None:
    worth = utility if partial else 1.0
    message = answer_message(json.encode(), partial=partial, utility=worth, timing_json=timing.encode())
    assert Answer.FromString(message) == Answer(json=json, partial=partial, utility=worth, timing_json=timing)
    assert payload_of(message) == json.encode()


@given(st.text(), st.integers(3, 1000), st.integers(0, 1 << 63), st.binary(max_size=300))
def test_fields_of_later_versions_are_skipped(text: str, field: int, number: int, more: bytes) -> None:
    def varint(value: int) -> bytes:
        out = b""
        while value > 0x7F:
            out += bytes([value & 0x7F | 0x80])
            value >>= 7
        return out + bytes([value])

    unknown = (
        varint(field << 3) + varint(number),
        varint(field << 3 | 1) + struct.pack("<q", -5),
        varint(field << 3 | 5) + struct.pack("<i", -5),
        varint(field << 3 | 2) + varint(len(more)) + more,
    )
    payload = text.encode()
    message = unknown[0] + unknown[1] + payload_message(b"earlier") + payload_message(payload)
    message += unknown[2] + unknown[3]
    assert Request.FromString(message).json == text
    assert payload_of(message) == payload


@given(st.binary(max_size=40))
def test_whatever_protocol_buffers_reads_is_read_alike(message: bytes) -> None:
    try:
        expected = Request.FromString(message).json.encode()
    except DecodeError:
        expected = None
    if expected is None:
        return  # the wire type of a field that nobody knows may be judged more or less strictly
    if any(byte & 7 in {3, 4} for byte in message):
        return  # groups, a form that proto3 does not have, are refused here and skipped there
    assert payload_of(message) == expected


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"\x0a", "it ends within a number"),
        (b"\x0a\x05abc", "it ends within a field"),
        (b"\x02\x01a", "a field has the number 0"),
        (b"\x0b\x0c", "a field has the wire type 3"),
        (b"\x09abc", "it ends within a field"),
        (b"\x0a" + b"\xff" * 12, "a number is too long"),
    ],
)
def test_what_is_no_message_is_told(message: bytes, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        payload_of(message)
