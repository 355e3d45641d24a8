"""HTTP/1.1 connections to foreign servers, whose bodies may be chunked or end with the connection.

An answer does not depend on how its bytes are divided over reads. Bytes behind an answer end its connection,
and leave the answer as it is: they may as well come after it was given away.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from typing import Final, Protocol

from kwiken.runtime.wire.transport.http_head import read_length
from kwiken.runtime.wire.transport.http_pool import (
    BrokenReplyError,
    Connection,
    HttpReply,
    Moments,
    UnreadReplyError,
)

FINAL: Final = 200  # lowest status of a response that is not interim
SWITCHING: Final = 101
WITHOUT_BODY: Final = frozenset({204, 205, 304})
MAX_CHUNK_LINE: Final = 4096  # bytes of a chunk's length with its extensions, or of a trailer
MAX_TRAILERS: Final = 100
MAX_INTERIM: Final = 20  # interim responses before a response; servers send one or two
# Chunks of one body: this many, and one more for so many bytes. Each takes some microseconds of the loop.
FREE_CHUNKS: Final = 4096
BYTES_OF_CHUNK: Final = 32
_SIZE = re.compile(rb"(?P<size>[0-9A-Fa-f]{1,8})[ \t]*(?:;[^\r\n]*)?\Z")


class Body(Protocol):
    """Body of a response as it arrives.

    Attributes:
        data: the bytes so far.
        surplus: whether more bytes came than belong to it.
    """

    complete: bool
    data: bytearray
    surplus: bool

    def feed(self, data: bytes | bytearray) -> None:
        """Read on; raises BrokenReplyError for data that cannot belong to the body."""


class SizedBody:
    """Body of a stated length, in bytes; see `Body`."""

    def __init__(self, length: int) -> None:
        self._length = length
        self.data = bytearray()
        self.complete = length == 0
        self.surplus = False

    def feed(self, data: bytes | bytearray) -> None:
        """Read on."""
        left = self._length - len(self.data)
        self.surplus = len(data) > left
        self.data += data[:left] if self.surplus else data
        self.complete = len(self.data) == self._length


class UnsizedBody:
    """Body that ends with its connection; see `Body`."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.complete = False
        self.surplus = False

    def feed(self, data: bytes | bytearray) -> None:
        """Read on."""
        self.data += data


class ChunkedBody:
    """Body in chunks, each with its length (RFC 9112, section 7.1); see `Body`."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.complete = False
        self.surplus = False
        self._unread = bytearray()
        self._left = 0  # bytes of the current chunk and of the line break behind it
        self._in_trailers = False
        self._trailers = 0
        self._chunks = 0

    def feed(self, data: bytes | bytearray) -> None:
        """Read on."""
        unread = self._unread
        unread += data
        while unread and not self.complete:
            if not (self._read_chunk() if self._left else self._read_line()):
                return
        self.surplus = self.complete and bool(unread)

    def _read_chunk(self) -> bool:
        """Read bytes of the current chunk; returns whether to go on."""
        unread = self._unread
        if self._left > 2:  # noqa: PLR2004 - the line break behind the chunk
            taken = min(len(unread), self._left - 2)
            self.data += unread[:taken]
            del unread[:taken]
            self._left -= taken
            return True
        if len(unread) < 2:  # noqa: PLR2004
            return False
        if unread[:2] != b"\r\n":
            raise BrokenReplyError("a chunk is longer than it says")
        del unread[:2]
        self._left = 0
        return True

    def _read_line(self) -> bool:
        """Read the length of the next chunk, or a trailer; returns whether to go on."""
        end = self._unread.find(b"\r\n")
        if end > MAX_CHUNK_LINE or (end < 0 and len(self._unread) > MAX_CHUNK_LINE + 1):  # CR may have come
            raise BrokenReplyError("the line before a chunk is too long")
        if end < 0:
            return False
        line = bytes(self._unread[:end])
        del self._unread[: end + 2]
        if self._in_trailers:
            self._trailers += 1
            if self._trailers > MAX_TRAILERS:
                raise BrokenReplyError(f"more than {MAX_TRAILERS} trailers")
            self.complete = not line
            return True
        match = _SIZE.match(line)
        if match is None:
            raise BrokenReplyError(f"not the length of a chunk: {line[:40]!r}")
        self._chunks += 1
        if self._chunks > FREE_CHUNKS + len(self.data) // BYTES_OF_CHUNK:
            raise BrokenReplyError(f"too many small chunks: {self._chunks} for {len(self.data)} bytes")
        size = int(match["size"], 16)
        self._left = size + 2 if size else 0
        self._in_trailers = not size
        return True


class ForeignConnection(Connection):
    """Connection to one foreign server; one exchange at a time.

    Args:
        max_body: longest body of a response, bytes; a longer one is an error.
        now: monotonic clock, seconds.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, max_body: int, now: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(loop, max_body, now)
        self._body: Body | None = None
        self._to_head = False
        self._interim = 0

    async def exchange(self, request: bytes, moments: Moments | None = None) -> HttpReply:
        """Send a request and wait for its response; see `Connection`."""
        self._to_head = request.startswith(b"HEAD ")
        self._interim = 0
        return await super().exchange(request, moments)

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the loop."""
        if exc is None and isinstance(self._body, UnsizedBody):
            self._transport = None
            self._finish(bytes(self._body.data))
            self._body = None
        super().connection_lost(exc)

    def _read(self, data: bytes | bytearray) -> None:
        """Parse on; `data` is all data that was received and not consumed yet."""
        while self._body is None:
            head = self._read_head(data)
            if head is None:
                self._keep(data)
                return
            status, headers, start = head
            data = data[start:]
            self._buffer = bytearray()
            if status == SWITCHING:
                raise BrokenReplyError("the server switched to another protocol")
            if status >= FINAL:
                self._head = status, headers
                self._body = self._body_of(status, headers)
                break
            self._interim += 1
            if self._interim > MAX_INTERIM:
                raise BrokenReplyError(f"more than {MAX_INTERIM} interim responses")
            if not data:
                return
        body = self._body
        if data:
            before = len(body.data)
            body.feed(data)
            self._hold(len(body.data) - before)
        if len(body.data) > self._max_body:
            raise self._too_long(len(body.data))
        if body.complete:
            self._end(body)

    def _end(self, body: Body) -> None:
        self._body = None
        self._finish(bytes(body.data))
        if body.surplus:
            self.cut()

    def _body_of(self, status: int, headers: dict[str, str]) -> Body:
        """Body that the head of a response announces (RFC 9112, section 6.3).

        Raises:
            UnreadReplyError: the body is too long or coded in an unknown way.
            BadHeadError: the length is not a number.
        """
        length, coding = read_length(headers), headers.get("transfer-encoding")
        if self._to_head or status in WITHOUT_BODY:
            return SizedBody(0)
        if coding is not None:
            if coding.lower() != "chunked" or length is not None:
                raise UnreadReplyError(
                    f"its body has the transfer coding {coding[:40]!r}"
                    + (" and a length" if length is not None else ""),
                    status=status,
                    headers=headers,
                    too_long=False,
                )
            return ChunkedBody()
        if length is None:
            headers["connection"] = "close"
            return UnsizedBody()
        if length > self._max_body:
            raise self._too_long(length)
        return SizedBody(length)

    def _too_long(self, length: int) -> UnreadReplyError:
        assert self._head is not None
        status, headers = self._head
        return UnreadReplyError(
            f"the answer is {length} bytes long or longer; at most {self._max_body} are taken",
            status=status,
            headers=headers,
            too_long=True,
        )
