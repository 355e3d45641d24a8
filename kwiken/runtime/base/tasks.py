"""Cancellation of owned tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any


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
