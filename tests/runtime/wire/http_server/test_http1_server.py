"""HTTP/1 server of replicas: requests in any pieces, invalid requests, disconnects and timeouts."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import re
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from hypothesis import given, strategies as st

from kwiken.runtime.wire.http_server.http1_server import CallServer, HttpRequest, Response
from tests.support.runtime.waiting import PATIENCE_S, until


class Echo:
    """Server that echoes requests; `/wait` waits until it is cancelled."""

    def __init__(self) -> None:
        self.seen: list[HttpRequest] = []
        self.cancelled = 0

    async def __call__(self, request: HttpRequest) -> Response:
        self.seen.append(request)
        if request.path == "/wait":
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                self.cancelled += 1
                raise
        if request.path == "/fail":
            raise RuntimeError("told to fail")
        return Response(200, request.method.encode() + b" " + request.body, "X-Kind: echo\r\n")


@contextlib.asynccontextmanager
async def serving(**settings: Any) -> AsyncIterator[tuple[CallServer, Echo, int]]:
    echo = Echo()
    server = CallServer(echo, host="127.0.0.1", port=0, **({"max_body": 1000} | settings))
    await server.start()
    try:
        yield server, echo, int(server.url.rpartition(":")[2])
    finally:
        await server.stop()
        await until(lambda: not server.connections)


async def talk(port: int, *pieces: bytes, until_closed: bool = False) -> bytes:
    """Response to bytes sent in pieces."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)
        async with asyncio.timeout(PATIENCE_S):
            return await reader.read() if until_closed else await reader.read(65_536)
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


def post(body: bytes, *, path: str = "/call", more: str = "") -> bytes:
    return f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n{more}\r\n".encode() + body


async def test_a_general_client_is_served() -> None:
    async with serving() as (server, echo, _), aiohttp.ClientSession() as session:
        for _ in range(3):
            async with session.post(server.url + "/call?x=1", data=b"hello") as answer:
                assert (answer.status, await answer.read()) == (200, b"POST hello")
                assert answer.headers["X-Kind"] == "echo"
        async with session.head(server.url + "/call") as answer:
            assert (answer.status, answer.headers["Content-Length"]) == (200, "5")
        assert len(server.connections) == 1
    assert [request.path for request in echo.seen] == ["/call"] * 4


@given(st.binary(max_size=50), st.lists(st.integers(1, 120), max_size=8))
def test_a_request_parses_equally_however_its_bytes_are_split(body: bytes, cuts: list[int]) -> None:
    whole = post(body)
    places = sorted({0, len(whole), *(cut for cut in cuts if cut < len(whole))})

    async def go() -> None:
        async with serving() as (_, echo, port):
            await talk(port, *(whole[start:end] for start, end in itertools.pairwise(places)))
            assert [(one.method, one.path, one.body) for one in echo.seen] == [("POST", "/call", body)]

    asyncio.run(go())


async def test_requests_sent_ahead_are_answered_in_order() -> None:
    async with serving() as (_, _, port):
        heap = b"".join(post(f"n{n}".encode()) for n in range(20)) + post(
            b"end", more="Connection: close\r\n"
        )
        answers = await talk(port, heap, until_closed=True)
    assert re.findall(rb"POST (n\d+|end)", answers) == [*(f"n{n}".encode() for n in range(20)), b"end"]


