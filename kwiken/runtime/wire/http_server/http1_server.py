"""Small, strict HTTP/1.1 server for replicas: one request at a time per connection, with Content-Length.

A replica needs no more. The server starts in a third of the time that loading aiohttp takes, and halves the
cost of a call. Other forms of HTTP are answered with a 4xx, and the connection is closed.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple, Protocol, cast

from kwiken.runtime.base.log_events import Event, about
from kwiken.runtime.wire.http_server.acceptor import (
    Acceptor,
    ConnectionLimit,
    listen,
    max_connections,
    max_lingering,
)
from kwiken.runtime.wire.http_server.byte_budget import (
    REPLICA_SHARE,
    ByteBudget,
    HeldBytes,
    share_of_memory,
)
from kwiken.runtime.wire.http_server.half_close import CONTINUE, DisconnectCheck
from kwiken.runtime.wire.http_server.last_answers import LastAnswers
from kwiken.runtime.wire.http_server.send_progress import HIGH_WATER, SendProgress
from kwiken.runtime.wire.tls.certificates import Certificates
from kwiken.runtime.wire.tls.handshakes import is_tls
from kwiken.runtime.wire.transport.http_head import BadHeadError, read_length, split_head

LOG = logging.getLogger("kwiken.replica")
# Longer than the HTTP transport keeps an idle connection, so that the client is the one that closes it: a
# server that closes first can cut a request that is on its way.
KEEP_ALIVE_S: Final = 75.0
# Longest time from the first byte of a request to its last.
REQUEST_TIMEOUT_S: Final = 30.0
SWEEP_S: Final = 10.0  # interval of the checks for timeouts
MAX_JOINED: Final = 64 << 10  # bytes of a body that is written in one piece with its head
MAX_READ_AHEAD: Final = 64 << 10  # bytes that are read ahead while a request runs

# RFC 9112, section 3.2; empty if the target has no authority.
_HOST = re.compile(r"(?:[A-Za-z0-9._~!$&'()*+,;=%-]{0,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{0,5})?\Z")
_FIRST = re.compile(r"([A-Z]{1,20}) (/[\x21-\x7e]{0,4095}) HTTP/1\.([01])\Z")
EXPECTED: Final = "100-continue"
REASONS: Final = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    413: "Content Too Large",
    417: "Expectation Failed",
    421: "Misdirected Request",
    500: "Internal Server Error",
    501: "Not Implemented",
    503: "Service Unavailable",
    504: "Gateway Timeout",
}


class HttpRequest(NamedTuple):
    """Complete request.

    Attributes:
        path: path without the query.
        headers: header values by name in lower case.
        came: arrival of the last byte, seconds of `time.monotonic`.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    came: float


class Response(NamedTuple):
    """Response; `headers` holds complete lines with their line ends. Content-Length is added."""

    status: int
    body: bytes = b""
    headers: str = ""


Handler = Callable[[HttpRequest], Awaitable[Response]]

TEXT: Final = "Content-Type: text/plain\r\n"
FULL: Final = Response(503, b"too many requests at once; try again later", f"Retry-After: 1\r\n{TEXT}")


class RefusedRequestError(Exception):
    """Request that is answered with an error without being run; its connection is closed."""

    def __init__(self, response: Response) -> None:
        super().__init__(response.body)
        self.response = response


def _refused(status: int, message: str) -> RefusedRequestError:
    return RefusedRequestError(Response(status, message.encode(), TEXT))


class OtherConnection(Protocol):
    """Connection whose client began another protocol than HTTP."""

    @property
    def tasks(self) -> list[asyncio.Task[None]]:
        """Tasks of the calls that run."""

    def send_goodbye(self) -> None:
        """Tell the client to send further calls elsewhere."""

    def expire(self, now: float) -> None:
        """Close the connection if its client exceeded a timeout; `now` by the loop's clock."""

    def cut(self) -> None:
        """Close the connection immediately."""


