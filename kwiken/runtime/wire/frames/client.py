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
from kwiken.runtime.wire.transport.base import Call

MAX_UNSENT: Final = 64 << 20  # bytes that may wait for a replica that takes nothing


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
        self._calls: dict[int, tuple[asyncio.Future[AnswerFrame], Call]] = {}
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

    async def exchange(self, frame: CallFrame, body: bytes, call: Call) -> AnswerFrame:
        """Send a call and wait for its answer; cancelling this cancels the call at the replica.

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
        waiter: asyncio.Future[AnswerFrame] = self._loop.create_future()
        number = end.call(frame, body)
        self._calls[number] = waiter, call
        if not self._flushing:
            self.changed()
        call.sent = self._now()
        try:
            return await waiter
        except asyncio.CancelledError:
            if number in self._calls:
                end.cancel(number)
                self.changed()
            raise
        finally:
            del waiter  # the future holds its error, whose traceback holds this frame

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
            elif isinstance(frame, AnswerBegins):
                waiter, call = self._calls[frame.id]
                call.first_byte = now
                if not _has_room(call, frame.size, waiter):
                    self.end.cancel(frame.id)
                    self.changed()
            else:
                self._end_call(frame, now)
        self.used_at = self.heard_at
        if self.leaving and not self.end.open:
            self.close()

    def _end_call(self, frame: AnswerFrame | ItemFrame | EndedFrame | OversizeItem, now: float) -> None:
        """End a call. There are five cases.

        1. Its answer came whole.
        2. It was given up, and the replica says what work it had done; or the answer had been on its way.
        3. The answer is too long.
        4. The replica ended it by itself.
        5. Its answer has several items, for which no stage asks in this version.
        """
        waiter, call = self._calls.pop(frame.id, (None, None))
        if waiter is None or call is None:
            return
        if type(frame) is AnswerFrame and frame.last:
            if not waiter.done() and (call.first_byte or _has_room(call, len(frame.data), waiter)):
                call.first_byte = call.first_byte or now
                waiter.set_result(frame)
        elif waiter.done():
            if isinstance(frame, EndedFrame) and call.note_work is not None:
                call.note_work(frame.busy_ms)
        elif isinstance(frame, OversizeItem):
            waiter.set_exception(LongAnswerError(f"the answer is {frame.size} bytes long"))
        elif isinstance(frame, EndedFrame):
            waiter.set_exception(BrokenConnectionError("the replica ended the call"))
        else:
            waiter.set_exception(BrokenConnectionError("an answer of several items"))
            self.broken("an answer of several items, for which no stage asks in this version")

    def close(self) -> None:
        """Close once everything that waits is sent."""
        if self._transport is not None:
            self._transport.close()

    def lost(self, reason: str) -> None:
        """The connection is of no more use: fail its calls."""
        if not self.ready.done():
            self.ready.set_result(reason)
        calls, self._calls = self._calls, {}
        for waiter, _ in calls.values():
            if not waiter.done():
                waiter.set_exception(BrokenConnectionError(reason))


def _has_room(call: Call, size: int, waiter: asyncio.Future[AnswerFrame]) -> bool:
    """Charge an answer to its request; ends the wait and returns False if there is no room for it."""
    if waiter.done():
        return True
    try:
        call.hold(size)
    except OverloadError as error:
        waiter.set_exception(error)
        return False
    return True