@pytest.mark.parametrize(
    ("text", "status"),
    [
        (b"\r\n\r\n", 400),
        (b"GET\r\n\r\n", 400),
        (b"GET /call HTTP/2\r\nHost: x\r\n\r\n", 400),
        (b"get /call HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET http://elsewhere/ HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET /a b HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET /" + b"a" * 5000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET /call HTTP/1.1\r\n\r\n", 400),
        (b"GET /call HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400),
        (b"GET /call HTTP/1.1\r\nHost: a b\r\n\r\n", 400),
        (b"GET /call HTTP/1.1\r\nHost: x\r\nA: b\0c\r\n\r\n", 400),
        (b"GET /call HTTP/1.1\r\nHost: x\r\nA: b\nc: d\r\n\r\n", 400),
        (b"GET /call HTTP/1.1\r\nHost: x\r\nA: b\rc: d\r\n\r\n", 400),
        (b"POST /call HTTP/1.1\r\nHost: x\r\nno colon\r\n\r\n", 400),
        (b"POST /call HTTP/1.1\r\nHost: x\r\nContent-Length : 1\r\n\r\nx", 400),
        (b"POST /call HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx", 400),
        (b"POST /call HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", 400),
        (b"POST /call HTTP/1.1\r\nHost: x\r\nContent-Length: 1001\r\n\r\n", 413),
        (b"POST /call HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 501),
        (
            b"POST /call HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\nabc",
            501,
        ),
        (b"POST /call HTTP/1.1\r\nHost: x\r\nA: " + b"b" * 40_000, 400),
        (b"POST /call HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * 200 + b"\r\n", 400),
    ],
)
async def test_a_wrong_request_is_answered_and_ends_the_connection(text: bytes, status: int) -> None:
    async with serving() as (_, echo, port):
        answer = await talk(port, text, until_closed=True)
    assert answer.startswith(f"HTTP/1.1 {status} ".encode())
    assert b"Connection: close\r\n" in answer
    assert not echo.seen


@given(st.binary(max_size=300))
def test_noise_never_reaches_the_handler_nor_stops_the_server(noise: bytes) -> None:
    async def go() -> None:
        async with serving() as (_, echo, port):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(noise)
            writer.write_eof()
            assert b"200 OK" in await talk(port, post(b"fine"))
            writer.close()
            assert len(echo.seen) == 1

    asyncio.run(go())


async def test_expect_100_continue_is_answered() -> None:
    async with serving() as (_, _, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        head, body = post(b"hello", more="Expect: 100-continue\r\n").split(b"\r\n\r\n")
        writer.write(head + b"\r\n\r\n")
        async with asyncio.timeout(PATIENCE_S):
            assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(body)
        async with asyncio.timeout(PATIENCE_S):
            assert (await reader.read(1000)).endswith(b"POST hello")
        writer.close()
        await writer.wait_closed()


@pytest.mark.parametrize(
    "text", [post(b"a", more="Connection: close\r\n"), post(b"a").replace(b"1.1", b"1.0")]
)
async def test_connection_close_is_honoured(text: bytes) -> None:
    async with serving() as (_, _, port):
        assert (await talk(port, text, until_closed=True)).endswith(b"POST a")


async def test_hanging_up_cancels_the_handler() -> None:
    async with serving() as (_, echo, port):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(post(b"", path="/wait"))
        await until(lambda: echo.seen)
        writer.close()
        await until(lambda: echo.cancelled == 1)


async def test_a_handler_that_fails_costs_one_request(caplog: pytest.LogCaptureFixture) -> None:
    async with serving() as (_, _, port):
        assert (await talk(port, post(b"", path="/fail"), until_closed=True)).startswith(b"HTTP/1.1 500 ")
        assert b"200 OK" in await talk(port, post(b"fine"))
    assert "told to fail" in caplog.text


async def test_stopping_ends_what_runs_and_what_is_idle() -> None:
    async with serving() as (server, echo, port):
        waiting = asyncio.create_task(talk(port, post(b"", path="/wait"), until_closed=True))
        idle = await asyncio.open_connection("127.0.0.1", port)
        await until(lambda: echo.seen and len(server.connections) == 2)
        await server.stop()
        with contextlib.suppress(ConnectionError):
            assert await waiting == b""
        with contextlib.suppress(ConnectionError):
            assert await idle[0].read() == b""
        idle[1].close()
        assert echo.cancelled == 1
        with pytest.raises(ConnectionError):
            await asyncio.open_connection("127.0.0.1", port)


async def test_unfinished_requests_and_idle_connections_are_closed_in_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kwiken.runtime.wire.http_server.http1_server.SWEEP_S", 0.02)
    monkeypatch.setattr("kwiken.runtime.wire.http_server.http1_server.REQUEST_TIMEOUT_S", 0.05)
    async with serving() as (server, echo, port):
        slow = await asyncio.open_connection("127.0.0.1", port)
        slow[1].write(b"POST /call HTTP/1.1\r\nContent-")
        busy = await asyncio.open_connection("127.0.0.1", port)
        busy[1].write(post(b"", path="/wait"))
        idle = await asyncio.open_connection("127.0.0.1", port)
        await until(lambda: len(server.connections) == 3)
        await until(lambda: len(server.connections) == 2)  # the slow one is gone
        monkeypatch.setattr("kwiken.runtime.wire.http_server.http1_server.KEEP_ALIVE_S", 0.05)
        await until(lambda: len(server.connections) == 1)  # the idle one too; what runs stays
        assert echo.cancelled == 0
        for _, writer in (slow, busy, idle):
            writer.close()


async def test_what_is_sent_ahead_is_bounded() -> None:
    async with serving(max_body=100_000) as (_, echo, port):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(post(b"", path="/wait"))
        await until(lambda: echo.seen)
        writer.write(b"x" * 20_000_000)
        await asyncio.sleep(0.2)
        assert writer.transport.get_write_buffer_size() > 10_000_000  # what the system holds is less
        writer.transport.abort()
        # A connection with paused reading does not notice a disconnect; stopping ends it.


async def test_a_request_that_cancels_its_own_task_is_answered() -> None:
    async def leave(request: HttpRequest) -> Response:
        if request.path == "/leave":
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await asyncio.sleep(60)
        return Response(200)

    server = CallServer(leave, host="127.0.0.1", port=0, max_body=1000)
    await server.start()
    try:
        port = int(server.url.rpartition(":")[2])
        assert (await talk(port, post(b"", path="/leave"), until_closed=True)).startswith(b"HTTP/1.1 500 ")
        assert (await talk(port, post(b""))).startswith(b"HTTP/1.1 200 ")
    finally:
        await server.stop()
