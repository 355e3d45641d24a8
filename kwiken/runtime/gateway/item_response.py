"""Response of a service that streams: items as server-sent events, or as lines of JSON.

The head is sent with the first item, so that a request that fails before has the status of its error. What
happens later is told in the stream: its last event or line says that it ended, or why it broke off.
The bytes that the client has to read are those of the items that the engine holds for the request.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import msgspec
from aiohttp import web

from kwiken.runtime.engine.executor import Answer
from kwiken.runtime.engine.timing import timing_of
from kwiken.runtime.wire.http_server.aiohttp_server import ClientConnection

EVENTS: Final = "text/event-stream"
LINES: Final = "application/x-ndjson"


class ItemResponse:
    """Stream of items to one client.

    Args:
        request: request that it answers.

    Attributes:
        response: response for the server; its head is sent once it `has_begun`.
    """

    def __init__(self, request: web.BaseRequest) -> None:
        self._request = request
        self._encode = msgspec.json.Encoder().encode
        self._count = 0
        self._as_events = EVENTS in request.headers.get("Accept", "").lower()
        kind = EVENTS if self._as_events else LINES
        # Proxies hold responses back until they have some kilobytes, unless they are told not to.
        headers = {"Content-Type": kind, "Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        self.response = web.StreamResponse(headers=headers)

    @property
    def has_begun(self) -> bool:
        """Whether the head was sent."""
        return self.response.prepared

    async def deliver(self, items: list[Any]) -> None:
        """Send items, and wait until the client has read nearly all of them.

        Raises:
            CancelledError: the client has gone.
        """
        encode = self._encode
        if self._as_events:
            data = b"".join([b"data: %b\n\n" % encode(item) for item in items])
        else:
            data = b"".join([b'{"item":%b}\n' % encode(item) for item in items])
        self._count += len(items)
        await self._send(data)

    async def end(self, answer: Answer, *, timing: bool) -> None:
        """Say that the stream is complete.

        Args:
            timing: whether the client asked where the time went.
        """
        said: dict[str, Any] = {"items": self._count}
        if answer.partial:
            said |= {"partial": True, "utility": round(answer.utility, 6)}
        if timing and answer.record is not None:
            said["timing"] = timing_of(answer.record)
        data = self._encode(said)
        await self._send(b"event: end\ndata: %b\n\n" % data if self._as_events else b'{"end":%b}\n' % data)

    async def fail(self, reason: str) -> None:
        """Say that the stream broke off; `reason` is the error's message."""
        data = self._encode({"error": reason, "items": self._count})
        await self._send(b"event: error\ndata: %b\n\n" % data if self._as_events else data + b"\n")

    async def _send(self, data: bytes) -> None:
        connection, response = self._request.protocol, self.response
        assert isinstance(connection, ClientConnection)
        try:
            if not response.prepared:
                connection.begin_stream()
                await response.prepare(self._request)
            await response.write(data)
            await self._request.writer.drain()
        except ConnectionError:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()  # as the server does when it notices that the client has gone
            await asyncio.sleep(0)
        connection.note_progress()
