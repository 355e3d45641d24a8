"""Pool of kept-alive connections to foreign HTTP servers: one request out, one response in, no pipelining.

A general HTTP client costs more for one call than everything else that the gateway does for it.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final

from kwiken.runtime.wire.foreign.http_connection import HttpConnection, HttpReply, Moments, NoConnectionError

CONNECT_S: Final = 1.0


class Pool:
    """Connections to many servers, kept for a while after use.

    Args:
        max_body: longest body of a response, bytes; a longer one is an error.
        idle_s: seconds for which a connection is kept without use; shorter than the server keeps it.
        now: monotonic clock, seconds.
        tls: function that returns the context of the next connection over TLS; None for connections without.
        tls_name: host name that certificates must hold; None for the host that is called.
    """

    def __init__(
        self,
        *,
        max_body: int,
        idle_s: float,
        now: Callable[[], float] = time.monotonic,
        tls: Callable[[], ssl.SSLContext] | None = None,
        tls_name: str | None = None,
    ) -> None:
        self._tls = tls
        self._tls_name = tls_name
        self._max_body = max_body
        self._idle_s = idle_s
        self._now = now
        self._loop = asyncio.get_running_loop()
        self._idle: dict[tuple[str, int], deque[HttpConnection]] = {}
        self._busy: set[HttpConnection] = set()
        self._sweeper: asyncio.TimerHandle | None = None
        self._closed = False

    async def exchange(
        self,
        place: tuple[str, int],
        request: bytes,
        moments: Moments | None = None,
        *,
        streamed: bool = False,
    ) -> HttpReply:
        """Send a request to a host and port, on a connection that no other exchange is using.

        Args:
            moments: where to note the moments of the exchange; None for nowhere.
            streamed: whether the body of a successful response is read as it comes.

        Raises:
            NoConnectionError: nothing was sent.
            BrokenReplyError, UnreadReplyError: see `HttpConnection.exchange`.
        """
        connection = self._take(place)
        if connection is None:
            connection = await self._connect(place)
        self._busy.add(connection)
        reply = None
        try:
            reply = await connection.exchange(request, moments, streamed=streamed)
            return reply
        finally:
            if reply is not None and reply.stream is not None and not reply.stream.ended:
                reply.stream.when_ended = partial(self._release, place, connection)
            else:
                self._release(place, connection)

    def _release(self, place: tuple[str, int], connection: HttpConnection) -> None:
        """Take a connection back whose exchange has ended."""
        self._busy.discard(connection)
        if connection.usable:
            self._give_back(place, connection)

    def _take(self, place: tuple[str, int]) -> HttpConnection | None:
        """Take the most recently used open connection, so that the others can expire."""
        idle = self._idle.get(place)
        oldest = self._loop.time() - self._idle_s
        while idle:
            connection = idle.pop()
            if connection.usable and connection.idle_since > oldest:
                return connection
            connection.cut()
        return None

    async def _connect(self, place: tuple[str, int]) -> HttpConnection:
        try:
            async with asyncio.timeout(CONNECT_S):
                if self._tls is None:
                    _, connection = await self._loop.create_connection(self._new, *place)
                else:
                    _, connection = await self._loop.create_connection(
                        self._new,
                        *place,
                        ssl=self._tls(),
                        server_hostname=self._tls_name or place[0],
                    )
        except TimeoutError:
            raise NoConnectionError(f"no connection within {CONNECT_S:g} s") from None
        except OSError as error:
            raise NoConnectionError(error.strerror or str(error)) from error
        except UnicodeError as error:  # not a valid host name
            raise NoConnectionError(f"{place[0][:80]!r} is not a host name") from error
        return connection

    def _new(self) -> HttpConnection:
        return HttpConnection(self._loop, self._max_body, self._now)

    def _give_back(self, place: tuple[str, int], connection: HttpConnection) -> None:
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
