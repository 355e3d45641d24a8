"""A bare HTTP server: binds, counts, drains and stops; what it answers is its handler's business.

aiohttp's low-level server is used without its application layer: routing tables, middlewares and access log
cost more than the whole of what a call needs here.
"""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from aiohttp import web

from kwiken.runtime.http_server.acceptor import Acceptor, listen
from kwiken.runtime.http_server.aiohttp_server import ClientTimeouts, FrontServer
from kwiken.runtime.http_server.byte_budget import GATEWAY_SHARE, ByteBudget, share_of_memory
from kwiken.runtime.http_server.http1_server import KEEP_ALIVE_S
from kwiken.runtime.transport import MAX_BODY

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

CUT_S: Final = 0.02  # aiohttp takes 0 for no bound at all


class Listener:
    """An HTTP server on one port.

    Args:
        handler: answers requests; is cancelled when the caller hangs up.
        host: address to bind to.
        port: 0 for any that is free.
        max_body: bytes; a longer request body is answered with 413.
        timeouts: with callers who keep it waiting.
        most: callers at once; None for as many as files may be open, up to a bound.
        sockets: that listen already, used instead of host and port; none for new ones.
        budget: of the bytes that all requests together hold; None for a share of the memory.
    """

    def __init__(
        self,
        handler: Handler,
        *,
        host: str,
        port: int,
        max_body: int = MAX_BODY,
        timeouts: ClientTimeouts = ClientTimeouts(),  # noqa: B008 - a tuple
        most: int | None = None,
        sockets: Sequence[socket.socket] = (),
        budget: ByteBudget | None = None,
    ) -> None:
        self._handler = handler
        self._host = host
        self._port = port
        self._max_body = max_body
        self._timeouts = timeouts
        self._most = most
        self._sockets = sockets
        self._budget = budget if budget is not None else ByteBudget(share_of_memory(GATEWAY_SHARE))
        self._web: FrontServer | None = None
        self._acceptor: Acceptor | None = None

    @property
    def port(self) -> int:
        """The port bound to."""
        return self._port

    @property
    def url(self) -> str:
        """Where to reach it."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._port}"

    async def start(self) -> None:
        """Bind and listen.

        Raises:
            InputError: when the address cannot be bound to.
        """
        sockets = self._sockets or listen(self._host, self._port)
        self._web = FrontServer(
            self._handler,
            timeouts=self._timeouts,
            most=self._most,
            max_body=self._max_body,
            budget=self._budget,
            keep_alive_s=KEEP_ALIVE_S,
        )
        self._acceptor = Acceptor(sockets, self._web.connect)
        self._port = self._acceptor.port

    def stop_accepting(self) -> None:
        """Take no new connections; those that are open go on."""
        if self._acceptor is not None:
            self._acceptor.close()

    async def stop(self) -> None:
        """Close everything; whatever still runs is cancelled."""
        self.stop_accepting()
        if self._web is not None:
            await self._web.shutdown(CUT_S)
            self._web = None
