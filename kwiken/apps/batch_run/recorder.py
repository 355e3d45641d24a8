"""Recorder of a Dask scheduler: its workers and tasks, as lines that `kwiken batch fit` reads."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Callable
from typing import Any, Final

from kwiken.apps.batch_run.dask_jobs import RACK_RESOURCE, connect, workers_of
from kwiken.base.errors import InputError

TOPIC: Final = "kwiken-recorder"  # of the scheduler's events, by which lines come here
FLUSH_S: Final = 0.2  # longest time that a line waits at the scheduler
POLL_S: Final = 1.0  # between two looks at whether the scheduler is there
MS: Final = 1000
Write = Callable[[str], None]


async def record(
    address: str, name: str, write: Write, stop: asyncio.Event, *, input_bytes: int | None = None
) -> int:
    """Record the tasks of a scheduler until asked to stop or the scheduler is gone; the number of tasks.

    Args:
        address: HOST:PORT of the scheduler.
        name: name of the job that the tasks are taken as.
        write: takes one line without its end.
        stop: set when the recording is to end.
        input_bytes: bytes that the tasks read from storage all together; None where they are not known.

    Raises:
        InputError: no scheduler answers at the address.
    """
    try:
        client = await connect(address)
    except (OSError, TimeoutError) as error:
        raise InputError(f"no scheduler of Dask answers: {error}", where=address) from error
    tasks = 0

    def take(event: Any) -> None:
        nonlocal tasks
        for line in event[1]:
            tasks += "group" in line
            write(_line(line))

    now = round(MS * time.time())
    known = {} if input_bytes is None else {"input_bytes": input_bytes}
    write(_line({"recorded": "dask", "version": 1, "name": name, "began_ms": now, **known}))
    try:
        client.subscribe_topic(TOPIC, take)
        await client.register_plugin(_plugin(), name=TOPIC)
        await _until(stop, client)
        with contextlib.suppress(OSError, TimeoutError, ValueError):
            await client.unregister_scheduler_plugin(TOPIC)
            await asyncio.sleep(2 * FLUSH_S)
    finally:
        with contextlib.suppress(OSError, TimeoutError):
            await client.close()
    write(_line({"ended_ms": round(MS * time.time())}))
    return tasks


async def _until(stop: asyncio.Event, client: Any) -> None:
    """Wait until asked to stop, or until the scheduler does not answer."""
    while not stop.is_set():
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), POLL_S)
            return
        try:
            await asyncio.wait_for(workers_of(client), 10 * POLL_S)
        except (OSError, TimeoutError):
            return


def _line(fields: dict[str, Any]) -> str:
    return json.dumps(fields, separators=(",", ":"))


def _plugin() -> Any:
    """Plugin for the scheduler, which needs this package to make it."""
    from kwiken.apps.batch_run.scheduler_plugin import TaskRecorder

    return TaskRecorder(TOPIC, FLUSH_S, RACK_RESOURCE)