class OtherProtocol(NamedTuple):
    """Protocol beside HTTP at the same port.

    Attributes:
        mark: bytes that a client begins with.
        connection: creates the protocol of a connection, an `OtherConnection`; gets the loop, the byte budget
            and what to call, with the connection, once it is lost.
    """

    mark: bytes
    connection: Callable[[asyncio.AbstractEventLoop, ByteBudget, Callable[[Any], None]], Any]


class CallServer:
    """HTTP/1.1 server on one port.

    Args:
        handler: answers requests; cancelled when the client disconnects.
        port: port to bind to; 0 for any free port.
        max_body: longest request body, bytes; a longer one is answered with 413.
        max_bodies: bytes that may be held for all clients together, without the first 16 KiB of each; None
            for a share of the memory.
        most: largest number of connections, 1 or more; None to derive it from the limit of open files.
        full: response if the limit of connections or of bytes is reached.
        tls: certificates for connections over TLS; None for connections without.
        other: further protocol at the port; None for none.
    """

    def __init__(
        self,
        handler: Handler,
        *,
        host: str,
        port: int,
        max_body: int,
        max_bodies: int | None = None,
        most: int | None = None,
        full: Response = FULL,
        tls: Certificates | None = None,
        other: OtherProtocol | None = None,
    ) -> None:
        self._tls = tls
        self.other = other
        self.handler = handler
        self.max_body = max_body
        self.budget = ByteBudget(max_bodies if max_bodies is not None else share_of_memory(REPLICA_SHARE))
        self.full = full
        self.last_answers = LastAnswers(most=max_lingering())
        self._most = most
        self.closing = False
        self.connections: set[ServerConnection | OtherConnection] = set()
        self._host = host
        self._port = port
        self._acceptor: Acceptor | None = None
        self._sweeper: asyncio.TimerHandle | None = None

    @property
    def url(self) -> str:
        """URL of the server."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._port}"

    async def start(self) -> None:
        """Bind and listen.

        Raises:
            InputError: the address cannot be bound to.
        """
        loop = asyncio.get_running_loop()
        full = b"".join(encoded(self.full, close=True, bodiless=False))
        most = self._most or max_connections()

        def room() -> ServerConnection | None:
            return ServerConnection(self, loop) if len(self.connections) < most else None

        self._acceptor = Acceptor(
            listen(self._host, self._port),
            lambda: ConnectionLimit(room, self.last_answers, full),
            tls=self._tls,
        )
        self._port = self._acceptor.port
        self._sweeper = loop.call_later(SWEEP_S, self._sweep)

    def stop_accepting(self) -> None:
        """Accept no new connections; open ones are closed after their next response."""
        self.closing = True
        if self._acceptor is not None:
            self._acceptor.close()
        for connection in self.connections:
            connection.send_goodbye()

    async def stop(self) -> None:
        """Close all connections and cancel their handlers."""
        self.stop_accepting()
        if self._acceptor is not None:
            self._acceptor.abort()
        if self._sweeper is not None:
            self._sweeper.cancel()
        running = [task for one in self.connections for task in one.tasks]
        self.last_answers.close()
        for connection in list(self.connections):
            connection.cut()
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await asyncio.sleep(0)  # the loop closes the sockets in its next iteration

    def _sweep(self) -> None:
        """Close idle connections, and those whose request stays incomplete."""
        loop = asyncio.get_running_loop()
        for connection in list(self.connections):
            connection.expire(loop.time())
        self._sweeper = loop.call_later(SWEEP_S, self._sweep)


class ServerConnection(asyncio.Protocol):
    """Connection of one client."""

    def __init__(self, server: CallServer, loop: asyncio.AbstractEventLoop) -> None:
        self._server = server
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._running = 0  # bytes of the request that is being answered
        self._unsent = 0  # bytes of the last response, until nearly all of it is sent
        self._held = HeldBytes(server.budget)
        self._sending = SendProgress()
        self._since = loop.time()
        self._continued = False
        self._paused = False
        self._reads = True
        self._ended = False
        self._interim = False
        self._served = False  # whether it has sent a request of HTTP
        self._check: DisconnectCheck | None = None
        self.task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(HIGH_WATER)
        self._server.connections.add(self)

    @property
    def tasks(self) -> list[asyncio.Task[None]]:
        """Task of the request that runs, if any."""
        return [] if self.task is None else [self.task]

    def send_goodbye(self) -> None:
        """Nothing to say: a response closes its connection."""

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the loop; cancels the running request."""
        del exc
        self._leave()
        if self.task is not None:
            self.task.cancel()

    def data_received(self, data: bytes) -> None:
        """Called by the loop."""
        if not self._buffer:
            self._since = self._loop.time()
        self._buffer += data
        other = self._server.other
        if not self._served and other is not None and self._buffer.startswith(other.mark):
            self._hand_over(other)
        elif not self._has_room():
            if self.task is None:
                self._refuse(self._server.full)
            else:
                self.cut()
        elif self.task is None and self._reads:
            self._advance()
        elif len(self._buffer) > MAX_READ_AHEAD and self._transport is not None:
            self._transport.pause_reading()
            self._paused = True

    def _hand_over(self, other: OtherProtocol) -> None:
        """Leave the connection to another protocol."""
        transport, data = self._transport, bytes(self._buffer)
        connections = self._server.connections
        self._leave()
        if transport is not None:
            connection = other.connection(self._loop, self._server.budget, connections.discard)
            connections.add(connection)
            transport.set_protocol(connection)
            connection.connection_made(transport)
            connection.data_received(data)

    def eof_received(self) -> bool:
        """Called by the loop; complete requests are answered before the connection is closed."""
        if self.task is None or is_tls(self._transport):
            return False
        self._ended = True
        self._begin_check()
        return True

    def expire(self, now: float) -> None:
        """Close the connection if it exceeded a timeout."""
        most = REQUEST_TIMEOUT_S if self._buffer else KEEP_ALIVE_S
        stalled = self._sending.is_stalled(self._transport, now)
        if stalled or (self.task is None and now - self._since > most):
            self.cut()

    def cut(self) -> None:
        """Close the connection immediately."""
        if self._transport is not None:
            self._transport.abort()

    def _has_room(self) -> bool:
        """Update the number of bytes held; returns whether the budget has room for them."""
        return self._held.hold(len(self._buffer) + self._running + self._unsent)

    def pause_writing(self) -> None:
        """Called by the loop; the next request waits until the client has read the last answer."""
        self._reads = False

    def resume_writing(self) -> None:
        """Called by the loop."""
        self._reads = True
        self._unsent = 0
        self._has_room()
        if self.task is None:
            self._go_on()

    def _leave(self) -> None:
        """Detach from the connection and give back its bytes."""
        self._transport = None
        self._settle_check()
        self._buffer.clear()
        self._held.release()
        self._server.connections.discard(self)

    def _begin_check(self) -> None:
        if self._interim and self._check is None and self._transport is not None:
            self._check = DisconnectCheck(self._transport, self._loop)

    def _settle_check(self) -> None:
        if self._check is not None:
            self._check.stop()
            self._check = None

    def _advance(self) -> None:
        """Begin the next request, if it is complete."""
        try:
            request, keep = self._next()
        except RefusedRequestError as error:
            self._refuse(error.response)
        else:
            if request is not None:
                self.task = self._loop.create_task(self._serve(request, keep))
                if self._ended:
                    self._begin_check()
            elif self._ended and self._transport is not None:
                self._transport.close()  # the request stays incomplete

    def _next(self) -> tuple[HttpRequest | None, bool]:
        """Next request and whether the connection stays open after it; None if it is incomplete."""
        try:
            split = split_head(self._buffer)
            if split is None:
                return None, True
            first, headers, start = split
            length = read_length(headers) or 0
        except BadHeadError as error:
            raise _refused(400, str(error)) from None
        match = _FIRST.match(first)
        if match is None:
            raise _refused(400, "not an HTTP/1 request")
        self._interim = match[3] == "1"
        if not _HOST.match(headers.get("host", "" if match[3] == "0" else "/")):
            raise _refused(400, "a request must have one Host header with a name or an address")
        if headers.get("expect", EXPECTED).lower() != EXPECTED:
            raise _refused(417, "Expect must be 100-continue")
        if "transfer-encoding" in headers:
            raise _refused(501, "a body must have a Content-Length")
        if length > self._server.max_body:
            raise _refused(413, f"a body may have at most {self._server.max_body} bytes")
        if len(self._buffer) < start + length:
            self._encourage(headers)
            return None, True
        with memoryview(self._buffer) as view:
            body = bytes(view[start : start + length])
        del self._buffer[: start + length]
        self._running = start + length
        self._served = True
        self._continued = False
        keep = match[3] == "1" and "close" not in headers.get("connection", "").lower().replace(
            " ", ""
        ).split(",")
        path = match[2].partition("?")[0]
        return HttpRequest(match[1], path, headers, body, time.monotonic()), keep

    def _encourage(self, headers: Mapping[str, str]) -> None:
        """Send `100 Continue` to a client that waits for it before sending the body."""
        if "expect" in headers and not self._continued:
            self._continued = True
            if self._transport is not None:
                self._transport.write(CONTINUE)

    async def _serve(self, request: HttpRequest, keep: bool) -> None:  # noqa: FBT001 - one call site
        try:
            response = await self._server.handler(request)
        except asyncio.CancelledError:
            if self._transport is None or self._transport.is_closing():
                self.task = None  # the task holds its error, whose traceback holds this connection
                raise
            LOG.error(  # noqa: TRY400 - the traceback says nothing
                "a request cancelled its own task", extra=about(Event.REQUEST_ERROR)
            )
            response, keep = Response(500), False
        except Exception:
            LOG.exception("a request failed", extra=about(Event.REQUEST_ERROR))
            response, keep = Response(500), False
        self.task = None
        self._settle_check()
        if self._transport is None:
            return
        self._running, self._unsent = 0, len(response.body)
        if not self._has_room():
            self._unsent, keep = 0, False
            response = Response(503, b"too many bytes of answers are held", TEXT)
        close = not keep or self._server.closing
        head, body = encoded(response, close=close, bodiless=request.method == "HEAD")
        self._transport.write(head)
        if body:
            self._transport.write(body)
        if close:
            self._transport.close()
        self._since = self._loop.time()
        if self._reads:
            self._unsent = 0
            self._has_room()
            self._go_on()

    def _go_on(self) -> None:
        """Go on with the next request, if the connection stays open."""
        if self._transport is None or self._transport.is_closing():
            return
        if self._paused:
            self._paused = False
            self._transport.resume_reading()
        if self._buffer or self._ended:
            self._advance()

    def _refuse(self, response: Response) -> None:
        """Send an error response and close with a linger: more of the request may be on its way."""
        transport = self._transport
        if transport is not None and not transport.is_closing():
            self._leave()
            self._server.last_answers.send(transport, b"".join(encoded(response, close=True, bodiless=False)))


def encoded(response: Response, *, close: bool, bodiless: bool) -> tuple[bytes, bytes]:
    """Encode a response: its head with a short body, and a long body apart, so that it is not copied.

    Args:
        close: whether the connection is closed after it.
        bodiless: whether to leave out the body, as for HEAD.
    """
    status, body, headers = response
    head = (
        f"HTTP/1.1 {status} {REASONS[status]}\r\nContent-Length: {len(body)}\r\n{headers}"
        + ("Connection: close\r\n\r\n" if close else "\r\n")
    ).encode("latin-1")
    if bodiless:
        return head, b""
    return (head + body, b"") if len(body) <= MAX_JOINED else (head, body)
