"""Critical tasks: the program ends when one of them fails."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from kwiken.runtime.process.critical_tasks import CriticalTasks


async def fail() -> None:
    await asyncio.sleep(0.01)
    raise ZeroDivisionError("a defect")


async def serve(*keepers_of: Coroutine[Any, Any, None]) -> None:
    """Run tasks as a program does."""
    critical_tasks = CriticalTasks()
    for main in keepers_of:
        critical_tasks.add(main)
    try:
        await asyncio.sleep(60)
    finally:
        await critical_tasks.stop()
        critical_tasks.check()


async def test_a_failed_critical_task_ends_its_owner_and_is_raised_unchanged() -> None:
    with pytest.raises(ZeroDivisionError, match="a defect"):
        await serve(fail(), asyncio.sleep(60))
    task = asyncio.current_task()
    assert task is not None
    assert not task.cancelling()


async def test_without_a_failure_nothing_is_raised() -> None:
    critical_tasks = CriticalTasks()
    critical_tasks.add(asyncio.sleep(60))
    await critical_tasks.stop()
    critical_tasks.check()


async def test_a_cancellation_from_outside_stays_one() -> None:
    task = asyncio.create_task(serve(asyncio.sleep(60)))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
