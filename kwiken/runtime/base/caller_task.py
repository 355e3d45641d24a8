"""Caller's task of a call: runs attempts itself, can be interrupted, and waits for other tasks.

When a race ends while the caller's task runs an attempt, the task is interrupted the way `asyncio.timeout`
does it: the task is cancelled, and the cancellation is taken back where it comes out. `Task.cancelling`
distinguishes it from a cancellation by the caller.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec


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
