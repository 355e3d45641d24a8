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
    for task in tasks:
        task.cancel()
    cancelled = False
    while pending := [task for task in tasks if not task.done()]:
        try:
            await asyncio.wait(pending)
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        raise asyncio.CancelledError
    for task in tasks:
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error
