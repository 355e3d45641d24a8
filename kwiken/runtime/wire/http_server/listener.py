"""HTTP server of the gateway: binds, serves, drains and stops.

aiohttp's low-level server is used without its application layer: routing tables, middlewares and access log
would cost more than everything else that a call needs here.
"""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from aiohttp import web

from kwiken.runtime.wire.http_server.acceptor import Acceptor, listen
from kwiken.runtime.wire.http_server.aiohttp_server import ClientTimeouts, GatewayWebServer
from kwiken.runtime.wire.http_server.byte_budget import GATEWAY_SHARE, ByteBudget, share_of_memory
from kwiken.runtime.wire.http_server.http1_server import KEEP_ALIVE_S
from kwiken.runtime.wire.http_server.json_response import GatewayResponse
from kwiken.runtime.wire.tls.certificates import Certificates
from kwiken.runtime.wire.transport.wire import MAX_BODY, REQUEST_PATH

Handler = Callable[[web.BaseRequest], Awaitable[GatewayResponse]]

SHUTDOWN_TIMEOUT_S: Final = 0.02  # shutdown timeout for aiohttp, which takes 0 for no limit


class Listener:
    """HTTP server on one port.

    Args:
        handler: answers requests; cancelled when the client disconnects.
        port: port to bind to; 0 for any free port.
        max_body: longest request body, bytes; a longer one is answered with 413.
        most: largest number of connections, 1 or more; None to derive it from the limit of open files.
        sockets: listening sockets, used instead of host and port; empty to create new ones.
        budget: budget of the bytes that all requests together hold; None for a share of the memory.
        tls: certificates for connections over TLS; None for connections without.
        streams: whether responses are streams, which aiohttp's server sends.
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
        tls: Certificates | None = None,
        streams: bool = False,
    ) -> None:
        self._tls = tls
        self._quick_path = None if streams else REQUEST_PATH
        self._handler = handler
        self._host = host
        self._port = port
        self._max_body = max_body
        self._timeouts = timeouts
        self._most = most
        self._sockets = sockets
        self._budget = budget if budget is not None else ByteBudget(share_of_memory(GATEWAY_SHARE))
        self._web: GatewayWebServer | None = None
        self._acceptor: Acceptor | None = None

    @property
    def port(self) -> int:
        """Port that the server is bound to."""
        return self._port

    @property
    def url(self) -> str:
        """URL of the server."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"{'http' if self._tls is None else 'https'}://{host}:{self._port}"

    async def start(self) -> None:
        """Bind and listen.

        Raises:
            InputError: the address cannot be bound to.
        """
        sockets = self._sockets or listen(self._host, self._port)
        self._web = GatewayWebServer(
            self._handler,
            timeouts=self._timeouts,
            most=self._most,
            max_body=self._max_body,
            budget=self._budget,
            keep_alive_s=KEEP_ALIVE_S,
            quick_path=self._quick_path,
        )
        self._acceptor = Acceptor(sockets, self._web.connect, tls=self._tls)
        self._port = self._acceptor.port

    def stop_accepting(self) -> None:
        """Accept no new connections; open ones continue."""
        if self._acceptor is not None:
            self._acceptor.close()

    async def stop(self) -> None:
        """Close all connections and cancel their handlers."""
        if self._acceptor is not None:
            self._acceptor.abort()
        if self._web is not None:
            await self._web.shutdown(SHUTDOWN_TIMEOUT_S)
            self._web = None
