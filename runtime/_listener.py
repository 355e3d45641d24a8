"""A bare HTTP server: binds, counts, drains and stops; what it answers is its handler's business.

aiohttp's low-level server is used without its application layer: routing tables, middlewares and access log
cost more than the whole of what a call needs here.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable
from typing import Any, Final

from aiohttp import web

from kwiken import InputError
from runtime._call_server import BACKLOG, KEEP_ALIVE_S, why_not
from runtime._wire import MAX_BODY

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

CUT_S: Final = 0.02  # aiohttp takes 0 for no bound at all


class Listener:
    """An HTTP server on one port.

    Args:
        handler: answers requests; is cancelled when the caller hangs up.
        host: address to bind to.
        port: 0 for any that is free.
        max_body: bytes; a longer request body is answered with 413.
    """

    def __init__(self, handler: Handler, *, host: str, port: int, max_body: int = MAX_BODY) -> None:
        self._handler = handler
        self._host = host
        self._port = port
        self._max_body = max_body
        self._web: web.Server | None = None
        self._server: asyncio.Server | None = None

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
        loop = asyncio.get_running_loop()
        self._web = web.Server(
            self._handler,
            request_factory=functools.partial(_request, loop=loop, max_body=self._max_body),
            handler_cancellation=True,
            access_log=None,
            auto_decompress=False,  # a small body could unpack to a huge one
            keepalive_timeout=KEEP_ALIVE_S,
        )
        try:
            self._server = await loop.create_server(self._web, self._host, self._port, backlog=BACKLOG)
        except OSError as error:
            raise InputError(why_not(error), where=f"{self._host}:{self._port}") from error
        self._port = self._server.sockets[0].getsockname()[1]

    def stop_accepting(self) -> None:
        """Take no new connections; those that are open go on."""
        if self._server is not None:
            self._server.close()

    async def stop(self) -> None:
        """Close everything; whatever still runs is cancelled."""
        self.stop_accepting()
        if self._web is not None:
            await self._web.shutdown(CUT_S)
            self._web = None


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
    return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=max_body)
