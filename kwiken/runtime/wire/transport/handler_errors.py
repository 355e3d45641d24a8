"""Errors raised by a service's own code: reported to the client, and never the end of the process."""

from __future__ import annotations

import asyncio
import logging
import traceback

from kwiken.base.errors import DefinitionError
from kwiken.runtime.base.log_events import Event, about


def is_own(error: BaseException) -> bool:
    """Whether an exception was raised by a handler itself, rather than by a cancellation of its task.

    So are exceptions that are no `Exception`: `sys.exit` in an argument parser, a panic in an extension.
    """
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is not None and not task.cancelling()
    return not isinstance(error, GeneratorExit)


def kind_and_message(error: BaseException) -> tuple[str, str]:
    """Kind and message of an error raised by a handler."""
    kind = type(error).__name__
    if isinstance(error, asyncio.CancelledError):
        return kind, str(error) or "its handler cancelled itself"
    return kind, str(error)


def log_handler_error(log: logging.Logger, stage: str, trace_id: int, error: BaseException) -> None:
    """Log the exception of a handler with its traceback, which no answer contains.

    Args:
        log: log of the process that ran the handler.
        trace_id: trace of the request; 0 for none.
    """
    log.error(
        "stage %r: its handler raised",
        stage,
        exc_info=error,
        extra=about(Event.HANDLER_FAILED, trace_id=trace_id),
    )


def setup_failed(stage: str, error: BaseException) -> DefinitionError:
    """Create the error for a stage whose `setup` raised."""
    kind, message = kind_and_message(error)
    place = traceback.extract_tb(error.__traceback__)[-1]
    return DefinitionError(
        f"its setup failed: {kind}: {message} (at {place.filename}:{place.lineno})", stage=stage
    )
