"""Pool of kept-alive HTTP/1.1 connections for calls: one request out, one response in, no pipelining.

A general HTTP client costs more for one call than everything else that the gateway does for it. This one
knows a single form of response, a head and a body with Content-Length, and treats any other as an error.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol, cast

from kwiken.runtime.base.errors import OverloadError
from kwiken.runtime.wire.tls.certificates import Certificates
from kwiken.runtime.wire.tls.outside import OutsideTls
from kwiken.runtime.wire.transport.http_head import BadHeadError, read_length, split_head

CONNECT_S: Final = 1.0
# Shorter than the time for which a replica keeps an idle connection, so that no call is sent into a
# connection that is being closed.
IDLE_S: Final = 15.0

BEGINNING: Final = b"HTTP/1."
FINAL: Final = 200  # lowest status of a response that is not interim

_STATUS = re.compile(r"HTTP/1\.([01]) ([1-5][0-9]{2})(?: .*)?\Z")


class NoConnectionError(Exception):
    """No connection could be opened; nothing was sent."""


class BrokenReplyError(Exception):
    """The response was cut off, or is no HTTP response of the expected form."""


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
    """

    status: int
    headers: dict[str, str]
    body: bytes


class Connection(asyncio.Protocol):
    """Connection to one server; one exchange at a time.

    Args:
        max_body: longest body of a response, bytes; a longer one is an error.
        now: monotonic clock, seconds.
    """

    __slots__ = (
        "_buffer",
        "_head",
        "_length",
        "_loop",
        "_max_body",
        "_moments",
        "_now",
        "_transport",
        "_waiter",
        "idle_since",
    )

    def __init__(
        self, loop: asyncio.AbstractEventLoop, max_body: int, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._loop = loop
        self._max_body = max_body
        self._now = now
        self._moments: Moments | None = None
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[HttpReply] | None = None
        self._buffer = bytearray()
        self._head: tuple[int, dict[str, str]] | None = None
        self._length = 0
        self.idle_since = 0.0

    @property
    def usable(self) -> bool:
        """Whether another request can be sent on the connection."""
        return self._transport is not None and not self._transport.is_closing()

    async def exchange(self, request: bytes, moments: Moments | None = None) -> HttpReply:
        """Send a request and wait for its response; cancelling this closes the connection.

        Args:
            moments: where to note the moments of the exchange; None for nowhere.

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
        self._transport.write(request)
        if moments is not None:
            moments.sent = self._now()
        try:
            return await waiter
        except asyncio.CancelledError:
            self.cut()
            raise
        finally:
            self._waiter = self._moments = None
            del waiter  # the future holds its error, whose traceback holds this frame

    def cut(self) -> None:
        """Close immediately and discard data that was not sent yet."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop."""
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the loop."""
        self._transport = None
        self._fail(
            BrokenReplyError(f"the connection was closed: {exc}" if exc else "the connection was closed")
        )

    def data_received(self, data: bytes) -> None:
        """Called by the loop."""
        if self._waiter is None or self._waiter.done():  # unexpected data: no request is waiting for it
            self.cut()
            return
        if self._moments is not None and not self._moments.first_byte:
            self._moments.first_byte = self._now()
        try:
            if self._buffer:
                self._buffer += data
                self._read(self._buffer)
            else:
                self._read(data)
        except BadHeadError as error:
            self._fail(BrokenReplyError(str(error)))
            self.cut()
        except (BrokenReplyError, UnreadReplyError, OverloadError) as error:
            self._fail(error)
            self.cut()

    def _read(self, data: bytes | bytearray) -> None:
        """Parse on; `data` is all data that was received and not consumed yet."""
        if self._head is None:
            head = self._read_head(data)
            if head is None:
                self._keep(data)
                return
            status, headers, start = head
            if status < FINAL:
                raise BrokenReplyError(f"not an answer but an interim response: {status}")
            self._head = status, headers
            self._length = _length_of(status, headers, self._max_body)
            self._hold(self._length)
            data = data[start:]
        if len(data) < self._length:
            self._keep(data)
            return
        if len(data) > self._length:
            raise BrokenReplyError("more data than its Content-Length")
        self._finish(bytes(data))  # copied before the buffer, which may be the same object, is cleared

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

    def _finish(self, body: bytes) -> None:
        """Hand the whole response to the waiting exchange."""
        assert self._head is not None
        status, headers = self._head
        self._head = None
        self._buffer.clear()
        if self._transport is not None and headers.get("connection", "").lower() == "close":
            self._transport.close()
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(HttpReply(status, headers, body))

    def _keep(self, data: bytes | bytearray) -> None:
        if data is not self._buffer:
            self._buffer = bytearray(data)

    def _hold(self, count: int) -> None:
        """Charge bytes of the answer to its request."""
        if self._moments is not None:
            self._moments.hold(count)

    def _fail(self, error: Exception) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(error)


def _length_of(status: int, headers: dict[str, str], most: int) -> int:
    """Content-Length of a response, bytes.

    Raises:
        UnreadReplyError: the length is above the limit, or missing.
        BadHeadError: the length is not a number.
    """
    length = read_length(headers)
    if length is None or "transfer-encoding" in headers:
        raise UnreadReplyError(
            "the answer does not say how long it is", status=status, headers=headers, too_long=False
        )
    if length > most:
        raise UnreadReplyError(
            f"the answer is {length} bytes long; at most {most} are taken",
            status=status,
            headers=headers,
            too_long=True,
        )
    return length


class Pool:
    """Connections to many servers, kept for a while after use.

    Args:
        max_body: longest body of a response, bytes; a longer one is an error.
        idle_s: seconds for which a connection is kept without use; shorter than the server keeps it.
        now: monotonic clock, seconds.
        tls: certificates for connections over TLS; None for connections without.
    """

    def __init__(
        self,
        *,
        max_body: int,
        idle_s: float = IDLE_S,
        connection: type[Connection] = Connection,
        now: Callable[[], float] = time.monotonic,
        tls: Certificates | OutsideTls | None = None,
    ) -> None:
        self._tls = tls
        self._max_body = max_body
        self._idle_s = idle_s
        self._connection = connection
        self._now = now
        self._loop = asyncio.get_running_loop()
        self._idle: dict[tuple[str, int], deque[Connection]] = {}
        self._busy: set[Connection] = set()
        self._sweeper: asyncio.TimerHandle | None = None
        self._closed = False

    async def exchange(
        self, place: tuple[str, int], request: bytes, moments: Moments | None = None
    ) -> HttpReply:
        """Send a request to a host and port, on a connection that no other exchange is using.

        Args:
            moments: where to note the moments of the exchange; None for nowhere.

        Raises:
            NoConnectionError: nothing was sent.
            BrokenReplyError, UnreadReplyError: see `Connection.exchange`.
        """
        connection = self._take(place)
        if connection is None:
            connection = await self._connect(place)
        self._busy.add(connection)
        try:
            return await connection.exchange(request, moments)
        finally:
            self._busy.discard(connection)
            if connection.usable:
                self._give_back(place, connection)

    def _take(self, place: tuple[str, int]) -> Connection | None:
        """Take the most recently used open connection, so that the others can expire."""
        idle = self._idle.get(place)
        oldest = self._loop.time() - self._idle_s
        while idle:
            connection = idle.pop()
            if connection.usable and connection.idle_since > oldest:
                return connection
            connection.cut()
        return None

    async def _connect(self, place: tuple[str, int]) -> Connection:
        try:
            async with asyncio.timeout(CONNECT_S):
                if self._tls is None:
                    _, connection = await self._loop.create_connection(self._new, *place)
                else:
                    _, connection = await self._loop.create_connection(
                        self._new,
                        *place,
                        ssl=self._tls.client,
                        server_hostname=self._tls.name or place[0],
                    )
        except TimeoutError:
            raise NoConnectionError(f"no connection within {CONNECT_S:g} s") from None
        except OSError as error:
            raise NoConnectionError(error.strerror or str(error)) from error
        except UnicodeError as error:  # not a valid host name
            raise NoConnectionError(f"{place[0][:80]!r} is not a host name") from error
        return connection

    def _new(self) -> Connection:
        return self._connection(self._loop, self._max_body, self._now)

    def _give_back(self, place: tuple[str, int], connection: Connection) -> None:
        if self._closed:
            connection.cut()
            return
        connection.idle_since = self._loop.time()
        idle = self._idle.get(place)
        if idle is None:
            idle = self._idle[place] = deque()
        idle.append(connection)
        if self._sweeper is None:
            self._sweeper = self._loop.call_later(self._idle_s, self._sweep)

    def _sweep(self) -> None:
        """Close connections that have been idle for too long."""
        self._sweeper = None
        oldest = self._loop.time() - self._idle_s
        for place, idle in list(self._idle.items()):
            while idle and (idle[0].idle_since <= oldest or not idle[0].usable):
                idle.popleft().cut()
            if not idle:
                del self._idle[place]
        if self._idle:
            self._sweeper = self._loop.call_later(self._idle_s, self._sweep)

    async def close(self) -> None:
        """Close every connection."""
        self._closed = True
        if self._sweeper is not None:
            self._sweeper.cancel()
        for connection in [*self._busy, *(one for idle in self._idle.values() for one in idle)]:
            connection.cut()
        self._idle.clear()
        await asyncio.sleep(0)  # the loop closes the sockets in its next iteration
