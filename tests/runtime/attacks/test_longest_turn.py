"""The longest turn of an event loop while peers send the bytes that cost most to parse, counted in work.

Work is counted from outside: calls of functions, in Python and in C, between two turns of the loop.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Callable
from datetime import UTC
from types import FrameType
from typing import Any, Final

import msgspec
import pytest
from aiohttp import web
from hypothesis import given, strategies as st

from kwiken.base.errors import InputError
from kwiken.runtime.wire.foreign.http_connection import HttpConnection
from kwiken.runtime.wire.frames.client import FrameClientLink
from kwiken.runtime.wire.frames.messages import (
    AnswerFrame,
    CallFrame,
    CancelFrame,
    CreditFrame,
    EndedFrame,
    offer,
    response,
)
from kwiken.runtime.wire.frames.server import FrameServerLink
from kwiken.runtime.wire.http_server.aiohttp_server import ClientTimeouts, GatewayWebServer
from kwiken.runtime.wire.http_server.byte_budget import ByteBudget
from kwiken.runtime.wire.http_server.http1_server import CallServer, HttpRequest, Response, ServerConnection
from kwiken.runtime.wire.transport.base import Call
from kwiken.runtime.wire.transport.json_work import MAX_CONTAINERS, MAX_EXTREMES, excess_work
from kwiken.runtime.wire.transport.msgpack_work import decodable
from kwiken.runtime.wire.transport.peer_reader import SHARE, TURN_WORK, PeerReader, own_turn
from kwiken.runtime.wire.transport.wire import RequestReader
from tests.support.runtime.waiting import until
from tests.support.services.http import service

READ: Final = 256 << 10  # bytes that a loop reads of a connection at once
CONNECTIONS: Final = 24
DOOR_BYTES: Final = 12 << 10  # that each connection of a gateway's door sends
CALLS: Final = 100  # open calls of each connection
CALLS_PER_ITEM: Final = 15  # calls of functions that one item costs at most
# What is counted at once is the reads, which end one turn, and the shares that begin the next one. Each may
# go on to the end of a share that it began before its work was spent.
MAX_CALLS: Final = 2 * CALLS_PER_ITEM * (TURN_WORK + SHARE) + 200 * CONNECTIONS
CHUNKED: Final = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
UPLOAD: Final = b"POST /v1/request HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
PLAIN: Final = (
    b"POST /v1/request HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 1\r\n\r\n1"
)
INTERIM: Final = b"HTTP/1.1 103 Early\r\n" + b"A: b\r\n" * 100 + b"\r\n"


class Peer(asyncio.Transport):
    """Transport whose peer sends a text as fast as it is read."""

    def __init__(self, text: bytes) -> None:
        super().__init__()
        self.text = text
        self.sent = 0
        self.closed = False
        self.paused = False
        self.protocol: Any = None

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = protocol

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Nothing is ever unsent."""

    def get_write_buffer_size(self) -> int:
        return 0

    def pieces(self) -> bytes:
        """Bytes of the next read."""
        start, self.sent = self.sent, min(len(self.text), self.sent + READ)
        return self.text[start : self.sent]

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """The peer reads nothing, which is no matter here."""

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False


def framed(frame: Any) -> bytes:
    data = msgspec.msgpack.encode(frame)
    return len(data).to_bytes(4, "big") + data


def call_frame(number: int) -> CallFrame:
    return CallFrame(number, True, 0, b"", "s", 0, 0, 1e3, 0, 1, "")


ANSWERS: Final = b"".join(
    framed(AnswerFrame(n, True, 0, b"", 200, "", 0.0, 0, 0.0)) for n in range(1, 1 + CALLS)
)
LATE: Final = b"".join(framed(EndedFrame(n, 0.0)) for n in range(1, 1 + CALLS))
OPENED: Final = b"".join(framed(call_frame(n)) for n in range(1, 1 + CALLS))


def http(loop: asyncio.AbstractEventLoop) -> PeerReader:
    return HttpConnection(loop, 16 << 20)


def replica(loop: asyncio.AbstractEventLoop) -> PeerReader:
    return FrameClientLink(loop, 16 << 20, loop.time, 0)


def gateway(loop: asyncio.AbstractEventLoop) -> PeerReader:
    async def serve(call: CallFrame, came: float, link: FrameServerLink) -> AnswerFrame:
        del came, link
        return AnswerFrame(call.id, True, 0, b"", 200, "", 0.0, 0, 0.0)

    return FrameServerLink(
        loop,
        max_body=16 << 20,
        budget=ByteBudget(1 << 30),
        handler=serve,
        refuse=lambda item: AnswerFrame(item.id, True, 0, b"", 413, "", 0.0, 0, 0.0),
        ended=lambda _link: None,
    )


async def answered(request: web.BaseRequest) -> web.Response:
    await request.read()
    return web.Response()


