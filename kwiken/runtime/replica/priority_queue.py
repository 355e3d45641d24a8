"""In which order a replica begins the calls that it holds: one at a time, the most urgent first.

A handler that works without waiting holds the event loop, so calls that come meanwhile queue up. Without an
order of their own they would begin in the order of arrival, however late their requests are. A handler that
waits for something lets the next one begin, so several run at once as before: this bounds nothing.

A level of priority counts as so many seconds of earlier arrival. So a call that goes ahead of others goes
ahead of those that came within that time, and nobody waits for ever behind a stream of urgent calls.
"""

from __future__ import annotations

import asyncio
import heapq
import time
from functools import partial
from typing import Final

from kwiken.runtime.engine import settle

AHEAD_S: Final = 1.0  # that one level of priority is worth
QUICK_S: Final = 0.0002  # a first step below this hardly lets anything queue up


class DisplacedError(Exception):
    """A more urgent call took the place of this one, which had not begun."""


class CallQueue:
    """Hands out turns to begin. Use it from one event loop."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, asyncio.Future[None]]] = []
        self._count = 0
        self._since = 0.0
        self._busy = False

    def __len__(self) -> int:
        """Calls that wait for their turn."""
        return sum(not future.done() for _, _, future in self._heap)

    async def take(self, came: float, priority: int) -> None:
        """Wait for the turn to begin, which lasts until the caller waits for something else.

        Args:
            came: when the call came, seconds of `time.monotonic`.
            priority: of the call; higher is more urgent.

        Raises:
            DisplacedError: a more urgent call needed its place.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        self._count += 1
        heapq.heappush(self._heap, (_urgency(came, priority), self._count, future))
        if not self._busy:
            # Calls that came while a handler held the loop begin to wait in one go: let them all do so first.
            self._busy = True
            loop.call_soon(self._next, loop)
        try:
            await future
        finally:
            del future  # holds its error, whose traceback holds this frame

    def displace(self, came: float, priority: int) -> bool:
        """Send the least urgent call that waits away, if it is less urgent than this one."""
        waiting = [entry for entry in self._heap if not entry[2].done()]
        last = max(waiting, default=None, key=lambda entry: entry[:2])
        if last is None or last[0] <= _urgency(came, priority):
            return False
        last[2].set_exception(DisplacedError)
        return True

    def _next(self, loop: asyncio.AbstractEventLoop) -> None:
        while self._heap:
            _, _, future = heapq.heappop(self._heap)
            if not future.done():  # else its caller hung up, or it was displaced
                future.set_result(None)
                self._since = time.monotonic()
                loop.call_soon(self._begun, loop)  # after the step of the one whose turn it is
                return
        self._busy = False

    def _begun(self, loop: asyncio.AbstractEventLoop) -> None:
        """The one whose turn it was waits for something, or is done."""
        if time.monotonic() - self._since < QUICK_S:
            self._next(loop)
        else:  # it held the loop: first let all that came meanwhile stand in the queue
            settle(loop, partial(self._next, loop))


def _urgency(came: float, priority: int) -> float:
    """Least first."""
    return came - AHEAD_S * priority
