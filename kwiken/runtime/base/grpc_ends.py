"""Ends of gRPC calls that leave nothing of grpcio behind.

grpcio frees an operation of a call when somebody takes its outcome. If the task that waits is cancelled, the
operation is lost for good, and so is one that fails because the other side has gone: some 100 to 1,000 bytes
each (as in https://github.com/grpc/grpc/issues/43360, with grpcio 1.85). A gateway that cancels the losers
of its races would grow without a bound. So calls are cancelled where they are made, in gRPC's core, and
their operations end by that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from functools import partial
from typing import Any, Final

CANCELLED: Final = "cancelled by its caller"


def end_call(call: Any) -> None:
    """Cancel a call of a `grpc.aio` channel, here and at the server; one that has ended stays as it is.

    `call.cancel()` also cancels the task of the call, which loses its operation.
    """
    core = getattr(call, "_cython_call", None)
    if core is None:  # an interceptor's call, or one of a library like grpcio
        call.cancel()
    elif not core.done():
        core.cancel(CANCELLED)


async def answer_of(call: Any) -> Any:
    """Wait for the answer of a unary call, as `await call` does; cancelling this ends the call.

    Raises:
        AioRpcError: the call failed.
    """
    ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    call.add_done_callback(partial(_end_wait, ended))
    try:
        await ended
    except asyncio.CancelledError:
        end_call(call)
        raise
    return await call


def _end_wait(ended: asyncio.Future[None], call: object) -> None:
    del call
    if not ended.done():
        ended.set_result(None)


class Operations:
    """Operations of grpcio, each in a task that runs to its end, which the end of the call brings."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    async def outcome(self, operation: Awaitable[Any]) -> Any:
        """Wait for an operation; it goes on if this is cancelled."""
        task = asyncio.get_running_loop().create_task(_run(operation))
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return await asyncio.shield(task)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # raised to whoever still waits


async def _run(operation: Awaitable[Any]) -> Any:
    return await operation
