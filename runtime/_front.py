"""Callers at the front door: who keeps it waiting is hung up on, and there is room for so many only."""

from __future__ import annotations

import asyncio
import enum
import functools
import logging
import resource
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import msgspec
from aiohttp import web

LOG = logging.getLogger("kwiken.http")
MOST_CALLERS: Final = 4096
SHARE_OF_FILES: Final = 0.8  # the rest is for connections to replicas, and all else
FULL: Final = msgspec.json.encode({"error": "too many connections; come again later"})
FULL_HEAD: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Type: application/json\r\n"
    b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(FULL)
)


class Patience(NamedTuple):
    """How long a caller may keep us waiting, seconds.

    Attributes:
        head_s: for the rest of a request's head.
        body_s: for its body.
        idle_s: for the next request, or for taking the answer to the last one.
        sweep_s: how often callers are looked at, so that each may last for so much longer.
    """

    head_s: float = 10.0
    body_s: float = 30.0
    idle_s: float = 75.0
    sweep_s: float = 5.0


class Waits(enum.Enum):
    """What a connection waits for its caller to do."""

    IDLE = enum.auto()
    HEAD = enum.auto()
    BODY = enum.auto()


class Caller(web.RequestHandler):
    """One caller's connection, and since when it waits for what."""

    __slots__ = ("_body", "_since", "_waits")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop."""
        self.rest()
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Called by the loop."""
        if self._waits is Waits.IDLE:
            self._wait_for(Waits.HEAD)
        super().data_received(data)

    def begin(self, body: Any) -> None:
        """A request's head is there and its body may be; it is being answered."""
        self._body = body
        self._wait_for(Waits.BODY)

    def rest(self) -> None:
        """Nothing is being answered."""
        self._body = None
        self._wait_for(Waits.IDLE)

    def _wait_for(self, what: Waits) -> None:
        self._waits = what
        self._since = time.monotonic()

    def expire(self, now: float, patience: Patience) -> None:
        """Hang up if the caller has taken too long; whatever runs for it is cancelled."""
        if self._waits is Waits.BODY:
            most = patience.body_s if not self._body.is_eof() else None
        else:
            most = patience.head_s if self._waits is Waits.HEAD else patience.idle_s
        if most is not None and now - self._since > most and self.transport is not None:
            self.transport.abort()


class FrontServer(web.Server):
    """A low-level server that looks after its callers.

    Args:
        handler: answers requests.
        patience: with callers.
        most: callers at once; None for as many as files may be open, up to a bound.
        max_body: bytes; a longer body is refused.
    """

    def __init__(
        self, handler: Any, *, patience: Patience, most: int | None, max_body: int, keep_alive_s: float
    ) -> None:
        super().__init__(
            functools.partial(_answer, handler),
            request_factory=functools.partial(_request, loop=asyncio.get_running_loop(), max_body=max_body),
            handler_cancellation=True,
        )
        self._settings: dict[str, Any] = {
            "access_log": None,
            "auto_decompress": False,  # a small body could unpack to a huge one
            "keepalive_timeout": keep_alive_s,
            "logger": _brief_logger(),
        }
        self._patience = patience
        self._most = most or most_callers()
        self._sweeper = self._loop.call_later(patience.sweep_s, self._sweep)
        self.turned_away = 0

    def connect(self) -> asyncio.Protocol:
        """The protocol of a new connection."""
        if len(self._connections) >= self._most:
            self.turned_away += 1
            return Full()
        return Caller(self, loop=self._loop, **self._settings)

    def _sweep(self) -> None:
        now = time.monotonic()
        for caller in self.connections:
            if isinstance(caller, Caller):
                caller.expire(now, self._patience)
        self._sweeper = self._loop.call_later(self._patience.sweep_s, self._sweep)

    async def shutdown(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - as in the base class
        """Close every connection."""
        self._sweeper.cancel()
        await super().shutdown(timeout)


class Full(asyncio.Protocol):
    """Tells a caller at once that there is no room."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop."""
        assert isinstance(transport, asyncio.Transport)
        transport.write(FULL_HEAD + FULL)
        transport.close()


def most_callers() -> int:
    """How many callers can be held at once without running out of files."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return MOST_CALLERS
    return max(1, min(MOST_CALLERS, int(SHARE_OF_FILES * files)))


async def _answer(handler: Callable[[web.BaseRequest], Any], request: web.BaseRequest) -> web.StreamResponse:
    try:
        response: web.StreamResponse = await handler(request)
        return response
    finally:
        caller = request.protocol
        if isinstance(caller, Caller):
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
) -> web.BaseRequest:
    protocol.begin(payload)
    return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=max_body)


class _Brief(logging.Filter):
    """Makes one line of what is logged, and of many only some: anybody may send garbage."""

    EVERY_S = 10.0

    def __init__(self) -> None:
        super().__init__()
        self._next = 0.0
        self._unsaid = 0

    def filter(self, record: logging.LogRecord) -> bool:
        now = time.monotonic()
        if now < self._next:
            self._unsaid += 1
            return False
        error = record.exc_info[1] if record.exc_info else None
        why = f": {' '.join(str(error).split())[:200]}" if error is not None else ""
        more = f" ({self._unsaid} more since the last such line)" if self._unsaid else ""
        record.msg, record.args = f"{record.getMessage()}{why}{more}", ()
        record.exc_info = record.exc_text = None
        self._next = now + self.EVERY_S
        self._unsaid = 0
        return True


def _brief_logger() -> logging.Logger:
    if not any(isinstance(each, _Brief) for each in LOG.filters):
        LOG.addFilter(_Brief())
    return LOG
