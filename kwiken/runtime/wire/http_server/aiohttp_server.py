"""aiohttp server that closes slow or idle clients, and caps open connections and buffered bytes."""

from __future__ import annotations

import asyncio
import enum
import functools
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple, cast

import msgspec
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from kwiken.runtime.base.errors import OverloadError
from kwiken.runtime.base.log_events import Event, about
from kwiken.runtime.wire.http_server.acceptor import ConnectionLimit, max_connections, max_lingering
from kwiken.runtime.wire.http_server.byte_budget import ByteBudget, HeldBytes
from kwiken.runtime.wire.http_server.half_close import DisconnectCheck
from kwiken.runtime.wire.http_server.json_response import NO_ROOM, JsonResponse
from kwiken.runtime.wire.http_server.last_answers import LastAnswers
from kwiken.runtime.wire.http_server.quick_door import QuickConnection, QuickDoor
from kwiken.runtime.wire.http_server.send_progress import HIGH_WATER, SEND_S, SendProgress
from kwiken.runtime.wire.tls.handshakes import is_tls
from kwiken.runtime.wire.transport.peer_reader import BYTES_PER_ITEM, SHARE, turn_of

LOG = logging.getLogger("kwiken.http")
FULL: Final = msgspec.json.encode({"error": "too many connections; try again later"})
FULL_ANSWER: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Type: application/json\r\n"
    b"Connection: close\r\nContent-Length: %d\r\n\r\n%b" % (len(FULL), FULL)
)
RETRY_S: Final = 1.0
MAX_REASON: Final = 200
SHARE_BYTES: Final = 1 << 10  # bytes with as many chunks as a share of a turn has


class ClientTimeouts(NamedTuple):
    """Timeouts for the clients of a server, seconds.

    Attributes:
        head_s: longest time for the rest of a request's head.
        idle_s: longest time until the next request.
        send_s: longest time in which a client reads nothing of its answers.
        sweep_s: interval of the checks, by which each timeout may be exceeded.
    """

    head_s: float = 10.0
    body_s: float = 30.0
    idle_s: float = 75.0
    send_s: float = SEND_S
    sweep_s: float = 5.0


EXPECTED: Final = "100-continue"
CHUNKED: Final = "chunked"


class Awaited(enum.Enum):
    """Data for which a connection waits: the next request, the rest of a head, or a body."""

    IDLE = enum.auto()
    HEAD = enum.auto()
    BODY = enum.auto()