def door(loop: asyncio.AbstractEventLoop) -> asyncio.Protocol:
    del loop
    server = GatewayWebServer(
        answered,
        timeouts=ClientTimeouts(),
        most=1000,
        max_body=8 << 20,
        budget=ByteBudget(1 << 30),
        keep_alive_s=10.0,
        quick_path="/v1/request",
    )
    return server.connect()


def http_replica(loop: asyncio.AbstractEventLoop) -> asyncio.Protocol:
    async def serve(request: HttpRequest) -> Response:
        del request
        return Response(200, b"", "")

    return ServerConnection(CallServer(serve, host="127.0.0.1", port=0, max_body=16 << 20), loop)


async def ask(reader: asyncio.Protocol) -> None:
    """Wait for all that the peer could answer, whatever it is."""
    if isinstance(reader, HttpConnection):
        await asyncio.gather(reader.exchange(b"GET / HTTP/1.1\r\n\r\n"), return_exceptions=True)
    elif isinstance(reader, FrameClientLink):
        calls = (
            reader.exchange(call_frame(0), b"", Call("s", (), 0, 0, 1e9, 0, 0, "")) for _ in range(CALLS)
        )
        await asyncio.gather(*calls, return_exceptions=True)


CASES: Final[dict[str, tuple[Callable[[asyncio.AbstractEventLoop], asyncio.Protocol], bytes, bytes]]] = {
    "uploads in chunks of one byte": (door, UPLOAD, b"1\r\nx\r\n"),
    "uploads with extensions": (door, UPLOAD, b"1;e\r\nx\r\n"),
    "uploads with trailers": (door, UPLOAD + b"0\r\n", b"a: b\r\n"),
    "requests ahead": (door, b"", b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
    "plain requests ahead": (door, b"", PLAIN),
    "empty lines": (door, b"", b"\r\n"),
    "headers": (door, b"GET / HTTP/1.1\r\n", b"a: b\r\n"),
    "calls ahead over HTTP": (
        http_replica,
        b"",
        b"POST /call HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
    ),
    "headers of calls": (http_replica, b"GET / HTTP/1.1\r\n", b"a: b\r\n"),
    "chunks of one byte": (http, CHUNKED, b"1\r\nx\r\n"),
    "extensions": (http, CHUNKED, b"1;" + b"e" * 4000 + b"\r\nx\r\n"),
    "short extensions": (http, CHUNKED, b"1;\r\nx\r\n"),
    "trailers": (http, CHUNKED + b"0\r\n", b"a: b\r\n"),
    "interim": (http, b"", INTERIM),
    "no chunks": (http, CHUNKED, b"80000000\r\n"),
    "a body": (http, b"HTTP/1.1 200 OK\r\nContent-Length: 16000000\r\n\r\n", b"x"),
    "answers": (replica, response(1), ANSWERS),
    "ends of calls": (replica, response(1), LATE),
    "credit for answered calls": (replica, response(1) + ANSWERS, framed(CreditFrame(1, 1))),
    "calls": (gateway, offer(), OPENED),
    "cancelled calls": (gateway, offer() + OPENED, framed(CancelFrame(1))),
    "empty frames": (gateway, offer(), b"\0\0\0\0"),
}


@pytest.mark.parametrize("size", [1 << 10, 1 << 18])
@pytest.mark.parametrize("name", CASES)
async def test_one_turn_parses_no_more_than_its_share_of_any_bytes(name: str, size: int) -> None:
    make, first, unit = CASES[name]
    size = min(size, DOOR_BYTES) if make is door else size  # its handlers take turns of their own
    text = first + unit * (size // len(unit) + 1)
    loop = asyncio.get_running_loop()
    readers, peers = [make(loop) for _ in range(CONNECTIONS)], [Peer(text) for _ in range(CONNECTIONS)]
    for reader, peer in zip(readers, peers, strict=True):
        peer.set_protocol(reader)
        reader.connection_made(peer)
    asked = [loop.create_task(ask(reader)) for reader in readers]
    for _ in range(5):  # until all is asked
        await asyncio.sleep(0)
    counted = 0

    def count(frame: FrameType, event: str, arg: object) -> None:
        nonlocal counted
        del frame, arg
        counted += event in {"call", "c_call"}

    turns: list[int] = []
    sys.setprofile(count)
    try:
        for _ in range(10_000):
            counted = 0
            open_ends = [peer for peer in peers if not peer.closed and peer.sent < len(text)]
            for peer in open_ends:
                if not peer.paused:
                    peer.protocol.data_received(peer.pieces())
            await asyncio.sleep(0)
            turns.append(counted)
            if not open_ends and not any(peer.paused and not peer.closed for peer in peers):
                break
    finally:
        sys.setprofile(None)
    assert all(peer.closed or peer.sent == len(text) for peer in peers)  # all was taken, or refused
    assert max(turns) <= MAX_CALLS
    for peer in peers:
        peer.protocol.connection_lost(None)
    await asyncio.gather(*asked)


@pytest.mark.parametrize(
    ("unit", "most"),
    [(b"[],", MAX_CONTAINERS), (b"{},", MAX_CONTAINERS), (b'{"a":{}},', MAX_CONTAINERS // 2)]
    + [
        (unit, MAX_EXTREMES)
        for unit in (
            b"1e308,",
            b"1E+299,",
            b"5e-324,",
            b"-1.7e+0308,",
            b"2.2250738585072011e-308,",
            b" 8.5e300,",
        )
    ],
)
def test_text_that_takes_a_decoder_long_is_refused_before(unit: bytes, most: int) -> None:
    reader = RequestReader(service)
    for count in (1, most - 1, most + 1, 3 * most):
        text = b"[" + unit * count + b"0]"
        refused = excess_work(text) is not None
        assert refused == (count >= most)
        with pytest.raises(InputError, match="is the most" if refused else "must be an object"):
            reader.read(text)


MANY: Final = 20_000
# Values whose bytes may be the beginning of lists: values, and the lists and maps in one of them.
VALUES: Final[dict[str, tuple[bytes, int]]] = {
    "lists": (b"\x90", 1),
    "maps": (b"\x80", 1),
    "long heads": (b"\xdd\0\0\0\0", 1),
    "nested": (b"\x91\x91\x01", 2),
    "text of one letter in its long form": (b"\xc5\0\x01\x90", 1),
    "text of heads": (b"\xa3\x90\x90\x90", 0),
    "bytes of heads": (b"\xc4\x02\x90\x90", 0),
    "long text of heads": (b"\xd9\x20" + b"\x80" * 32, 0),
    "numbers of heads": (b"\xcd\x90\x90", 0),
}


@pytest.mark.parametrize("name", VALUES)
async def test_messagepack_that_takes_long_is_refused_unread_and_counted_in_turns(name: str) -> None:
    value, containers = VALUES[name]
    body = value * (MANY // 2)
    counted, turns = 0, []

    def count(frame: FrameType, event: str, arg: object) -> None:
        nonlocal counted
        del frame, arg
        counted += event in {"call", "c_call"}

    most = MANY // 2 * containers
    whole = b"\x90" * (MANY - most) + body
    tasks = [asyncio.ensure_future(decodable(whole, MANY - one)) for one in (0, 1) for _ in range(4)]
    sys.setprofile(count)
    try:
        while not all(task.done() for task in tasks):
            counted = 0
            await asyncio.sleep(0)
            turns.append(counted)
    finally:
        sys.setprofile(None)
    assert [isinstance(task.exception(), InputError) for task in tasks] == [False] * 4 + [True] * 4
    assert max(turns) <= MAX_CALLS
    assert len(turns) > MANY // TURN_WORK


async def test_long_bodies_are_decoded_one_a_turn_and_short_ones_at_once() -> None:
    turns = [0]

    async def decode(size: int) -> int:
        await own_turn(size)
        return turns[0]

    tasks = [asyncio.ensure_future(decode(size)) for size in (1 << 22, 1 << 10, 1 << 23, 1 << 24)]
    while not all(task.done() for task in tasks):
        turns[0] += 1
        await asyncio.sleep(0)
    first, short, second, third = (task.result() for task in tasks)
    assert short <= first < second < third


async def test_a_body_is_freed_without_a_collection_when_its_reader_has_gone() -> None:
    body = b"\x90" * MANY
    references = sys.getrefcount(body)
    gc.disable()
    try:
        task = asyncio.ensure_future(decodable(body, MANY - 1))
        await asyncio.sleep(0)
        assert sys.getrefcount(body) > references
        task.cancel()
        await asyncio.wait([task])
        del task
        await until(lambda: sys.getrefcount(body) == references)
    finally:
        gc.enable()


LEAVES: Final = st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 64) - 1) | st.floats()
TEXTS: Final = st.text(max_size=300) | st.binary(max_size=300) | st.datetimes(timezones=st.just(UTC))


@given(
    st.recursive(
        LEAVES | TEXTS,
        lambda inner: st.lists(inner, max_size=40) | st.dictionaries(TEXTS, inner, max_size=40),
    )
)
async def test_lists_and_maps_are_counted_as_a_decoder_makes_them(value: Any) -> None:
    def made(part: Any) -> int:
        inner = [*part, *part.values()] if isinstance(part, dict) else part
        return 1 + sum(map(made, inner)) if isinstance(part, dict | list) else 0

    body = msgspec.msgpack.encode(value)
    assert await decodable(body, made(value)) is body
    if made(value):
        with pytest.raises(InputError, match="lists and maps"):
            await decodable(body, made(value) - 1)


COMMON: Final = (
    b'{"text": "' + b"e308, 1e3 e+2 and 2e5 " * 50_000 + b'"}',
    b"[" + b"1e-5,0.25,3e10,1e100," * 50_000 + b"0]",
    b"[" + b'"5e3221e308ffe2",' * 50_000 + b"0]",
)


@pytest.mark.parametrize("text", COMMON, ids=["words", "numbers", "digests"])
def test_common_text_is_not_refused(text: bytes) -> None:
    assert excess_work(text) is None
