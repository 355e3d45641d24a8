"""Critical tasks of a program: when one of them fails, the program is cancelled with its error."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from kwiken.runtime.base.log_events import Event, about

LOG = logging.getLogger("kwiken.cluster")


class CriticalTasks:
    """Background tasks that run until they are stopped.

    When one fails, the task that created this object is cancelled; `check` then raises the failure in place
    of that cancellation, as `asyncio.TaskGroup` does, but without a group around it: callers handle errors by
    type.
    """

    def __init__(self) -> None:
        self._owner = asyncio.current_task()
        self._tasks: list[asyncio.Task[None]] = []
        self._fault: BaseException | None = None

    def add(self, main: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a task that must not fail; it may be cancelled."""
        task = asyncio.create_task(main)
        task.add_done_callback(self._ended)
        self._tasks.append(task)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        if task in self._tasks:
            self._tasks.remove(task)
        if task.cancelled() or self._fault is not None or (fault := task.exception()) is None:
            return
        self._fault = fault
        LOG.critical("a critical task failed, so the program ends: %r", fault, extra=about(Event.TASK_FAILED))
        if self._owner is not None:
            self._owner.cancel()

    async def stop(self) -> None:
        """Cancel all tasks and wait for their end."""
        tasks = self._tasks[:]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._tasks = []

    def check(self) -> None:
        """Raise the failure of a task, if there is one; the owner must be ending."""
        if self._fault is None:
            return
        if self._owner is not None:
            self._owner.uncancel()
        raise self._fault
