"""Foreign services whose valid answers would stop the event loop: they are refused, or read beside it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import msgspec
import pytest
from google.protobuf import any_pb2, descriptor_pb2, struct_pb2

from kwiken.model.service.remote import GrpcCall, HttpCall
from kwiken.model.service.service import Service
from kwiken.model.service.stage import Stage
from kwiken.runtime.base.errors import HandlerError, LostError
from kwiken.runtime.wire.foreign import grpc_calls
from kwiken.runtime.wire.foreign.http_bodies import FREE_CHUNKS
from kwiken.runtime.wire.foreign.http_connection import MAX_INTERIM
from kwiken.runtime.wire.foreign.transport import ForeignTransport
from kwiken.runtime.wire.transport.base import Replica
from kwiken.runtime.wire.transport.local import LocalTransport
from tests.support.peers.foreign_http import call_of
from tests.support.peers.misbehaving import misbehaving, saying

Field = descriptor_pb2.FieldDescriptorProto
PATH = "wide.Wide/Get"
LISTED = "wide.Wide/List"
HTTP = HttpCall("http://wide.example/get", body="input")
FILE = descriptor_pb2.FileDescriptorProto(
    name="wide.proto",
    package="wide",
    syntax="proto3",
    message_type=[
        descriptor_pb2.DescriptorProto(name="Ask"),
        descriptor_pb2.DescriptorProto(
            name="Answer",
            field=[
                Field(
                    name="inner",
                    number=1,
                    type=Field.TYPE_MESSAGE,
                    type_name=".wide.Answer",
                    label=Field.LABEL_REPEATED,
                ),
                Field(name="numbers", number=2, type=Field.TYPE_INT32, label=Field.LABEL_REPEATED),
            ],
        ),
    ],
    service=[
        descriptor_pb2.ServiceDescriptorProto(
            name="Wide",
            method=[
                descriptor_pb2.MethodDescriptorProto(
                    name="Get", input_type=".wide.Ask", output_type=".wide.Answer"
                ),
                descriptor_pb2.MethodDescriptorProto(
                    name="List", input_type=".wide.Ask", output_type=".wide.Answer", server_streaming=True
                ),
            ],
        )
    ],
)


class Nothing(msgspec.Struct):
    """Input of the stage."""


def service_of(remote: GrpcCall | HttpCall) -> Service:
    async def wide(ask: Nothing) -> Any:
        raise NotImplementedError

    wide.__annotations__ = {"ask": Nothing, "return": Any}
    return Service.of("wide", [Stage(name="wide", handler=wide, remote=remote)])


def packed(count: int) -> bytes:
    """Message with that many numbers, one byte each."""
    size, length = count, bytearray()
    while size > 0x7F:
        length.append(size & 0x7F | 0x80)
        size >>= 7
    length.append(size)
    return b"\x12" + bytes(length) + bytes(count)


@contextlib.asynccontextmanager
async def wide_server(answer: bytes, messages: int = 0) -> AsyncIterator[Replica]:
    """A server that answers with these bytes; `List` sends them several times, or without an end for 0."""

    async def get(_: bytes, context: Any) -> bytes:
        return answer

    async def listing(_: bytes, context: Any) -> AsyncIterator[bytes]:
        sent = 0
        while not messages or sent < messages:
            sent += 1
            yield answer

    server = grpc.aio.server()
    methods = {
        "Get": grpc.unary_unary_rpc_method_handler(get),
        "List": grpc.unary_stream_rpc_method_handler(listing),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("wide.Wide", methods),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield Replica("r0", "here", f"http://127.0.0.1:{port}")
    finally:
        await server.stop(None)


@contextlib.asynccontextmanager
async def calling(remote: GrpcCall | HttpCall) -> AsyncIterator[ForeignTransport]:
    service = service_of(remote)
    async with ForeignTransport(service, LocalTransport(service)) as transport:
        yield transport


@pytest.fixture
def descriptors(tmp_path: Path) -> str:
    path = tmp_path / "wide.binpb"
    path.write_bytes(descriptor_pb2.FileDescriptorSet(file=[FILE]).SerializeToString())
    return str(path)


@pytest.mark.parametrize("path", [PATH, LISTED])
async def test_large_answers_are_read_by_a_thread(
    path: str, descriptors: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    readers: list[threading.Thread] = []
    json_form = grpc_calls.json_form

    def noted(*args: Any) -> Any:
        readers.append(threading.current_thread())
        return json_form(*args)

    monkeypatch.setattr(grpc_calls, "json_form", noted)
    remote = GrpcCall(f"grpc://wide.example:1/{path}", descriptors=descriptors)
    async with wide_server(packed(100_000), messages=3) as replica, calling(remote) as transport:
        reply = (await transport.call(replica, call_of("wide", Nothing()))).value
        if path == LISTED:
            reply = (await reply.rest())[-1]
    assert reply == {"inner": [], "numbers": [0] * 100_000}
    assert threading.main_thread() not in readers
    assert len(set(readers)) == 1


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(packed(3 << 20), id="numbers"),
        pytest.param(b"\x0a\x00" * (1 << 20), id="messages"),
        pytest.param(b"\x12\xff\xff\xff\x7f" + bytes(9), id="not a message"),
    ],
)
async def test_an_answer_of_countless_values_is_refused(answer: bytes, descriptors: str) -> None:
    remote = GrpcCall(f"grpc://wide.example:1/{PATH}", descriptors=descriptors)
    async with wide_server(answer) as replica, calling(remote) as transport:
        with pytest.raises((HandlerError, LostError)):
            await transport.call(replica, call_of("wide", Nothing()))


def test_values_are_counted_before_they_are_made() -> None:
    numbers = struct_pb2.ListValue(values=[struct_pb2.Value(number_value=1.0)] * 100)
    least = grpc_calls.MIN_OF_MESSAGE
    form, count = grpc_calls.json_form(numbers)
    assert form == [1.0] * 100
    assert count == least + 100 + 100 * least
    with pytest.raises(grpc_calls.TooManyValuesError):
        grpc_calls.json_form(numbers, count - 1)
    packed_in = any_pb2.Any()
    packed_in.Pack(numbers)
    with pytest.raises(grpc_calls.TooManyValuesError):
        grpc_calls.json_form(packed_in, count)
    names = struct_pb2.Struct(fields={str(each): struct_pb2.Value(null_value=0) for each in range(5)})
    assert grpc_calls.json_form(names)[1] == least + 5 + 5 * least


async def test_an_endless_stream_is_refused(descriptors: str) -> None:
    remote = GrpcCall(f"grpc://wide.example:1/{LISTED}", descriptors=descriptors)
    async with wide_server(packed(2000)) as replica, calling(remote) as transport:
        stream = (await transport.call(replica, call_of("wide", Nothing(), within_s=60.0))).value
        with pytest.raises(HandlerError, match="ReplyTooLarge"):
            await stream.rest()


def chunks(size: int, count: int) -> bytes:
    return (b"%x\r\n" % size + b"1" * size + b"\r\n") * count


OK = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        (OK + b"Transfer-Encoding: chunked\r\n\r\n" + chunks(1, 2 * FREE_CHUNKS), LostError, "small chunks"),
        (b"HTTP/1.1 103 Early Hints\r\n\r\n" * 100_000, LostError, f"more than {MAX_INTERIM} interim"),
        (
            OK + b"Transfer-Encoding: chunked\r\n\r\n" + (b"1;" + b"e" * 4000 + b"\r\n1\r\n") * 100,
            LostError,
            "too long extensions",
        ),
        (OK + b"\r\n[" + b"[]," * 600_000 + b"0]", HandlerError, "lists and objects"),
        (OK + b"\r\n[" + b"1e308," * 9_000 + b"0]", HandlerError, "numbers beyond"),
        (OK + b"Content-Length: 5\r\n\r\n" + b"[" * 100, LostError, "JSON|truncated|malformed"),
        (OK + b"Content-Length: 500\r\n\r\n1", LostError, "closed"),
        (b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n", HandlerError, "302"),
    ],
    ids=["chunks", "interim", "extensions", "containers", "numbers", "length too short", "length too long", "redirect"],
)  # fmt: skip
async def test_an_answer_over_http_that_only_takes_time_is_refused(
    text: bytes, kind: type[Exception], message: str
) -> None:
    async with misbehaving(saying(text)) as replica, calling(HTTP) as transport:
        with pytest.raises(kind, match=message):
            await transport.call(replica, call_of("wide", Nothing()))


async def test_chunks_of_common_sizes_are_read() -> None:
    head = OK + b"Transfer-Encoding: chunked\r\n\r\n"
    for size, count in ((1, 1000), (64, 20_000), (1 << 16, 20)):
        text = head + b'1\r\n"\r\n' + chunks(size, count) + b'1\r\n"\r\n0\r\n\r\n'
        async with misbehaving(saying(text)) as replica, calling(HTTP) as transport:
            reply = (await transport.call(replica, call_of("wide", Nothing()))).value
        assert reply == "1" * size * count
