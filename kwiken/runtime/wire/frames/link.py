"""Frame connection on an event loop: the shell that both ends share; what one turn writes leaves together."""

from __future__ import annotations

import asyncio
from typing import Any, Final, Generic, TypeVar

from kwiken.runtime.wire.frames.messages import FrameError
from kwiken.runtime.wire.frames.protocol import FrameEnd
from kwiken.runtime.wire.transport.peer_reader import PeerReader

ITEMS_PER_CALL: Final = 10  # items that take about as long as a call or an answer takes in all
E = TypeVar("E", bound=FrameEnd)


class FrameLink(PeerReader, Generic[E]):
    """One connection: hands bytes to its end of the protocol, and sends what that has to send.

    Args:
        end: state of this side of the connection.

    Attributes:
        heard_at: moment at which the peer was heard last, seconds of the loop's clock.
        paused_at: moment since which the peer takes nothing more; None while it does.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, end: E) -> None:
        super().__init__(loop)
        self.end = end
        self._flushing = False
        self._blocked: dict[int, asyncio.Future[None]] = {}  # by call, who waits until its items are sent
        self.heard_at = loop.time()
        self.paused_at: float | None = None

    @property
    def is_open(self) -> bool:
        """Whether bytes can be sent."""
        return self._transport is not None and not self._transport.is_closing()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop."""
        super().connection_made(transport)
        self.changed()

    def ended(self, error: Exception | None) -> None:
        """The connection was lost."""
        self.lost("the connection was closed" if error is None else f"the connection was closed: {error}")

    def parse(self, data: bytes, most: int) -> int:
        """Parse frames, and hand them on."""
        self.heard_at = self._loop.time()
        end = self.end
        try:
            frames = end.receive(data, most // ITEMS_PER_CALL)
        except FrameError as error:
            self.broken(str(error))
            return most  # as much as may have been parsed before the error
        if frames:
            self.received(frames)
        if not self._flushing and end.has_more:
            self.changed()
        self.has_more = end.stopped
        return end.parsed + ITEMS_PER_CALL * len(frames)

    def pause_writing(self) -> None:
        """Called by the loop: the peer takes less than there is to send."""
        self.paused_at = self._loop.time()

    def resume_writing(self) -> None:
        """Called by the loop."""
        self.paused_at = None
        self.changed()

    def changed(self) -> None:
        """Send what the end has to send, once all that runs in this turn of the loop has added to it."""
        if not self._flushing:
            self._flushing = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        transport = self._transport
        if transport is None or self.paused_at is not None or transport.is_closing():
            return
        data = self.end.take()
        if data:
            transport.write(data)
        if self._blocked:
            self._unblock()
        if self.paused_at is None and self.end.has_more:  # the next turn may bring short frames
            self.changed()

    async def sent(self, number: int) -> None:
        """Wait until no item of a call, of which one does, waits for credit any more."""
        waiter = self._blocked[number] = self._loop.create_future()
        try:
            await waiter
        finally:
            del self._blocked[number]

    def _unblock(self) -> None:
        for number, waiter in self._blocked.items():
            if not (waiter.done() or self.end.is_blocked(number)):
                waiter.set_result(None)

    def broken(self, reason: str) -> None:
        """The peer broke the protocol: end the connection, with what there is to say."""
        self._late = None
        transport = self._transport
        if transport is not None and not transport.is_closing():
            transport.write(self.end.take())
            transport.close()
        self.lost(reason)

    def received(self, frames: list[Any]) -> None:
        """Take frames in, in the order in which they came."""
        raise NotImplementedError

    def lost(self, reason: str) -> None:
        """The connection is of no more use."""
        raise NotImplementedError
