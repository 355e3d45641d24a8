"""Frame connection of one gateway at a replica: a task for each call, cancelled when the gateway says so."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

from kwiken.runtime.base.log_events import Event, about
from kwiken.runtime.wire.frames.link import FrameLink
from kwiken.runtime.wire.frames.messages import AnswerFrame, CallFrame, CancelFrame, EndedFrame, ItemFrame
from kwiken.runtime.wire.frames.protocol import Budget, OversizeItem, ServerEnd

LOG = logging.getLogger("kwiken.replica")
IDLE_S: Final = 75.0  # longest time without a call; longer than gateways keep an idle connection
STALL_S: Final = 30.0  # longest time that a peer may leave something unfinished, or unread

CallEnd = AnswerFrame | ItemFrame | EndedFrame
Refuser = Callable[[OversizeItem], AnswerFrame]


class FrameServerLink(FrameLink[ServerEnd]):
    """Connection of one gateway.

    Args:
        handler: serves a call that came at a moment, seconds of `time.monotonic`, over this connection. Its
            `AnswerFrame.data` is the whole item; an `EndedFrame` if the call was cancelled, an `ItemFrame`
            for the end of an answer of several items, which it has sent.
        refuse: answers a call that was not taken in.
        ended: called once, with this, when the connection is lost.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        max_body: int,
        budget: Budget,
        handler: Callable[[CallFrame, float, FrameServerLink], Awaitable[CallEnd]],
        refuse: Refuser,
        ended: Callable[[Any], None],
    ) -> None:
        super().__init__(loop, ServerEnd(max_body, budget))
        self._handler = handler
        self._refuse = refuse
        self._ended = ended
        self._running: dict[int, asyncio.Task[None]] = {}
        self._cancelled: set[int] = set()

    @property
    def tasks(self) -> list[asyncio.Task[None]]:
        """Tasks of the calls that run."""
        return list(self._running.values())

    def send_goodbye(self) -> None:
        """Tell the gateway to send further calls elsewhere."""
        self.end.bye()
        self.changed()

    def expire(self, now: float) -> None:
        """Close the connection if the gateway exceeded a timeout."""
        silent_s = now - self.heard_at
        unread = self.paused_at is not None and now - self.paused_at > STALL_S
        unfinished = self.end.awaits_peer and silent_s > STALL_S
        idle = not (self.end.open or self.end.has_more) and silent_s > IDLE_S
        if unread or unfinished or idle:
            self.cut()

    def pause_writing(self) -> None:
        """Called by the loop: a gateway that reads no answers gets to send no calls."""
        super().pause_writing()
        self.read_on(wanted=False)

    def resume_writing(self) -> None:
        """Called by the loop."""
        super().resume_writing()
        self.read_on(wanted=True)

    def received(self, frames: list[Any]) -> None:
        """Take frames in, in the order in which they came."""
        came = time.monotonic()
        for frame in frames:
            if type(frame) is CallFrame and frame.last:
                self._running[frame.id] = self._loop.create_task(self._serve(frame, came))
            elif isinstance(frame, CancelFrame):
                self._cancel(frame.id)
            elif isinstance(frame, OversizeItem):
                refusal = self._refuse(frame)
                self.end.answer(refusal, refusal.data)
            elif isinstance(frame, CallFrame | ItemFrame):
                self.broken("a call of several items, which no stage takes in this version")
                return

    def _cancel(self, number: int) -> None:
        task = self._running.get(number)
        if task is None:  # it had not come whole
            self.end.ended(number, 0.0)
        else:
            self._cancelled.add(number)
            task.cancel()

    async def send_item(self, item: bytes, number: int, opening: AnswerFrame | None) -> None:
        """Send an item of an answer of several, and wait until the gateway has room for the next.

        Args:
            opening: frame that begins the answer with its first item; None for a further item.

        Raises:
            CancelledError: the gateway has given the call up.
        """
        if number in self._cancelled:
            raise asyncio.CancelledError
        if opening is not None:
            self.end.answer(opening, item)
        else:
            self.end.item(number, item, last=False)
        if not self._flushing:
            self.changed()
        if self.end.is_blocked(number):
            await self.sent(number)

    async def _serve(self, call: CallFrame, came: float) -> None:
        number = call.id
        busy_ms = 0.0
        answer: CallEnd | None = None
        try:
            answer = await self._handler(call, came, self)
        except asyncio.CancelledError:
            if number not in self._cancelled:
                raise
        except Exception:
            LOG.exception("a call failed", extra=about(Event.REQUEST_ERROR))
        finally:
            del self._running[number]
            if isinstance(answer, EndedFrame):
                busy_ms, answer = answer.busy_ms, None
            if type(answer) is AnswerFrame:
                self.end.answer(answer, answer.data)
            elif answer is not None:
                self.end.item(number, answer.data, last=True)
            elif number in self._cancelled or self.end.has_begun(number):
                self.end.ended(number, busy_ms)
            else:  # it failed, or cancelled its own task
                self.end.answer(AnswerFrame(number, True, 0, b"", 500, "", busy_ms, 0, 0.0), b"")
            self._cancelled.discard(number)
            if not self._flushing:
                self.changed()

    def lost(self, reason: str) -> None:
        """The connection is of no more use: cancel its calls."""
        del reason
        for number, task in list(self._running.items()):
            self._cancelled.add(number)
            task.cancel()
        self.end.close()
        self._ended(self)
