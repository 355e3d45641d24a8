"""Response in JSON to a request that aiohttp's server took in.

aiohttp's own response collects its headers in a mapping, completes them by what it finds there, and has its
writer put head and body together; that takes several times as long as one piece of text.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Final, Protocol

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.helpers import rfc822_formatted_time
from aiohttp.http import SERVER_SOFTWARE, HttpVersion

from kwiken.runtime.wire.transport import wire

NO_ROOM: Final = b'{"error":"too many bytes of answers are held; try again later"}'
MAX_JOINED: Final = 64 << 10  # bytes
_REASONS: Final = {status.value: status.phrase for status in HTTPStatus}


class AnyRequest(Protocol):
    """What a response depends on of its request."""

    @property
    def method(self) -> str:
        """Method of HTTP."""

    @property
    def version(self) -> HttpVersion:
        """Version of HTTP."""

    @property
    def keep_alive(self) -> bool:
        """Whether the connection stays open."""


class JsonResponse:
    """Response in JSON: what aiohttp's server asks of a response, and nothing else.

    Args:
        status: HTTP status, 200 or more.
        headers: further headers by name; may be added to until the response is sent.

    Attributes:
        keep_alive: whether the connection stays open; known once the response is prepared.
    """

    __slots__ = ("_piece", "_writer", "body", "headers", "keep_alive", "status")

    def __init__(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.status = status
        self.body = body
        self.headers = headers if headers is not None else {}
        self.keep_alive = False
        self._piece: tuple[bytes, ...] = ()
        self._writer: AbstractStreamWriter | None = None

    async def prepare(self, request: web.BaseRequest) -> None:
        """Make head and body ready for the request's connection.

        Raises:
            ValueError: a header holds a line break.
        """
        self.keep_alive = request.keep_alive
        self._piece = self.encoded(request)
        self._writer = request.writer

    def encoded(self, request: AnyRequest) -> tuple[bytes, ...]:
        """Head and body for a request as they are written: at once, unless a copy of the body would be large.

        Raises:
            ValueError: a header holds a line break.
        """
        version, further = request.version, self.headers
        if version.minor == 0:
            further = ({"Connection": "keep-alive"} if request.keep_alive else {}) | further
        elif not request.keep_alive:
            further = {"Connection": "close"} | further
        lines = "".join([f"{name}: {value}\r\n" for name, value in further.items()]) if further else ""
        if lines.count("\n") + lines.count("\r") > 2 * len(further):
            raise ValueError("a header holds a line break")
        reason = _REASONS.get(self.status, "")
        head = (
            f"HTTP/{version.major}.{version.minor} {self.status} {reason}\r\n"
            f"Content-Type: {wire.JSON}\r\nContent-Length: {len(self.body)}\r\n{lines}"
            f"Date: {rfc822_formatted_time()}\r\nServer: {SERVER_SOFTWARE}\r\n\r\n"
        ).encode()
        body, self.body = self.body, b""  # else an idle connection would keep its last answer
        if request.method == "HEAD":
            return (head,)
        return (head + body,) if len(body) <= MAX_JOINED else (head, body)

    async def write_eof(self) -> None:
        """Send all of it.

        Raises:
            ConnectionError: the client is gone.
        """
        assert self._writer is not None
        pieces, self._piece = self._piece, ()
        for piece in pieces[:-1]:
            await self._writer.write(piece)
        await self._writer.write_eof(pieces[-1])


GatewayResponse = web.StreamResponse | JsonResponse
"""Whatever a gateway's server can send."""
