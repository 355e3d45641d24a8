"""Items of one answer as they come over a frame connection, until they are taken."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Final, Protocol

import msgspec

from kwiken.base.errors import InputError
from kwiken.runtime.base.errors import HandlerError, LostError, OverloadError, UnfitError
from kwiken.runtime.wire.frames.messages import AnswerFrame, StreamEnd
from kwiken.runtime.wire.transport.base import Call, ItemStream
from kwiken.runtime.wire.transport.call_bodies import MAX_KIND, MAX_MESSAGE, checked_load
from kwiken.runtime.wire.transport.msgpack_work import decodable

_END: Final = msgspec.msgpack.Decoder(StreamEnd)


class Connection(Protocol):
    """What a stream needs of the connection that its items come by."""

    def give_up(self, number: int) -> None:
        """Cancel a call at the replica."""

    def taken(self, number: int) -> None:
        """Let further items of an answer come."""


class ReceivedItems(ItemStream):
    """Answer of several items, of which the first has come and is charged to the request.

    Args:
        answer: frame that the answer began with, which has the first item; it has the end of the stream where
            there are no items.

    Attributes:
        answer: that frame, for what it says of the replica.
    """

    def __init__(self, connection: Connection, call: Call, answer: AnswerFrame) -> None:
        self.answer = answer
        self._connection = connection
        self._call = call
        self._items = [] if answer.last else [answer.data]
        self._size = sum(map(len, self._items))
        self._lent = 0  # bytes of the items that were taken last
        self._charged = False  # whether the item that arrives is charged already
        self._ended = False
        self._error: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._decode: Callable[[bytes], Any] = bytes
        self._errors: Callable[[], AbstractContextManager[None]] | None = None
        self._at = ""

    def open(
        self, decode: Callable[[bytes], Any], errors: Callable[[], AbstractContextManager[None]], at: str
    ) -> None:
        """Make it ready for its reader.

        Args:
            decode: decoder of one item, which raises `InputError` for another type.
            errors: translates errors of connections into the runtime's.
            at: stage and replica, for messages of errors.
        """
        self._decode, self._errors, self._at = decode, errors, at

    # What comes over the connection.

    def begin(self, size: int) -> None:
        """Charge a long item whose first piece has come; `size` is the length of all of it, bytes."""
        self._charged = self._hold(size)

    def add(self, item: bytes) -> None:
        """Add an item that has come whole."""
        if self._charged or self._hold(len(item)):
            self._charged = False
            self._items.append(item)
            self._size += len(item)
            self._wake()

    def end(self, data: bytes) -> None:
        """Take in how the answer ended, encoded."""
        try:
            end = _END.decode(data)
            checked_load(end.busy_ms, 0, 0.0)
        except (msgspec.MsgspecError, InputError, ValueError, RecursionError) as error:
            self.fail(LostError(f"{self._at}: not the end of a stream: {error}"))
            return
        self.busy_ms = end.busy_ms
        stage, kind = self._call.stage, end.kind[:MAX_KIND]
        self.fail(HandlerError(stage, kind, end.message[:MAX_MESSAGE]) if kind else None)

    def fail(self, error: Exception | None) -> None:
        """End by an error, after the items that have come; None for a regular end."""
        self._ended = True
        self._error = error
        self._wake()

    def _hold(self, size: int) -> bool:
        try:
            self._call.hold(size)
        except OverloadError as error:
            self._connection.give_up(self.answer.id)
            self.fail(error)
            return False
        return True

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # Its reader.

    async def pull(self) -> list[Any]:
        """Wait for further items and take all that are there; none at the end; see `ItemStream`."""
        self._release()
        while not self._items:
            if self._error is not None:
                self._raise()
            if self._ended:
                return []
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        items, self._items = self._items, []
        self._lent, self._size = self._size, 0
        self._connection.taken(self.answer.id)
        try:
            return [self._decode(await decodable(item)) for item in items]
        except InputError as error:
            self.cancel()
            reason = str(error).removeprefix(f"{error.where}: ")
            raise UnfitError(f"{self._at}: {reason}") from error

    def cancel(self) -> None:
        """Cancel the call at the replica, if it has not ended."""
        if not self._ended:
            self._ended = True
            self._connection.give_up(self.answer.id)
        self._release()

    def _release(self) -> None:
        """Release the bytes of the items that were taken last."""
        if self._lent and not self.kept and self._call.held is not None:
            self._call.held.add(-self._lent)
        self._lent = 0

    def _raise(self) -> None:
        error, self._error = self._error, None
        assert error is not None
        assert self._errors is not None, "a reader has opened it"
        try:
            with self._errors():
                raise error
        finally:
            del error  # its traceback holds this frame
