"""Kept-alive connections: answers in any pieces, wrong answers, age, cancellation and closing."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator

import pytest
from hypothesis import given, strategies as st

from kwiken.runtime.wire.foreign.http_bodies import BrokenReplyError
from kwiken.runtime.wire.foreign.http_connection import (
    HttpConnection,
    HttpReply,
    NoConnectionError,
    UnreadReplyError,
)
from kwiken.runtime.wire.foreign.http_pool import Pool
from kwiken.runtime.wire.transport.http_head import MAX_HEAD, split_head
from tests.support.runtime.waiting import PATIENCE_S, until


class Wire(asyncio.Transport):
    """Transport that only records its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = b""
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.sent += bytes(data)

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True


async def fed(pieces: list[bytes], *, max_body: int = 1000) -> tuple[HttpReply, bool]:
    """Result of a response that arrives in pieces, and whether the connection can be used again."""
    connection = HttpConnection(asyncio.get_running_loop(), max_body)
    wire = Wire()
    connection.connection_made(wire)
    exchange = asyncio.create_task(connection.exchange(b"ask"))
    await asyncio.sleep(0)
    assert wire.sent == b"ask"
    for piece in pieces:
        connection.data_received(piece)
    async with asyncio.timeout(PATIENCE_S):
        return await exchange, connection.usable


def answer(body: bytes, *, more: str = "") -> bytes:
    return f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\nX-Kind: test \r\n{more}\r\n".encode() + body


@given(st.binary(max_size=60), st.lists(st.integers(1, 140), max_size=12))
def test_an_answer_parses_equally_however_its_bytes_are_split(body: bytes, cuts: list[int]) -> None:
    whole = answer(body)
    places = sorted({0, len(whole), *(cut for cut in cuts if cut < len(whole))})
    pieces = [whole[start:end] for start, end in itertools.pairwise(places)]
    reply, usable = asyncio.run(fed(pieces))
    assert (reply.status, reply.headers["x-kind"], reply.body, usable) == (200, "test", body, True)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 20 OK\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"http/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n: no name\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length : 1\r\n\r\nx",
        b"HTTP/1.1 200 OK\r\nA: b\r\n folded\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1_0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\nx",
        b"HTTP/1.1 200 OK\r\nA: " + b"b" * MAX_HEAD,
        b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 200 + b"\r\n",
    ],
)
async def test_what_is_no_answer_is_broken(text: bytes) -> None:
    connection = HttpConnection(asyncio.get_running_loop(), 1000)
    connection.connection_made(Wire())
    exchange = asyncio.create_task(connection.exchange(b"ask"))
    await asyncio.sleep(0)
    connection.data_received(text)
    connection.connection_lost(None)
    with pytest.raises(BrokenReplyError):
        await exchange
    assert not connection.usable


@given(st.binary(max_size=200))
def test_any_bytes_fail_in_the_documented_way_only(noise: bytes) -> None:
    async def go() -> None:
        connection = HttpConnection(asyncio.get_running_loop(), 50)
        connection.connection_made(Wire())
        exchange = asyncio.create_task(connection.exchange(b"ask"))
        await asyncio.sleep(0)
        connection.data_received(b"HTTP/1.1 200 OK\r\n" + noise)
        connection.connection_lost(ConnectionResetError("reset"))
        with contextlib.suppress(BrokenReplyError, UnreadReplyError):
            await exchange

    asyncio.run(go())


@pytest.mark.parametrize("length", [b"Content-Length: 51", b"Content-Length: " + b"9" * 19])
async def test_an_answer_that_may_be_too_long_is_not_waited_for(length: bytes) -> None:
    with pytest.raises(UnreadReplyError):
        await fed([b"HTTP/1.1 200 OK\r\n" + length + b"\r\n\r\n"], max_body=50)


@pytest.mark.parametrize(
    "text", [answer(b"hi", more="Connection: Close\r\n"), answer(b"hi").replace(b"1.1", b"1.0")]
)
async def test_a_server_that_will_close_is_not_asked_again(text: bytes) -> None:
    reply, usable = await fed([text])
    assert (reply.body, usable) == (b"hi", False)


@pytest.mark.parametrize("text", [b"SSH-2.0-OpenSSH_9.6\r\n", b"\x15\x03\x01", b"HTTP/2"])
async def test_what_does_not_begin_as_an_answer_is_not_waited_for(text: bytes) -> None:
    with pytest.raises(BrokenReplyError, match="not an HTTP response"):
        await fed([text[:1], text])


