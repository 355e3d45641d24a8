"""Ending tasks that one owns."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any


async def cancel_and_wait(tasks: Collection[asyncio.Task[Any]]) -> None:
    """Cancel tasks and wait until the last has ended, whatever happens meanwhile.

    Raises:
        CancelledError: when the caller was cancelled while it waited; the tasks have ended all the same.
        Exception: what a task raised other than by being cancelled: a defect in the task's own loop.
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
    del tasks  # each holds its error, whose traceback is about to hold this frame
    while errors:
        if (error := errors.pop()) is not None:
            try:
                raise error
            finally:
                del error
