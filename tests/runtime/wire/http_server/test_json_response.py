"""Responses in JSON: what clients of both versions of HTTP get, beside aiohttp's own response."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web

from kwiken.runtime.wire.http_server.json_response import GatewayResponse, JsonResponse
from kwiken.runtime.wire.http_server.listener import Listener

BODY = b'{"a": 1}'
OURS, AIOHTTP = "/ours", "/aiohttp"


async def answer(request: web.BaseRequest) -> GatewayResponse:
    """The same response by either class."""
    status = int(request.query.get("status", "200"))
    further = {"Retry-After": "1"} if status != 200 else {}
    if request.path == OURS:
        return JsonResponse(status, BODY, further)
    return web.Response(status=status, body=BODY, headers={"Content-Type": "application/json"} | further)


async def asked(port: int, first: str, *lines: str) -> tuple[list[str], bytes, bool]:
    """Status line and sorted headers without the date, body, and whether the server closes the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write("\r\n".join([first, "Host: 127.0.0.1", *lines, "", ""]).encode())
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")[:-2]
    length = next(int(line.split(":")[1]) for line in head if line.startswith("Content-Length"))
    body = b"" if first.startswith("HEAD") else await reader.readexactly(length)
    try:
        closed = await asyncio.wait_for(reader.read(1), 0.2) == b""
    except TimeoutError:
        closed = False
    writer.close()
    assert sum(line.startswith("Date: ") for line in head) == 1
    return [head[0], *sorted(line for line in head[1:] if not line.startswith("Date: "))], body, closed


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize(
    ("version", "lines"),
    [("1.1", ()), ("1.1", ("Connection: close",)), ("1.0", ()), ("1.0", ("Connection: keep-alive",))],
)
@pytest.mark.parametrize("status", [200, 404, 413, 421, 503, 507])
async def test_clients_get_the_same_as_from_aiohttps_own_response(
    method: str, version: str, lines: tuple[str, ...], status: int
) -> None:
    listener = Listener(answer, host="127.0.0.1", port=0)
    await listener.start()
    try:
        ours, theirs = [
            await asked(listener.port, f"{method} {path}?status={status} HTTP/{version}", *lines)
            for path in (OURS, AIOHTTP)
        ]
    finally:
        await listener.stop()
    assert ours == theirs
    assert ours[1] == (b"" if method == "HEAD" else BODY)
    assert ours[2] is (lines == ("Connection: close",) or (version == "1.0" and not lines))


@pytest.mark.parametrize("value", ["a\r\nX: b", "a\nX: b", "a\rb"])
async def test_a_header_with_a_line_break_is_not_sent(value: str) -> None:
    async def broken(request: web.BaseRequest) -> GatewayResponse:
        del request
        return JsonResponse(200, BODY, {"X-Name": value})

    listener = Listener(broken, host="127.0.0.1", port=0)
    await listener.start()
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
        writer.write(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        got = await asyncio.wait_for(reader.read(), 5)
        writer.close()
    finally:
        await listener.stop()
    assert b"X:" not in got
    assert BODY not in got
