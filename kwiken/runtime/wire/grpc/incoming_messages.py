"""Messages of calls that a server has begun: limits on their number, their time and their bytes.

gRPC's core hands a message over when all of it has arrived; how much of it has, nobody is told. A server that
asks for all messages at once thus holds as many bytes as its clients like to send. Here a call's message is
asked for only when there is room for the longest one. Until then its client can send no more than the window
of a stream (`settings.STREAM_WINDOW`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

from grpc import aio

from kwiken.base.errors import InputError
from kwiken.runtime.base.errors import DeadlineError, OverloadError
from kwiken.runtime.base.event_loop import settle
from kwiken.runtime.base.grpc_ends import Operations
from kwiken.runtime.wire.http_server.byte_budget import ByteBudget, HeldBytes

Receive = Callable[[], Awaitable[Any]]

MESSAGE_S: Final = 10.0  # longest time from the beginning of a call to the end of its message
MAX_AWAITED: Final = 4096  # calls without a message; beyond it the least urgent are turned away
# Messages that may be on their way without bytes of the budget. Nearly all arrive with their calls, so they
# are gone within this time; those that are not need room for the longest message.
MAX_UNCHARGED: Final = 32
UNCHARGED_S: Final = 0.02
# Time after which a call that still sends its message gives way to one of the same priority.
PROTECTED_S: Final = 2.0
# Time after which a client that ended its call without a message still waits for an answer.
GONE_S: Final = 0.5
RETRY_S: Final = 1.0
TOO_MANY: Final = "too many calls have sent no message yet; try again later"
TOO_LONG: Final = "the messages of all calls together are too long; try again later"


class _Sender:
    """A call whose message has not arrived."""

    __slots__ = ("began", "ended", "holds_place", "priority", "refusal", "reserved", "scope", "timer")

    def __init__(self, priority: int, scope: asyncio.Timeout, began: float) -> None:
        self.priority = priority
        self.scope = scope
        self.began = began
        self.refusal: str | None = None
        self.holds_place = False
        self.reserved = False
        self.ended = False
        self.timer: asyncio.TimerHandle | None = None


class _Ranks:
    """Calls by priority, and by age within one."""

    def __init__(self) -> None:
        self._by_priority: dict[int, dict[_Sender, None]] = {}
        self.count = 0

    def add(self, sender: _Sender) -> None:
        self._by_priority.setdefault(sender.priority, {})[sender] = None
        self.count += 1

    def discard(self, sender: _Sender) -> None:
        same = self._by_priority.get(sender.priority, {})
        if sender in same:
            del same[sender]
            self.count -= 1
            if not same:
                del self._by_priority[sender.priority]

    def least(self) -> _Sender | None:
        """Oldest call of the lowest priority; None if there is no call."""
        if not self._by_priority:
            return None
        return next(iter(self._by_priority[min(self._by_priority)]))


class IncomingMessages:
    """Takes the messages of a server's calls.

    Args:
        budget: budget of the bytes that all messages together hold.
        max_message: bytes of the longest one that is taken.
    """

    def __init__(self, budget: ByteBudget, *, max_message: int) -> None:
        self._budget = budget
        # A budget that holds no message of the longest kind has room for one call that sends slowly.
        self._reserve = min(max_message, budget.most)
        self._loop = asyncio.get_running_loop()
        self._awaited = _Ranks()
        self._slow = _Ranks()  # those of them whose longest message the budget has been charged for
        self._places = asyncio.Semaphore(MAX_UNCHARGED)
        self._operations = Operations()
        budget.reclaim = self._reclaim

    @property
    def awaited(self) -> int:
        """Number of calls whose message has not arrived."""
        return self._awaited.count

    async def read(self, receive: Receive, priority: int = 0) -> bytes | None:
        """Wait for the next message of a call; None if the client has ended the call without one.

        Args:
            priority: priority of the call; where room is short the lowest is turned away first.

        Raises:
            OverloadError: there is no room for the message.
            DeadlineError: the message did not arrive in time.
        """
        try:
            async with asyncio.timeout(MESSAGE_S) as scope:
                sender = _Sender(priority, scope, self._loop.time())
                self._join(sender)
                try:
                    await self._places.acquire()
                    sender.holds_place = True
                    sender.timer = self._loop.call_later(
                        UNCHARGED_S, settle, self._loop, partial(self._charge, sender)
                    )
                    message = await self._operations.outcome(receive())
                finally:
                    self._leave(sender)
        except TimeoutError:
            if sender.refusal is not None:
                raise OverloadError(sender.refusal, retry_after_s=RETRY_S) from None
            raise DeadlineError(f"no message within {MESSAGE_S:g} s") from None
        if message is not aio.EOF:
            arrived: bytes = message
            return arrived
        # The client has ended the call, or has gone; then this is cancelled soon. What is sent to a client
        # that has gone is lost in grpcio.
        await asyncio.sleep(GONE_S)
        return None

    def _join(self, sender: _Sender) -> None:
        self._awaited.add(sender)
        if self._awaited.count > MAX_AWAITED and (least := self._awaited.least()) is not None:
            self._turn_away(least, TOO_MANY)

    def _leave(self, sender: _Sender) -> None:
        sender.ended = True
        if sender.timer is not None:
            sender.timer.cancel()
        self._free(sender)
        self._awaited.discard(sender)

    def _free(self, sender: _Sender) -> None:
        """Give back the place and the bytes of a call."""
        if sender.holds_place:
            sender.holds_place = False
            self._places.release()
        if sender.reserved:
            sender.reserved = False
            self._budget.give(self._reserve)
            self._slow.discard(sender)

    def _charge(self, sender: _Sender) -> None:
        """Charge the longest message for one that is still on its way. There are three cases.

        1. The budget has room.
        2. A less urgent call, or one as urgent that has had its time, gives way.
        3. There is none, so the call itself is turned away.
        """
        while not sender.ended:
            if self._reserve <= self._budget.left:  # 1.
                self._budget.take(self._reserve)
                self._free(sender)
                sender.reserved = True
                self._slow.add(sender)
                return
            least = self._slow.least()
            if least is None or not self._gives_way(least, sender):  # 3.
                self._turn_away(sender, TOO_LONG)
                return
            self._turn_away(least, TOO_LONG)  # 2.

    def _reclaim(self, count: int) -> bool:
        """Turn away calls that still send, for the sake of bytes of a message or an answer that is there."""
        if count > self._slow.count * self._reserve:
            return False
        for _ in range(-(-count // self._reserve)):
            if (least := self._slow.least()) is not None:
                self._turn_away(least, TOO_LONG)
        return True

    def _gives_way(self, held: _Sender, sender: _Sender) -> bool:
        if held.priority != sender.priority:
            return held.priority < sender.priority
        return self._loop.time() - held.began > PROTECTED_S

    def _turn_away(self, sender: _Sender, reason: str) -> None:
        """End the wait of a call for its message."""
        sender.refusal = reason
        sender.ended = True
        self._free(sender)
        self._awaited.discard(sender)
        if not sender.scope.expired():
            sender.scope.reschedule(self._loop.time())


class IncomingCall:
    """Call that a client has begun: its message, and the bytes of it that the budget is charged for.

    Args:
        messages: takes the messages of the server's calls.
        budget: budget of the bytes that all messages together hold.
    """

    __slots__ = ("_held", "_messages", "context")

    def __init__(self, context: Any, messages: IncomingMessages, budget: ByteBudget) -> None:
        self.context = context
        self._messages = messages
        self._held = HeldBytes(budget)

    async def message(self, priority: int = 0) -> bytes:
        """Wait for the message of the call, and hold its bytes until `release`.

        Args:
            priority: priority of the call; where room is short the lowest is turned away first.

        Raises:
            OverloadError: there is no room for the message.
            DeadlineError: the message did not arrive in time.
            InputError: the client has ended the call without a message.
        """
        message = await self._messages.read(self.context.read, priority)
        if message is None:
            raise InputError("the call has no message", where="message")
        if not self._held.add(len(message)):
            raise OverloadError(TOO_LONG, retry_after_s=RETRY_S)
        return message

    def release(self) -> None:
        """Give back the bytes of the message."""
        self._held.release()
