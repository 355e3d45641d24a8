"""HTTP/1.1 connections to foreign servers, whose bodies may be chunked or end with the connection.

An answer does not depend on how its bytes are divided over reads. Bytes behind an answer end its connection,
and leave the answer as it is: they may as well come after it was given away.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, Protocol

from kwiken.runtime.base.errors import OverloadError
from kwiken.runtime.wire.foreign.http_bodies import (
    Body,
    BrokenReplyError,
    ChunkedBody,
    SizedBody,
    UnsizedBody,
)
from kwiken.runtime.wire.foreign.http_streams import MAX_UNREAD, BodyStream
from kwiken.runtime.wire.transport.http_head import BadHeadError, read_length, split_head
from kwiken.runtime.wire.transport.peer_reader import PeerReader

BEGINNING: Final = b"HTTP/1."
FINAL: Final = 200  # lowest status of a response that is not interim
SWITCHING: Final = 101
SUCCESS: Final = range(200, 300)
WITHOUT_BODY: Final = frozenset({204, 205, 304})
BYTES_PER_LINE: Final = 16  # bytes of a head that take as long to parse as a line before a chunk
MAX_INTERIM: Final = 20  # interim responses before a response; servers send one or two

_STATUS = re.compile(r"HTTP/1\.([01]) ([1-5][0-9]{2})(?: .*)?\Z")


class NoConnectionError(Exception):
    """No connection could be opened; nothing was sent."""


class UnreadReplyError(Exception):
    """The body of a response was not read: it is too long, or its length is missing.

    Attributes:
        headers: headers of the response, names in lower case.
        too_long: whether the response states a length that is above the limit.
    """

    def __init__(self, message: str, *, status: int, headers: dict[str, str], too_long: bool) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers
        self.too_long = too_long


class Moments(Protocol):
    """Moments of an exchange, seconds, 0 until they come; and the budget that its answer is charged to."""

    sent: float
    first_byte: float

    def hold(self, count: int) -> None:
        """Charge bytes of the answer; raises OverloadError if there is no room for them."""


class HttpReply(NamedTuple):
    """Response of an HTTP server.

    Attributes:
        headers: header values by name in lower case; of a repeated header the last.
        body: the whole body; empty if there is a stream of it.
        stream: body that is still coming; None for a whole one.
    """

    status: int
    headers: dict[str, str]
    body: bytes
    stream: BodyStream | None = None


def request_bytes(method: str, target: str, headers: Mapping[str, str], body: bytes = b"") -> bytes:
    """Request of HTTP/1.1 whose answer is wanted as it is, without compression.

    Raises:
        UnicodeEncodeError: the target or a header is not ASCII.
    """
    all_headers = {**headers, "accept-encoding": "identity", "content-length": str(len(body))}
    lines = "".join(f"{name}: {value}\r\n" for name, value in all_headers.items())
    return f"{method} {target} HTTP/1.1\r\n{lines}\r\n".encode("ascii") + body


class HttpConnection(PeerReader):
    """Connection to one foreign server; one exchange at a time.

    Args:
        max_body: longest body of a response, bytes; a longer one is an error.
        now: monotonic clock, seconds.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, max_body: int, now: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(loop)
        self._max_body = max_body
        self._now = now
        self._moments: Moments | None = None
        self._streamed = False
        self._stream: BodyStream | None = None
        self._waiter: asyncio.Future[HttpReply] | None = None
        self._buffer = bytearray()  # a head that has not come whole
        self._head: tuple[int, dict[str, str]] | None = None
        self._body: Body | None = None
        self._to_head = False
        self._interim = 0
        self.idle_since = 0.0

    @property
    def usable(self) -> bool:
        """Whether another request can be sent on the connection."""
        return self._transport is not None and not self._transport.is_closing()

    async def exchange(
        self, request: bytes, moments: Moments | None = None, *, streamed: bool = False
    ) -> HttpReply:
        """Send a request and wait for its response; cancelling this closes the connection.

        Args:
            moments: where to note the moments of the exchange; None for nowhere.
            streamed: whether the body of a successful response is read as it comes.

        Raises:
            NoConnectionError: the connection was closed before; nothing was sent.
            BrokenReplyError: no complete response arrived.
            UnreadReplyError: a response arrived whose body is not read.
        """
        if self._transport is None or self._transport.is_closing():
            raise NoConnectionError("the connection was closed before anything was sent")
        waiter: asyncio.Future[HttpReply] = self._loop.create_future()
        self._waiter = waiter
        self._moments = moments
        self._streamed = streamed
        self._to_head = request.startswith(b"HEAD ")
        self._interim = 0
        self._transport.write(request)
        if moments is not None:
            moments.sent = self._now()
        try:
            return await waiter
        except asyncio.CancelledError:
            self.cut()
            raise
        finally:
            self._waiter = None
            if self._stream is None:
                self._moments = None
            del waiter  # the future holds its error, whose traceback holds this frame

    def ended(self, error: Exception | None) -> None:
        """The connection was lost, which ends a body without a length."""
        if error is None and isinstance(self._body, UnsizedBody):
            self._end(self._body)
        self._fail(
            BrokenReplyError(f"the connection was closed: {error}" if error else "the connection was closed")
        )

    def parse(self, data: bytes, most: int) -> int:
        """Parse the response that is waited for."""
        if self._stream is None and (self._waiter is None or self._waiter.done()):
            if data:  # unexpected: no request is waiting for it
                self.cut()
            return 0
        if self._moments is not None and not self._moments.first_byte:
            self._moments.first_byte = self._now()
        try:
            return self._read(data, most)
        except BadHeadError as error:
            self._fail(BrokenReplyError(str(error)))
            self.cut()
        except (BrokenReplyError, UnreadReplyError, OverloadError) as error:
            self._fail(error)
            self.cut()
        return most  # as much as may have been parsed before the error

    def _read(self, data: bytes | bytearray, most: int) -> int:
        """Parse on; returns the number of lines that were parsed, of heads about."""
        work = 0
        while self._body is None:
            if work >= most:
                self._buffer, self.has_more = bytearray(data), True
                return work
            if self._buffer:
                self._buffer += data
                data = self._buffer
            head = self._read_head(data)
            if head is None:
                self._buffer = bytearray(data)
                return work
            status, headers, start = head
            work += start // BYTES_PER_LINE
            data = data[start:]
            self._buffer = bytearray()
            self._take_head(status, headers)
        return work + self._read_body(self._body, data, most)

    def _take_head(self, status: int, headers: dict[str, str]) -> None:
        """Begin the body of a response, unless it is an interim one."""
        if status == SWITCHING:
            raise BrokenReplyError("the server switched to another protocol")
        if status >= FINAL:
            self._head = status, headers
            self._body = self._body_of(status, headers)
            if self._streamed and status in SUCCESS and self._waiter is not None:
                self._stream = BodyStream(self)
                self._waiter.set_result(HttpReply(status, headers, b"", self._stream))
            return
        self._interim += 1
        if self._interim > MAX_INTERIM:
            raise BrokenReplyError(f"more than {MAX_INTERIM} interim responses")

    def _read_body(self, body: Body, data: bytes | bytearray, most: int) -> int:
        """Parse on in the body; returns the number of lines that were parsed."""
        if self._stream is not None:
            try:
                lines = body.feed(data, most)
            finally:  # what came before an error belongs to the body
                self._hand_on(self._stream, body.take())
        else:
            before = len(body.data)
            lines = body.feed(data, most)
            self._hold(len(body.data) - before)
            if len(body.data) > self._max_body:
                raise self._too_long(len(body.data))
        if body.complete:
            self._end(body)
        else:
            self.has_more = lines >= most
        return lines

    def _hand_on(self, stream: BodyStream, data: bytearray) -> None:
        """Hand bytes to the reader of the body, and read no more of the peer while many are unread."""
        if stream.is_over:  # what comes behind the end mark is of no use
            self._moments = None
        self._hold(len(data))
        stream.add(data)
        if len(stream.unread) >= MAX_UNREAD:
            if stream.is_over:
                raise BrokenReplyError("it goes on after its end mark")
            self.read_on(wanted=False)

    def _read_head(self, data: bytes | bytearray) -> tuple[int, dict[str, str], int] | None:
        """Parse the head of a response: status, headers and offset of the body; None if it is incomplete."""
        split = split_head(data)
        if split is None:
            # Reject at once, without waiting for more.
            if not BEGINNING.startswith(data[: len(BEGINNING)]):
                raise BrokenReplyError(f"not an HTTP response: {bytes(data[:80])!r}")
            return None
        first, headers, start = split
        match = _STATUS.match(first)
        if match is None:
            raise BrokenReplyError(f"not an HTTP response: {first[:80]!r}")
        if match[1] == "0":
            headers["connection"] = "close"
        return int(match[2]), headers, start

    def _end(self, body: Body) -> None:
        """Hand the whole response to the waiting exchange."""
        assert self._head is not None
        (status, headers), self._head, self._body = self._head, None, None
        if self._transport is not None and headers.get("connection", "").lower() == "close":
            self._transport.close()
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(HttpReply(status, headers, bytes(body.data)))
        if body.surplus or self._late:
            self.cut()
        self._end_stream(None)

    def _hold(self, count: int) -> None:
        """Charge bytes of the answer to its request."""
        if self._moments is not None:
            self._moments.hold(count)

    def _end_stream(self, error: Exception | None) -> None:
        """Tell the reader of the body of its end, after which another exchange may begin."""
        if self._stream is not None:
            stream, self._stream, self._moments = self._stream, None, None
            self.read_on(wanted=True)
            stream.end(error)

    def _fail(self, error: Exception) -> None:
        self._end_stream(error)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(error)

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
        if length > self._max_body and not (self._streamed and status in SUCCESS):
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