class ClientConnection(web.RequestHandler):
    """Connection of one client: the state and start of its wait, and the number of bytes it holds.

    Attributes:
        lacks_room: whether the byte budget has no room for the body of the present request.
    """

    __slots__ = (
        "_body",
        "_check",
        "_dropped",
        "_ended",
        "_held",
        "_interim",
        "_late",
        "_queued",
        "_sending",
        "_since",
        "_size",
        "_turn",
        "_waits",
        "_wants_more",
        "lacks_room",
    )

    def __init__(
        self, server: GatewayWebServer, *, budget: ByteBudget, send_s: float, **settings: Any
    ) -> None:
        super().__init__(server, **settings)
        self._held = HeldBytes(budget)
        self._sending = SendProgress(send_s)
        self._ended = False
        self._interim = False
        self._check: DisconnectCheck | None = None
        self._body: Any = None
        self._size = 0
        self._dropped: Any = None
        self._turn = turn_of(asyncio.get_running_loop())
        self._late = b""  # bytes that wait for their turn, and are held
        self._wants_more = True
        self._queued = False
        self.lacks_room = False
        self._wait_for(Awaited.IDLE)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop."""
        super().connection_made(transport)
        cast("asyncio.WriteTransport", transport).set_write_buffer_limits(HIGH_WATER)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Called by the loop."""
        self._settle_check()
        self._held.release()
        self._dropped = None
        self._late = b""
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Called by the loop, and by the base class with no data to parse what it has kept."""
        if not data:
            super().data_received(data)
            return
        if self._waits is Awaited.IDLE:
            self._wait_for(Awaited.HEAD)
        if not self._has_room(len(data)):
            if self.transport is not None:
                self.transport.abort()
        elif self._late or self._turn.left <= 0 or self._share_of(data) < len(data):
            self._late += data
            if len(self._late) == len(data):
                self._wait_for_turn()
        else:
            self._parse(data)

    def _share_of(self, data: bytes) -> int:
        """Bytes that may be parsed at once: lines of heads and of chunks cost more than bytes of a body."""
        body = self._body
        whole = body is not None and not body.is_eof() and len(data) <= self._size - body.total_bytes
        return len(data) if whole or data.count(b"\n") <= SHARE else SHARE_BYTES

    def _parse(self, data: bytes) -> None:
        self._turn.spend(1 + data.count(b"\n", 0, SHARE_BYTES) + len(data) // BYTES_PER_ITEM)
        super().data_received(data)

    def _wait_for_turn(self) -> None:
        """Read no more until what has come is parsed."""
        if self.transport is not None:
            self.transport.pause_reading()
        if not self._queued:
            self._queued = True
            self._turn.wait(self._go_on)

    def _go_on(self) -> None:
        """Parse a share of what waits for its turn."""
        self._queued = False
        late = self._late
        if not late or not self._wants_more:  # the connection was lost, or a body waits to be read
            return
        size = self._share_of(late)
        self._late = late[size:]
        self._parse(late[:size])
        if self._late:
            self._wait_for_turn()
        elif self._wants_more:
            super().resume_reading()

    def pause_reading(self) -> None:
        """Called by the base class: enough of a body waits to be read."""
        self._wants_more = False
        super().pause_reading()

    def resume_reading(self, resume_parser: bool = True) -> None:  # noqa: FBT001, FBT002 - as in the base class
        """Called by the base class: more of a body is wanted."""
        self._wants_more = True
        super().resume_reading(resume_parser)
        if self._late:
            self._wait_for_turn()

    def eof_received(self) -> bool:  # type: ignore[override]  # of no use to the base class
        """Called by the loop; complete requests are answered before the connection is closed."""
        if is_tls(self.transport):
            return False
        last = self._messages[-1][1] if self._messages else self._body
        if last is None and not self._request_in_progress:
            return False  # the connection was idle
        if last is not None and not last.is_eof():
            return False  # the request stays incomplete
        self._ended = True
        if self._body is not None:
            self._begin_check()
        if not self._messages:
            self.close()  # after the answer
        return True

    def begin(self, body: Any, *, size: int, interim: bool) -> None:
        """Begin to answer a request whose head has arrived; its body may still be on its way.

        Args:
            size: length of the body, bytes; 0 if the head does not state it.
            interim: whether the client's version of HTTP has interim responses.
        """
        self._body = body
        self._size = size
        self._interim = interim
        self._wait_for(Awaited.BODY)
        if self._ended:
            self._begin_check()
            if not self._messages:
                self.close()

    def rest(self) -> None:
        """End the answer of a request; the unread rest of its body is dropped."""
        self._settle_check()
        body, self._body = self._body, None
        # A body references its connection: a body that was read to its end, or is lost, is released.
        self._dropped = body if self.transport is not None and not body.is_eof() else None
        self.lacks_room = False
        ahead = self._messages if self.transport is not None else ()  # requests that were sent ahead
        self._held.hold(len(self._late) + sum(payload.total_bytes for _, payload in ahead))
        self._wait_for(Awaited.IDLE)

    async def finish_response(self, request: Any, resp: Any, start_time: float | None) -> Any:
        """Send a response; its bytes are held until the client has read nearly all of them."""
        body = getattr(resp, "body", None)
        size = len(body) if isinstance(body, bytes | bytearray) else 0
        del body
        if not self._held.add(size):
            size = 0
            resp = JsonResponse(503, NO_ROOM, {"Retry-After": f"{RETRY_S:g}"})
        try:
            return await super().finish_response(request, resp, start_time)
        finally:
            self._held.add(-size)

    def begin_stream(self) -> None:
        """End what must not be sent within a response that takes its time."""
        self._settle_check()
        self._interim = False

    def note_progress(self) -> None:
        """Note that the client has read nearly all of what was sent; called as items are sent one by one."""
        self._sending.restart(self.transport, time.monotonic())

    def _begin_check(self) -> None:
        if self._interim and self._check is None and self.transport is not None:
            self._check = DisconnectCheck(self.transport, asyncio.get_running_loop())

    def _settle_check(self) -> None:
        if self._check is not None:
            self._check.stop()
            self._check = None

    def _has_room(self, count: int) -> bool:
        """Count received bytes; returns whether the connection may continue."""
        if self._dropped is not None:
            if not self._dropped.is_eof():
                return True
            self._dropped = None
        if self._held.add(count):
            return True
        reading = self._waits is Awaited.BODY and not self._body.is_eof()
        if not reading and (self.lacks_room or self._waits is Awaited.BODY):
            return False  # there is no request to answer with an error
        self.lacks_room = True
        return True

    def log_exception(self, *args: Any, **kw: Any) -> None:
        """Called by the base class, for a client's faults as well as for the server's own."""
        error = kw.get("exc_info")
        if isinstance(error, HttpProcessingError):
            reason = " ".join(str(error.message).split())[:MAX_REASON]
            LOG.warning("no HTTP request: %s", reason, extra=about(Event.NOT_HTTP))
        else:
            LOG.error(*args, **kw, extra=about(Event.REQUEST_ERROR))

    def _wait_for(self, what: Awaited) -> None:
        self._waits = what
        self._since = time.monotonic()

    def expire(self, now: float, timeouts: ClientTimeouts) -> None:
        """Close the connection if the client exceeded a timeout; a handler that runs for it is cancelled."""
        stalled = self._sending.is_stalled(self.transport, now)
        if self._waits is Awaited.BODY:
            most = timeouts.body_s if not self._body.is_eof() else None
        else:
            most = timeouts.head_s if self._waits is Awaited.HEAD else timeouts.idle_s
        if (stalled or (most is not None and now - self._since > most)) and self.transport is not None:
            self.transport.abort()


class GatewayWebRequest(web.BaseRequest):
    """Request whose body is read as long as the byte budget has room."""

    async def read(self) -> bytes:
        """Read the whole body.

        Raises:
            HTTPRequestEntityTooLarge: the body is longer than the limit for one body.
            OverloadError: the bodies of all requests together exceed the byte budget.
        """
        caller = self.protocol
        assert isinstance(caller, ClientConnection)
        pieces: list[bytes] = []
        size = 0
        while True:
            if caller.lacks_room:
                raise OverloadError(
                    "too many bytes of requests are held; try again later", retry_after_s=RETRY_S
                )
            piece = await self.content.readany()
            if not piece:
                return b"".join(pieces)
            size += len(piece)
            if size > self.client_max_size:
                raise web.HTTPRequestEntityTooLarge(self.client_max_size, size)
            pieces.append(piece)


class GatewayWebServer(web.Server):
    """Low-level aiohttp server with timeouts and limits for its clients.

    Args:
        most: largest number of connections, 1 or more; None to derive it from the limit of open files.
        max_body: longest request body, bytes.
        budget: budget of the bytes that are held for all clients together.
        keep_alive_s: seconds for which an idle connection stays open.
        quick_path: path whose plain requests do without aiohttp; see `QuickDoor`. None for no such path.
    """

    def __init__(
        self,
        handler: Any,
        *,
        timeouts: ClientTimeouts,
        most: int | None,
        max_body: int,
        budget: ByteBudget,
        keep_alive_s: float,
        quick_path: str | None,
    ) -> None:
        self._events = asyncio.get_running_loop()
        super().__init__(
            functools.partial(_answer, handler),
            request_factory=functools.partial(_request, loop=self._events, max_body=max_body),
            handler_cancellation=True,
        )
        self._settings: dict[str, Any] = {
            "access_log": None,
            "auto_decompress": False,  # a small body could unpack to a huge one
            "keepalive_timeout": keep_alive_s,
            "send_s": timeouts.send_s,
            "logger": LOG,
        }
        self._timeouts = timeouts
        self._budget = budget
        self._most = most or max_connections()
        self._last_answers = LastAnswers(most=max_lingering())
        self._quick = QuickDoor(quick_path, handler, self._new_connection, budget)
        self._sweeper = self._events.call_later(timeouts.sweep_s, self._sweep)

    def connect(self) -> asyncio.Protocol:
        """Create the protocol of a new connection."""
        return ConnectionLimit(self._room, self._last_answers, FULL_ANSWER)

    def _room(self) -> QuickConnection | None:
        if len(self._connections) + len(self._quick.connections) >= self._most:
            return None
        return QuickConnection(self._quick, self._events, self._timeouts.send_s)

    def _new_connection(self) -> ClientConnection:
        return ClientConnection(self, loop=self._events, budget=self._budget, **self._settings)

    def _sweep(self) -> None:
        now = time.monotonic()
        for caller in self.connections:
            if isinstance(caller, ClientConnection):
                caller.expire(now, self._timeouts)
        self._quick.expire(self._events.time(), self._timeouts.idle_s)
        self._sweeper = self._events.call_later(self._timeouts.sweep_s, self._sweep)

    async def shutdown(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - as in the base class
        """Close every connection."""
        self._sweeper.cancel()
        self._last_answers.close()
        await self._quick.shutdown()
        await super().shutdown(timeout)


async def _answer(handler: Callable[[web.BaseRequest], Awaitable[Any]], request: web.BaseRequest) -> Any:
    try:
        headers = request.headers
        if headers.get("Expect", EXPECTED).lower() != EXPECTED:
            return JsonResponse(417, b'{"error":"Expect must be 100-continue"}')
        if headers.get("Transfer-Encoding", CHUNKED).lower() != CHUNKED:
            return JsonResponse(501, b'{"error":"Transfer-Encoding must be chunked, and nothing else"}')
        return await handler(request)
    finally:
        caller = request.protocol
        if isinstance(caller, ClientConnection):
            caller.rest()


def _request(
    message: Any,
    payload: Any,
    protocol: Any,
    writer: Any,
    task: Any,
    *,
    loop: asyncio.AbstractEventLoop,
    max_body: int,
) -> GatewayWebRequest:
    stated = message.headers.get("Content-Length", "")
    size = int(stated) if stated.isascii() and stated.isdigit() and not message.chunked else 0
    protocol.begin(payload, size=size, interim=tuple(message.version) >= (1, 1))
    return GatewayWebRequest(message, payload, protocol, writer, task, loop, client_max_size=max_body)
