"""Priority queue of the calls that a replica holds: starts one at a time, the most urgent first.

A handler that works without waiting blocks the event loop, so calls that arrive meanwhile queue up. Without
an explicit order they would start in the order of arrival, however late their requests are. A handler that
waits for something lets the next one start, so several still run at once: the queue does not limit
concurrency.

A level of priority counts as a fixed time of earlier arrival. A call thus overtakes only calls that arrived
within that time, and no call starves behind a stream of urgent ones.
"""

from __future__ import annotations

import asyncio
import heapq
import time
from functools import partial
from typing import Final

from kwiken.runtime.base.event_loop import settle
from kwiken.runtime.decisions.lines.request_lines import SECONDS_PER_LEVEL

MAX_QUICK_STEP_S: Final = 0.0002  # a first step shorter than this lets hardly any call queue up


class DisplacedError(Exception):
    """A more urgent call took the place of this call, which had not started."""


class CallQueue:
    """Queue of calls that wait to start. Use it from one event loop."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, asyncio.Future[None]]] = []
        self._count = 0
        self._since = 0.0
        self._busy = False

    def __len__(self) -> int:
        """Number of calls that wait to start."""
        return sum(not future.done() for _, _, future in self._heap)

    async def take(self, came: float, priority: int) -> None:
        """Wait until the call may start; the next call may start when this one waits for something else.

        Args:
            came: arrival of the call, seconds of `time.monotonic`.
            priority: priority of the call; higher is more urgent.

        Raises:
            DisplacedError: a more urgent call took the place of this one.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        self._count += 1
        heapq.heappush(self._heap, (_urgency(came, priority), self._count, future))
        try:
            if not self._busy:
                self._busy = True
                try:
                    # Calls that arrived while a handler blocked the loop queue up in this iteration.
                    await asyncio.sleep(0)
                except asyncio.CancelledError:
                    if not future.cancel():
                        future.exception()  # displaced as well: an error that nobody reads would be logged
                    self._next(loop)
                    raise
                self._next(loop)  # mostly this call itself, which then goes on at once
            await future
        finally:
            del future  # the future holds its error, whose traceback holds this frame

    def displace(self, came: float, priority: int) -> bool:
        """Displace the least urgent waiting call if it is less urgent than this one; returns success."""
        waiting = [entry for entry in self._heap if not entry[2].done()]
        last = max(waiting, default=None, key=lambda entry: entry[:2])
        if last is None or last[0] <= _urgency(came, priority):
            return False
        last[2].set_exception(DisplacedError)
        return True

    def _next(self, loop: asyncio.AbstractEventLoop) -> None:
        while self._heap:
            _, _, future = heapq.heappop(self._heap)
            if not future.done():  # done: its client has disconnected, or it was displaced
                future.set_result(None)
                self._since = time.monotonic()
                loop.call_soon(self._begun, loop)  # runs after the first step of that call
                return
        self._busy = False

    def _begun(self, loop: asyncio.AbstractEventLoop) -> None:
        """Continue after the first step of a call: it waits for something, or has ended."""
        if time.monotonic() - self._since < MAX_QUICK_STEP_S:
            self._next(loop)
        else:  # it blocked the loop: let the calls that arrived meanwhile queue up first
            settle(loop, partial(self._next, loop))


def _urgency(came: float, priority: int) -> float:
    """Sort key: the lowest starts first."""
    return came - SECONDS_PER_LEVEL * priority
