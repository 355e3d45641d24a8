"""Tasks on which a program rests: when one fails, so does the program, at once and aloud."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

LOG = logging.getLogger("kwiken.cluster")


class CriticalTasks:
    """Tasks that run until they are stopped.

    When one fails, the task that made this object is cancelled; `check` then raises the failure in place of
    that cancellation, as `asyncio.TaskGroup` does, but as it is: a caller knows its errors by type.
    """

    def __init__(self) -> None:
        self._owner = asyncio.current_task()
        self._tasks: list[asyncio.Task[None]] = []
        self._fault: BaseException | None = None

    def add(self, main: Coroutine[Any, Any, None]) -> None:
        """Start one."""
        task = asyncio.create_task(main)
        task.add_done_callback(self._ended)
        self._tasks.append(task)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if task.cancelled() or self._fault is not None or (fault := task.exception()) is None:
            return
        self._fault = fault
        LOG.critical("what keeps this alive has failed, so it ends: %r", fault)
        if self._owner is not None:
            self._owner.cancel()

    async def stop(self) -> None:
        """End them all."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []

    def check(self) -> None:
        """Raise what made one fail, if one did; the owner must be on its way out."""
        if self._fault is None:
            return
        if self._owner is not None:
            self._owner.uncancel()
        raise self._fault
