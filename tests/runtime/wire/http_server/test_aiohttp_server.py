"""aiohttp server against clients that are slow, idle, too many, or send garbage."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from kwiken.runtime.wire.http_server.acceptor import max_connections, max_lingering
from kwiken.runtime.wire.http_server.aiohttp_server import ClientTimeouts
from kwiken.runtime.wire.http_server.listener import Listener
from tests.support.runtime.waiting import PATIENCE_S

HASTE = ClientTimeouts(head_s=0.3, body_s=0.6, idle_s=1.2, sweep_s=0.05)
HEAD = b"POST / HTTP/1.1\r\nHost: x\r\n"


class Front:
    """Listener that answers with the length of the body; `/slow` waits first, `/big` sends a long answer."""

    def __init__(self) -> None:
        self.cancelled = 0

    async def __call__(self, request: web.BaseRequest) -> web.Response:
        try:
            body = await request.read()
            if request.path == "/slow":
                await asyncio.sleep(1.5)
            return web.Response(text=str(len(body)), body=None)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise


@contextlib.asynccontextmanager
async def listening(*, most: int | None = None) -> AsyncIterator[tuple[Front, int]]:
    front = Front()
    listener = Listener(front, host="127.0.0.1", port=0, timeouts=HASTE, most=most)
    await listener.start()
    try:
        yield front, listener.port
    finally:
        await listener.stop()


async def lasted(port: int, *pieces: bytes, every_s: float = 0.0) -> tuple[float, bytes]:
    """Time from before the connection until its end, and the received bytes."""
    began = time.monotonic()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    received = b""
    try:
        for piece in pieces:
            writer.write(piece)
            await asyncio.sleep(every_s)
        async with asyncio.timeout(PATIENCE_S):
            while data := await reader.read(1 << 16):
                received += data
    except ConnectionError:
        pass
    finally:
        writer.close()
    return time.monotonic() - began, received


async def test_slow_clients_are_disconnected() -> None:
    """Lower bounds only: how late a connection is closed depends on the machine."""
    async with listening() as (front, port):
        silent, half_head, trickle, half_body = await asyncio.gather(
            lasted(port),
            lasted(port, HEAD[:20]),
            lasted(port, *(HEAD[at : at + 1] for at in range(20)), every_s=0.05),
            lasted(port, HEAD + b"Content-Length: 999\r\n\r\nx"),
        )
    assert silent[0] >= HASTE.idle_s
    assert HASTE.head_s <= half_head[0] < HASTE.idle_s
    assert trickle[0] >= HASTE.head_s
    assert half_body[0] >= HASTE.body_s
    assert front.cancelled == 1
    assert not any(received for _, received in (silent, half_head, trickle, half_body))


async def test_a_slow_answer_or_an_idle_pause_keeps_the_connection() -> None:
    async with listening() as (_, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for path, pause_s in ((b"/slow", 0.6), (b"/", 0.0)):
            writer.write(b"POST %b HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc" % path)
            async with asyncio.timeout(PATIENCE_S):
                head = await reader.readuntil(b"\r\n\r\n")
                assert head.startswith(b"HTTP/1.1 200 ")
                assert await reader.readexactly(1) == b"3"
            await asyncio.sleep(pause_s)  # longer than a head may take
        writer.close()


async def test_connections_beyond_the_limit_get_503_at_once() -> None:
    async with listening(most=3) as (_, port):
        held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
        await asyncio.sleep(0.05)
        _, received = await lasted(port, HEAD + b"\r\n")
        assert received.startswith(b"HTTP/1.1 503 ")
        assert b"Retry-After: 1\r\n" in received
        assert received.endswith(b'{"error":"too many connections; try again later"}')
        held.pop()[1].close()
        for _ in range(200):
            _, received = await lasted(port, HEAD + b"Connection: close\r\nContent-Length: 0\r\n\r\n")
            if received.startswith(b"HTTP/1.1 200 "):
                break
        else:
            pytest.fail("there is room again")
        for _, writer in held:
            writer.close()


def test_the_room_fits_the_files_that_may_be_open(monkeypatch: pytest.MonkeyPatch) -> None:
    for files, room, lingering in ((100, 80, 5), (1024, 819, 51), (1_000_000, 4096, 64), (-1, 4096, 64)):
        monkeypatch.setattr("resource.getrlimit", lambda _, files=files: (files, files))
        assert (max_connections(), max_lingering()) == (room, lingering)


async def test_garbage_is_answered_and_costs_a_line_without_a_trace(caplog: pytest.LogCaptureFixture) -> None:
    garbage = [
        b"\x16\x03\x01" + os.urandom(100) + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: abc\r\n\r\n",
    ]
    with caplog.at_level(logging.DEBUG, logger="kwiken.http"):
        async with listening() as (_, port):
            for text in garbage:
                _, received = await lasted(port, text)
                assert not received or received.startswith((b"HTTP/1.1 400 ", b"HTTP/1.0 400 "))
    lines = [record for record in caplog.records if record.name == "kwiken.http"]
    assert len({line.msg for line in lines if line.levelno >= logging.WARNING}) == 1
    for line in lines:
        assert line.levelno < logging.WARNING or not line.exc_info
        assert "\n" not in line.getMessage()
