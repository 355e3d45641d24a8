"""Bodies of HTTP responses that are read as they come, with a bound on what waits for the reader."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

MAX_UNREAD: Final = 64 << 10  # bytes that wait for the reader before its connection reads no more
LEAVE_S: Final = 1.0  # seconds for the rest of a body behind its end mark


class BodyConnection(Protocol):
    """What a stream needs of the connection that its body comes by."""

    def read_on(self, *, wanted: bool) -> None:
        """Read more of the peer, or leave it unread."""

    def cut(self) -> None:
        """Close immediately."""


class BodyStream:
    """Body of one response as it comes; one reader.

    Attributes:
        unread: bytes that wait for the reader.
        held: bytes that were charged to the request as they came; the reader takes off what it releases.
        ended: whether all has come, or the connection was lost.
        is_over: whether the reader needs no more of the body.
        when_ended: called at the end, when the connection may be used again; None for nothing.
    """

    def __init__(self, connection: BodyConnection) -> None:
        self._connection = connection
        self._error: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._leaving: asyncio.TimerHandle | None = None
        self.unread = bytearray()
        self.held = 0
        self.ended = False
        self.is_over = False
        self.when_ended: Callable[[], None] | None = None

    # Its connection.

    def add(self, data: bytearray) -> None:
        """Add bytes that have come, which are charged already."""
        self.unread += data
        self.held += 0 if self.is_over else len(data)
        self._wake()

    def end(self, error: Exception | None) -> None:
        """End the body, with an error if it has broken off."""
        self.ended, self._error = True, error
        if self._leaving is not None:
            self._leaving.cancel()
        if self.when_ended is not None:
            when_ended, self.when_ended = self.when_ended, None
            when_ended()
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # Its reader.

    async def take(self, most: int) -> bytes:
        """Wait for bytes, and take up to so many; none at the end of a whole body.

        Bytes that are there already are taken in the next turn of the loop, so that a reader that is fed
        faster than it reads leaves turns to others.

        Raises:
            BrokenReplyError: the body broke off; all before was taken.
            OverloadError: the budget of held bytes has no room for more.
        """
        if self.unread:
            await asyncio.sleep(0)
        while not self.unread:
            if self._error is not None:
                error, self._error = self._error, None
                try:
                    raise error
                finally:
                    del error  # its traceback holds this frame
            if self.ended:
                return b""
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        data = bytes(self.unread[:most])
        del self.unread[:most]
        if len(self.unread) < MAX_UNREAD and not self.ended:
            self._connection.read_on(wanted=True)
        return data

    def leave(self) -> None:
        """Need no more: the connection is kept if the rest of the body is short and comes soon."""
        self.is_over = True
        self.unread.clear()
        if not self.ended:
            self._connection.read_on(wanted=True)
            self._leaving = asyncio.get_running_loop().call_later(LEAVE_S, self._connection.cut)

    def cancel(self) -> None:
        """Close the connection, if the body has not ended, which cancels the call at the server."""
        self.is_over = True
        self.unread.clear()
        if not self.ended:
            self._connection.cut()
