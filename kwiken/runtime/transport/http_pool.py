"""Kept-alive HTTP/1.1 connections for calls: one request out, one answer in, nothing in between.

A general client costs more for one call than everything else that the gateway does for it. This one knows a
single form of answer, a head and a body of told length, and takes any other for an error.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from typing import Final, NamedTuple, cast

from kwiken.runtime.transport.http_head import BadHeadError, read_length, split_head

CONNECT_S: Final = 1.0
# Shorter than a replica keeps an idle connection, so that no call is sent into one that is being closed.
IDLE_S: Final = 15.0

BEGINNING: Final = b"HTTP/1."

_STATUS = re.compile(r"HTTP/1\.([01]) ([2-5][0-9]{2})(?: .*)?\Z")


class NoConnectionError(Exception):
    """No connection could be made; nothing was sent."""


class BrokenReplyError(Exception):
    """The answer broke off, or is no HTTP answer of a kind that is known here."""


class UnreadReplyError(Exception):
    """The answer's body was not read: it is longer than is taken, or does not say how long it is.

    Attributes:
        status: the answer's.
        headers: the answer's, names in lower case.
        too_long: whether it says its length, which is more than is taken.
    """

    def __init__(self, message: str, *, status: int, headers: dict[str, str], too_long: bool) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers
        self.too_long = too_long


class HttpReply(NamedTuple):
    """An answer.

    Attributes:
        status: its status.
        headers: names in lower case; of a repeated one the last.
        body: as it came.
    """

    status: int
    headers: dict[str, str]
    body: bytes


class Connection(asyncio.Protocol):
    """One connection; one exchange at a time.

    Args:
        max_body: bytes; a longer answer is an error.
    """

    __slots__ = ("_buffer", "_head", "_length", "_loop", "_max_body", "_transport", "_waiter", "idle_since")

    def __init__(self, loop: asyncio.AbstractEventLoop, max_body: int) -> None:
        self._loop = loop
        self._max_body = max_body
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[HttpReply] | None = None
        self._buffer = bytearray()
        self._head: tuple[int, dict[str, str]] | None = None
        self._length = 0
        self.idle_since = 0.0

    @property
    def usable(self) -> bool:
        """Whether another request can be sent on it."""
        return self._transport is not None and not self._transport.is_closing()

    async def exchange(self, request: bytes) -> HttpReply:
        """Send a request and wait for its answer; when this is cancelled, the connection is cut.

        Raises:
            NoConnectionError: it was closed before; nothing was sent.
            BrokenReplyError: no whole answer came.
            UnreadReplyError: an answer came whose body is not read.
        """
        if self._transport is None or self._transport.is_closing():
            raise NoConnectionError("the connection was closed before anything was sent")
        waiter: asyncio.Future[HttpReply] = self._loop.create_future()
        self._waiter = waiter
        self._transport.write(request)
        try:
            return await waiter
        except asyncio.CancelledError:
            self.cut()
            raise
        finally:
            self._waiter = None
            del waiter  # holds its error, whose traceback holds this frame

    def cut(self) -> None:
        """Close at once; what was not sent yet never is."""
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
        if self._waiter is None or self._waiter.done():  # nobody asked, or more came than was asked for
            self.cut()
            return
        try:
            if self._buffer:
                self._buffer += data
                self._read(self._buffer)
            else:
                self._read(data)
        except BadHeadError as error:
            self._fail(BrokenReplyError(str(error)))
            self.cut()
        except (BrokenReplyError, UnreadReplyError) as error:
            self._fail(error)
            self.cut()

    def _read(self, data: bytes | bytearray) -> None:
        """Read on; `data` is all that has come and was not taken off yet."""
        if self._head is None:
            split = split_head(data)
            if split is None:
                if not BEGINNING.startswith(data[: len(BEGINNING)]):  # do not wait for the rest
                    raise BrokenReplyError(f"no HTTP answer: {bytes(data[:80])!r}")
                self._keep(data)
                return
            first, headers, start = split
            match = _STATUS.match(first)
            if match is None:
                raise BrokenReplyError(f"no HTTP answer: {first[:80]!r}")
            if match[1] == "0":
                headers["connection"] = "close"
            self._head = int(match[2]), headers
            self._length = _length_of(int(match[2]), headers, self._max_body)
            data = data[start:]
        if len(data) < self._length:
            self._keep(data)
            return
        if len(data) > self._length:
            raise BrokenReplyError("more came than was told")
        status, headers = self._head
        body = bytes(data)  # before the buffer is emptied: it may be the same
        self._head = None
        self._buffer.clear()
        if self._transport is not None and headers.get("connection", "").lower() == "close":
            self._transport.close()
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(HttpReply(status, headers, body))

    def _keep(self, data: bytes | bytearray) -> None:
        if data is not self._buffer:
            self._buffer = bytearray(data)

    def _fail(self, error: Exception) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(error)


def _length_of(status: int, headers: dict[str, str], most: int) -> int:
    """The told length of the body.

    Raises:
        UnreadReplyError: when it is more than the most that is taken, or not told.
        BadHeadError: when it is no number.
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
    """Connections to many places, kept for a while after use.

    Args:
        max_body: bytes; a longer answer is an error.
    """

    def __init__(self, *, max_body: int) -> None:
        self._max_body = max_body
        self._loop = asyncio.get_running_loop()
        self._idle: dict[tuple[str, int], deque[Connection]] = {}
        self._busy: set[Connection] = set()
        self._sweeper: asyncio.TimerHandle | None = None
        self._closed = False

    async def exchange(self, place: tuple[str, int], request: bytes) -> HttpReply:
        """Send a request to a host and port on a connection of its own.

        Raises:
            NoConnectionError: nothing was sent.
            BrokenReplyError, UnreadReplyError: see `Connection.exchange`.
        """
        connection = self._take(place)
        if connection is None:
            connection = await self._connect(place)
        self._busy.add(connection)
        try:
            return await connection.exchange(request)
        finally:
            self._busy.discard(connection)
            if connection.usable:
                self._give_back(place, connection)

    def _take(self, place: tuple[str, int]) -> Connection | None:
        """The connection used last, if any that is open: the others may grow old."""
        idle = self._idle.get(place)
        oldest = self._loop.time() - IDLE_S
        while idle:
            connection = idle.pop()
            if connection.usable and connection.idle_since > oldest:
                return connection
            connection.cut()
        return None

    async def _connect(self, place: tuple[str, int]) -> Connection:
        try:
            async with asyncio.timeout(CONNECT_S):
                _, connection = await self._loop.create_connection(self._new, *place)
        except TimeoutError:
            raise NoConnectionError(f"no connection within {CONNECT_S:g} s") from None
        except OSError as error:
            raise NoConnectionError(error.strerror or str(error)) from error
        except UnicodeError as error:  # no host has a name of such parts
            raise NoConnectionError(f"{place[0][:80]!r} is no host's name") from error
        return connection

    def _new(self) -> Connection:
        return Connection(self._loop, self._max_body)

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
            self._sweeper = self._loop.call_later(IDLE_S, self._sweep)

    def _sweep(self) -> None:
        """Close what has been idle for long."""
        self._sweeper = None
        oldest = self._loop.time() - IDLE_S
        for place, idle in list(self._idle.items()):
            while idle and (idle[0].idle_since <= oldest or not idle[0].usable):
                idle.popleft().cut()
            if not idle:
                del self._idle[place]
        if self._idle:
            self._sweeper = self._loop.call_later(IDLE_S, self._sweep)

    async def close(self) -> None:
        """Close every connection."""
        self._closed = True
        if self._sweeper is not None:
            self._sweeper.cancel()
        for connection in [*self._busy, *(one for idle in self._idle.values() for one in idle)]:
            connection.cut()
        self._idle.clear()
        await asyncio.sleep(0)  # the loop closes the sockets in its next turn
