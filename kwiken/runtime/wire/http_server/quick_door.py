"""Quick path of the gateway's HTTP server: plain requests are read here, all else goes to aiohttp.

A request is plain if its head and body come in one piece, it is a `POST` of the one path, and none of its
headers asks for more than a body of a stated length. The first bytes that are anything else leave the
connection to aiohttp for good, as they came. Both ways lead to the same handler.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple, cast

from aiohttp.http import HttpVersion11

from kwiken.runtime.base.log_events import Event, about
from kwiken.runtime.wire.http_server.byte_budget import UNCOUNTED_BYTES, ByteBudget, HeldBytes
from kwiken.runtime.wire.http_server.half_close import DisconnectCheck
from kwiken.runtime.wire.http_server.json_response import NO_ROOM, JsonResponse
from kwiken.runtime.wire.http_server.send_progress import HIGH_WATER, SendProgress
from kwiken.runtime.wire.tls.handshakes import is_tls
from kwiken.runtime.wire.transport.http_head import BadHeadError, read_length, split_head
from kwiken.runtime.wire.transport.wire import JSON

LOG = logging.getLogger("kwiken.http")
MAX_PLAIN_HEAD: Final = 8000  # bytes, below what aiohttp takes in one header
# Headers of requests that are not plain, beside `Connection` with another value than its default.
NOT_PLAIN: Final = frozenset({"content-encoding", "expect", "transfer-encoding", "upgrade", "te", "trailer"})


class QuickHeaders(dict[str, str]):
    """Headers, each of which occurs once, by name in any case; names are kept in lower case."""

    def get(self, name: str, default: Any = None) -> Any:
        """Value of a header."""
        return super().get(name.lower(), default)

    def getall(self, name: str, default: Any) -> Any:
        """Values of a header, in order."""
        value = super().get(name.lower())
        return default if value is None else (value,)

    def __contains__(self, name: object) -> bool:
        """Whether a header was sent."""
        return isinstance(name, str) and super().__contains__(name.lower())


class RawTarget(NamedTuple):
    """Target of a request without a query."""

    raw_path: str


class QuickRequest:
    """Plain request, with what handlers of the gateway ask of aiohttp's requests."""

    __slots__ = ("_body", "headers", "rel_url")
    method = "POST"
    version = HttpVersion11
    keep_alive = True
    query_string = ""

    def __init__(self, target: RawTarget, headers: QuickHeaders, body: bytes) -> None:
        self.rel_url = target
        self.headers = headers
        self._body = body

    @property
    def content_length(self) -> int:
        """Length of the body, bytes."""
        return len(self._body)

    async def read(self) -> bytes:
        """Whole body."""
        return self._body


Handler = Callable[[Any], Awaitable[Any]]


class QuickDoor:
    """Quick path of one server, for the connections that it has not left to aiohttp.

    Args:
        path: the path whose requests are read here; None to leave all connections to aiohttp.
        handler: answers a request; cancelled when the client disconnects.
        leave: creates the protocol that a connection is left to.
        budget: budget of the bytes that all requests together hold.
    """

    def __init__(
        self, path: str | None, handler: Handler, leave: Callable[[], asyncio.Protocol], budget: ByteBudget
    ) -> None:
        self.target = RawTarget(path or "")
        self.first_line = b"" if path is None else f"POST {path} HTTP/1.1\r\n".encode()
        self.handler = handler
        self.leave = leave
        self.budget = budget
        self.connections: set[QuickConnection] = set()

    def plain_request(self, data: bytes) -> QuickRequest | None:
        """Request that consists of exactly these bytes, if it is plain."""
        if not (self.first_line and data.startswith(self.first_line)) or len(data) > UNCOUNTED_BYTES:
            return None
        try:
            split = split_head(data)
            if split is None:
                return None
            _, headers, start = split
            length = read_length(headers)
        except BadHeadError:  # aiohttp says what is wrong with it
            return None
        # A header that occurs twice, or has other bytes than ASCII, is for aiohttp to judge.
        once = data.count(b"\r\n", 0, start) == len(headers) + 2
        if (
            start > MAX_PLAIN_HEAD
            or length != len(data) - start
            or not once
            or headers.get("content-type") != JSON
            or headers.get("connection", "keep-alive").lower() != "keep-alive"
            or "host" not in headers
            or not NOT_PLAIN.isdisjoint(headers)
            or not data[:start].isascii()
        ):
            return None
        return QuickRequest(self.target, QuickHeaders(headers), data[start:])

    def expire(self, now: float, idle_s: float) -> None:
        """Close connections of clients that are idle or read nothing too long; `now` by the loop's clock."""
        for connection in list(self.connections):
            connection.expire(now, idle_s)

    async def shutdown(self) -> None:
        """Close every connection, and cancel the handlers."""
        running = [one.task for one in self.connections if one.task is not None]
        for connection in list(self.connections):
            connection.cut()
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


