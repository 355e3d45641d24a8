"""Frame connection of a gateway to one replica: any number of calls at once, each with a future."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from kwiken.runtime.base.errors import OverloadError
from kwiken.runtime.wire.frames.link import FrameLink
from kwiken.runtime.wire.frames.messages import (
    MAX_CALLS,
    AnswerFrame,
    ByeFrame,
    CallFrame,
    EndedFrame,
    ItemFrame,
)
from kwiken.runtime.wire.frames.protocol import AnswerBegins, ClientEnd, OversizeItem
from kwiken.runtime.wire.frames.received_items import ReceivedItems
from kwiken.runtime.wire.transport.base import Call

MAX_UNSENT: Final = 64 << 20  # bytes that may wait for a replica that takes nothing


Waiter = asyncio.Future[AnswerFrame | ReceivedItems]


class NotConnectedError(Exception):
    """No connection could be opened; nothing was sent."""


class BrokenConnectionError(Exception):
    """The connection was lost, or its peer broke the protocol, before the answer came."""


class LongAnswerError(Exception):
    """The answer is longer than the limit; it was not read."""


class FrameClientLink(FrameLink[ClientEnd]):
    """Connection to one replica.

    Args:
        max_body: longest answer, bytes; the call of a longer one is cancelled.
        now: clock of the calls' moments, seconds.

    Attributes:
        ready: done once the replica has said which version it speaks; its result is the reason of a failure.
        leaving: whether the replica asked to send further calls elsewhere.
        used_at: moment of the last call, seconds of the loop's clock.
        version: version of the certificates that it was opened with; 0 without TLS.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, max_body: int, now: Callable[[], float], version: int
    ) -> None:
        super().__init__(loop, ClientEnd(max_body))
        self._now = now
        self._calls: dict[int, tuple[Waiter, Call]] = {}
        self._streams: dict[int, ReceivedItems] = {}  # answers of several items that have begun
        self.ready: asyncio.Future[str] = loop.create_future()
        self.leaving = False
        self.used_at = loop.time()
        self.version = version
        self._is_ready = False

    @property
    def is_full(self) -> bool:
        """Whether it takes no further call for now."""
        if self.end.open >= MAX_CALLS:
            return True
        return self.paused_at is not None and self.end.unsent > MAX_UNSENT

    def silent_s(self, now: float) -> float:
        """Time for which a replica with calls has sent nothing, seconds; `now` by the loop's clock."""
        return now - self.heard_at if self.end.open else 0.0

    async def exchange(self, frame: CallFrame, body: bytes, call: Call) -> AnswerFrame | ReceivedItems:
        """Send a call and wait for its answer; cancelling this cancels the call at the replica.

        An answer of several items is returned when the first of them has come.

        Args:
            call: the call, whose moments are noted.

        Raises:
            NotConnectedError: the connection was closed before; nothing was sent.
            BrokenConnectionError: no complete answer came.
            LongAnswerError: the answer is longer than the limit.
        """
        if not self.is_open:
            raise NotConnectedError("the connection was closed before anything was sent")
        end = self.end
        if not end.open:
            self.heard_at = self._loop.time()
        waiter: Waiter = self._loop.create_future()
        number = end.call(frame, body)
        self._calls[number] = waiter, call
        if not self._flushing:
            self.changed()
        call.sent = self._now()
        try:
            return await waiter
        except asyncio.CancelledError:
            if number in self._calls or number in self._streams:
                self.give_up(number)
            raise
        finally:
            del waiter  # the future holds its error, whose traceback holds this frame

    def give_up(self, number: int) -> None:
        """Cancel a call at the replica."""
        self._streams.pop(number, None)
        self.end.cancel(number)
        self.changed()

    def taken(self, number: int) -> None:
        """Let further items of an answer come."""
        self.end.taken(number)
        if self.end.has_more:
            self.changed()

    def parse(self, data: bytes, most: int) -> int:
        """Parse frames, and hand them on."""
        parsed = super().parse(data, most)
        if not self._is_ready and self.end.ready:
            self._is_ready = True
            if not self.ready.done():
                self.ready.set_result("")
        return parsed

    def received(self, frames: list[Any]) -> None:
        """Take frames in, in the order in which they came."""
        now = self._now()
        for frame in frames:
            if isinstance(frame, ByeFrame):
                self.leaving = True
            elif self._streams and frame.id in self._streams:
                self._go_on(self._streams[frame.id], frame)
            elif isinstance(frame, AnswerBegins):
                waiter, call = self._calls[frame.id]
                call.first_byte = now
                if not _has_room(call, frame.size, waiter):
                    self.give_up(frame.id)
            else:
                self._end_call(frame, now)
        self.used_at = self.heard_at
        if self.leaving and not self.end.open:
            self.close()

    def _end_call(self, frame: AnswerFrame | ItemFrame | EndedFrame | OversizeItem, now: float) -> None:
        """End the wait for an answer. There are four cases.

        1. It came whole, or the first of its items did.
        2. It was given up, and the replica says what work it had done; or the answer had been on its way.
        3. The answer is too long.
        4. The replica ended the call by itself.
        """
        waiter, call = self._calls.pop(frame.id, (None, None))
        if waiter is None or call is None:
            return
        if type(frame) is AnswerFrame:
            if not waiter.done() and (call.first_byte or _has_room(call, len(frame.data), waiter)):
                call.first_byte = call.first_byte or now
                if frame.last:
                    waiter.set_result(frame)
                else:
                    stream = self._streams[frame.id] = ReceivedItems(self, call, frame)
                    waiter.set_result(stream)
            elif not frame.last:
                self.give_up(frame.id)
        elif waiter.done():
            if isinstance(frame, EndedFrame) and call.note_work is not None:
                call.note_work(frame.busy_ms)
        elif isinstance(frame, OversizeItem):
            waiter.set_exception(LongAnswerError(f"the answer is {frame.size} bytes long"))
        else:
            waiter.set_exception(BrokenConnectionError("the replica ended the call"))

    def _go_on(
        self, stream: ReceivedItems, frame: ItemFrame | AnswerBegins | EndedFrame | OversizeItem
    ) -> None:
        """Go on with an answer of several items. There are five cases.

        1. An item.
        2. What stands in the place of the last item.
        3. The begin of a long item, whose bytes count from now on.
        4. An item that is too long.
        5. The replica ended the call by itself.
        """
        if isinstance(frame, ItemFrame):
            if not frame.last:
                stream.add(frame.data)
                return
            del self._streams[frame.id]
            stream.end(frame.data)
        elif isinstance(frame, AnswerBegins):
            stream.begin(frame.size)
        elif isinstance(frame, OversizeItem):
            del self._streams[frame.id]
            stream.fail(LongAnswerError(f"an item is {frame.size} bytes long"))
        else:
            del self._streams[frame.id]
            stream.fail(BrokenConnectionError("the replica ended the call"))

    def close(self) -> None:
        """Close once everything that waits is sent."""
        if self._transport is not None:
            self._transport.close()

    def lost(self, reason: str) -> None:
        """The connection is of no more use: fail its calls."""
        if not self.ready.done():
            self.ready.set_result(reason)
        calls, self._calls = self._calls, {}
        streams, self._streams = self._streams, {}
        for stream in streams.values():
            stream.fail(BrokenConnectionError(reason))
        for waiter, _ in calls.values():
            if not waiter.done():
                waiter.set_exception(BrokenConnectionError(reason))


def _has_room(call: Call, size: int, waiter: Waiter) -> bool:
    """Charge an answer to its request; ends the wait and returns False if there is no room for it."""
    if waiter.done():
        return True
    try:
        call.hold(size)
    except OverloadError as error:
        waiter.set_exception(error)
        return False
    return True