async def test_what_comes_after_an_answer_is_not_taken_for_the_next_one() -> None:
    connection = HttpConnection(asyncio.get_running_loop(), 1000)
    wire = Wire()
    connection.connection_made(wire)
    exchange = asyncio.create_task(connection.exchange(b"ask"))
    await asyncio.sleep(0)
    connection.data_received(answer(b"hi"))
    connection.data_received(answer(b"and more")[:20])  # before the first response is taken
    assert (await exchange).body == b"hi"
    assert not connection.usable


async def test_nothing_is_sent_on_a_connection_that_is_closed_already() -> None:
    connection = HttpConnection(asyncio.get_running_loop(), 1000)
    wire = Wire()
    connection.connection_made(wire)
    connection.data_received(b"220 mail.example ESMTP\r\n")
    with pytest.raises(NoConnectionError):
        await connection.exchange(b"ask")
    assert wire.sent == b""


async def test_unsolicited_bytes_close_the_connection() -> None:
    connection = HttpConnection(asyncio.get_running_loop(), 1000)
    wire = Wire()
    connection.connection_made(wire)
    connection.data_received(answer(b"hi"))
    assert wire.closed


def test_headers_are_read_by_lower_case_name() -> None:
    found = split_head(b"HTTP/1.1 503 Busy\r\nKW-Refused: 1\r\nEmpty:\r\nX: a:b\r\n\r\nbody")
    assert found == ("HTTP/1.1 503 Busy", {"kw-refused": "1", "empty": "", "x": "a:b"}, 52)


class Server:
    """Server that counts connections, and answers unless it is set silent."""

    def __init__(self) -> None:
        self.opened = 0
        self.open = 0
        self.silent = False
        self.place = ("127.0.0.1", 0)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.opened += 1
        self.open += 1
        try:
            while await reader.read(100):
                if not self.silent:
                    writer.write(answer(b"hi"))
        except ConnectionError:
            pass
        finally:
            self.open -= 1
            writer.close()


@contextlib.asynccontextmanager
async def serving(*, idle_s: float = 15.0) -> AsyncIterator[tuple[Server, Pool]]:
    server = Server()
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.place = listening.sockets[0].getsockname()[:2]
    pool = Pool(max_body=1000, idle_s=idle_s)
    try:
        yield server, pool
    finally:
        await pool.close()
        listening.close()
        await until(lambda: server.open == 0)


async def test_connections_are_used_again() -> None:
    async with serving() as (server, pool):
        for _ in range(5):
            assert (await pool.exchange(server.place, b"ask")).body == b"hi"
        assert server.opened == 1
        await asyncio.gather(*(pool.exchange(server.place, b"ask") for _ in range(3)))
        assert server.opened == 3
        await asyncio.gather(*(pool.exchange(server.place, b"ask") for _ in range(3)))
        assert server.opened == 3


async def test_idle_connections_are_closed_in_time() -> None:
    async with serving(idle_s=0.05) as (server, pool):
        await asyncio.gather(*(pool.exchange(server.place, b"ask") for _ in range(3)))
        await until(lambda: server.open == 0)
        assert (await pool.exchange(server.place, b"ask")).body == b"hi"


async def test_a_connection_that_is_too_old_is_not_used() -> None:
    async with serving(idle_s=0.0) as (server, pool):
        await pool.exchange(server.place, b"ask")
        await pool.exchange(server.place, b"ask")
        assert server.opened == 2


async def test_cancelling_cuts_the_connection_and_only_that() -> None:
    async with serving() as (server, pool):
        server.silent = True
        tasks = [asyncio.create_task(pool.exchange(server.place, b"ask")) for _ in range(2)]
        await until(lambda: server.open == 2)
        tasks[0].cancel()
        with pytest.raises(asyncio.CancelledError):
            await tasks[0]
        await until(lambda: server.open == 1)
        await pool.close()
        with pytest.raises(BrokenReplyError):
            await tasks[1]


async def test_connection_refused_and_connection_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = Pool(max_body=10, idle_s=15.0)
    with pytest.raises(NoConnectionError):
        await pool.exchange(("127.0.0.1", 1), b"ask")
    with pytest.raises(NoConnectionError):
        await pool.exchange(("no-such-host.invalid", 1), b"ask")
    with pytest.raises(NoConnectionError, match="is not a host name"):
        await pool.exchange(("a" * 70, 1), b"ask")

    async def never(*_: object, **__: object) -> None:
        await asyncio.sleep(60)

    monkeypatch.setattr("kwiken.runtime.wire.foreign.http_pool.CONNECT_S", 0.01)
    monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", never)
    with pytest.raises(NoConnectionError, match="no connection within"):
        await pool.exchange(("127.0.0.1", 1), b"ask")
    await pool.close()
