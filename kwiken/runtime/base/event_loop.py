"""Tasks and timers of an event loop.

A caller's own task can be interrupted (`CallerTask`). When a race ends while the task runs an attempt, the
task is interrupted the way `asyncio.timeout` does it: the task is cancelled, and the cancellation is taken
back where it comes out. `Task.cancelling` distinguishes it from a cancellation by the caller.

Timers are rounded up to the loop's resolution of a millisecond (`call_after`), and callbacks can wait for
pending I/O (`settle`).
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Collection
from typing import Any, Final

import msgspec


async def cancel_and_wait(tasks: Collection[asyncio.Task[Any]]) -> None:
    """Cancel tasks and wait until the last one has ended, even if the caller is cancelled meanwhile.

    Raises:
        CancelledError: the caller was cancelled while it waited; the tasks have ended nevertheless.
        Exception: the exception of a task that did not end by its cancellation.
    """
    cancelled = False
    pending = [task for task in tasks if task.cancel()]
    while pending:
        try:
            await asyncio.wait(pending)
        except asyncio.CancelledError:
            cancelled = True
        pending = [task for task in pending if not task.done()]
    if cancelled:
        raise asyncio.CancelledError
    errors = [task.exception() for task in tasks if not task.cancelled()]
    del tasks  # each task holds its error, whose traceback will hold this frame
    while errors:
        if (error := errors.pop()) is not None:
            try:
                raise error
            finally:
                del error


class CallerTask(msgspec.Struct, eq=False):
    """Task that made a call.

    Attributes:
        base: number of its cancellations when the call began.
        interrupted: whether `wake` has cancelled that attempt.
        waiter: future that it waits for while attempts run in other tasks; None before.
    """

    task: asyncio.Task[Any]
    base: int
    busy: bool = False
    interrupted: bool = False
    waiter: asyncio.Future[None] | None = None

    def wake(self) -> None:
        """Interrupt the attempt that the task runs, or end its wait."""
        if self.busy:
            if not self.interrupted:
                self.interrupted = True
                self.task.cancel()
        elif self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(None)

    def check_cancelled(self) -> None:
        """Take back the interruption; raise if the caller cancelled, even at the same time.

        Raises:
            CancelledError: the caller cancelled the task.
        """
        if (self.task.uncancel() if self.interrupted else self.task.cancelling()) > self.base:
            raise asyncio.CancelledError

    def waiting(self, loop: asyncio.AbstractEventLoop) -> asyncio.Future[None]:
        """Future for the caller to await until `wake` is called."""
        self.waiter = waiter = loop.create_future()
        return waiter


TICK_S: Final = 0.001  # resolution of uvloop's timers, and of epoll's
ROUNDING_S: Final = 1e-9  # above the rounding error of a delay, which must not cost a tick
# Iterations of the loop until pending I/O is handled: one to read it, one for the task that
# waits for it, and one because the order of the two within an iteration varies.
PENDING_ITERATIONS: Final = 3


def call_after(
    loop: asyncio.AbstractEventLoop, delay_s: float, callback: Callable[..., object], *args: Any
) -> asyncio.TimerHandle:
    """Call a function after a delay, rounded up to whole milliseconds; at once if there is no delay.

    uvloop rounds delays to the nearest millisecond, and calls at once what rounds to zero. A caller that
    found that its time had not come, and asked again, would keep a processor busy until it came. The timer
    may still fire up to a millisecond early, because the loop's own clock ticks in milliseconds.
    """
    return loop.call_later(whole_ticks(delay_s), callback, *args)


def whole_ticks(delay_s: float) -> float:
    """Delay rounded up to whole milliseconds, seconds; 0 where there is no delay."""
    if delay_s <= 0:
        return 0.0
    return max(delay_s, max(1, math.ceil((delay_s - ROUNDING_S) / TICK_S)) * TICK_S)


def settle(
    loop: asyncio.AbstractEventLoop, then: Callable[[], object], turns: int = PENDING_ITERATIONS
) -> None:
    """Call `then` when all data that has reached the process by now is read and handled.

    A loop that was delayed (by a long step, or by other processes) runs its timers before it reads:
    the awaited answer may have arrived long ago. Without a delay this takes some tens of microseconds.

    Args:
        then: callback; it must check itself whether it is still needed.
        turns: iterations of the loop to wait, 0 or more.
    """
    if turns:
        loop.call_soon(settle, loop, then, turns - 1)
    else:
        then()