class QuickConnection(asyncio.Protocol):
    """Connection of one client, until it sends anything that is not plain.

    Attributes:
        task: answers the present request; None between requests.
        since: moment at which the wait for the next request began, seconds of the loop's clock.
    """

    __slots__ = (
        *("_ahead", "_check", "_door", "_ended", "_held", "_loop", "_reads", "_sending", "_transport"),
        *("since", "task"),
    )

    def __init__(self, door: QuickDoor, loop: asyncio.AbstractEventLoop, send_s: float) -> None:
        self._door = door
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._ahead = b""
        self._held = HeldBytes(door.budget)  # what was sent ahead, or the answer that the client has to read
        self._reads = True
        self._sending = SendProgress(send_s)
        self._check: DisconnectCheck | None = None
        self._ended = False
        self.task: asyncio.Task[None] | None = None
        self.since = loop.time()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(HIGH_WATER)
        self._door.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the loop; cancels the running request."""
        del exc
        self._forget()
        if self.task is not None:
            self.task.cancel()

    def data_received(self, data: bytes) -> None:
        """Called by the loop."""
        if self.task is not None or not self._reads:
            self._hold(data)
            return
        request = self._door.plain_request(data)
        if request is None:
            self._leave(data)
        else:
            self.task = self._loop.create_task(self._serve(request))

    def eof_received(self) -> bool:
        """Called by the loop; a running request is answered before the connection is closed."""
        if self.task is None or is_tls(self._transport) or self._transport is None:
            return False
        self._ended = True
        self._check = DisconnectCheck(self._transport, self._loop)
        return True

    def expire(self, now: float, idle_s: float) -> None:
        """Close the connection if its client was idle or read nothing for too long."""
        stalled = self._sending.is_stalled(self._transport, now)
        if stalled or (self.task is None and now - self.since > idle_s):
            self.cut()

    def pause_writing(self) -> None:
        """Called by the loop; the next request waits until the client has read the last answer."""
        self._reads = False

    def resume_writing(self) -> None:
        """Called by the loop."""
        self._reads = True
        if self.task is None:
            self._go_on()

    def cut(self) -> None:
        """Close the connection immediately."""
        if self._transport is not None:
            self._transport.abort()

    def _hold(self, data: bytes) -> None:
        """Keep what a client sends ahead, as far as the budget has room, and read no further."""
        if self._transport is None or not self._held.add(len(data)):
            self.cut()
            return
        self._ahead += data
        self._transport.pause_reading()

    def _forget(self) -> None:
        """Detach from the connection, and give back what it holds."""
        self._transport = None
        if self._check is not None:
            self._check.stop()
        self._held.release()
        self._door.connections.discard(self)

    def _leave(self, data: bytes) -> None:
        """Leave the connection to aiohttp, with the bytes that were read."""
        transport = self._transport
        self._forget()
        if transport is not None and not transport.is_closing():
            protocol = self._door.leave()
            transport.set_protocol(protocol)
            protocol.connection_made(transport)
            protocol.data_received(data)
            if self._ended:
                protocol.eof_received()

    async def _serve(self, request: QuickRequest) -> None:
        try:
            response = await self._door.handler(request)
        except asyncio.CancelledError:
            self.task = None  # the task holds its error, whose traceback holds this connection
            self.cut()
            raise
        except Exception:
            LOG.exception("a request failed", extra=about(Event.REQUEST_ERROR))
            response = JsonResponse(500, b"{}", {"Connection": "close"})
        self.task = None
        self.since = self._loop.time()
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if self._check is not None:
            self._check.stop()
        if not self._held.add(len(response.body)):
            response = JsonResponse(503, NO_ROOM, {"Retry-After": "1"})
        for piece in response.encoded(request):
            transport.write(piece)
        if response.headers and response.headers.get("Connection") == "close":
            transport.close()
        elif self._reads:
            self._go_on()

    def _go_on(self) -> None:
        """Go on with what the client has sent ahead, when it has read nearly all of the last answer."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        self._held.release()
        ahead, self._ahead = self._ahead, b""
        if ahead:
            transport.resume_reading()
            self.data_received(ahead)
        elif self._ended:
            transport.close()
