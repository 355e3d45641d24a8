"""Errors of a service's own code, which the one who called it must hear and the process must outlive."""

from __future__ import annotations

import asyncio
import traceback

from kwiken.errors import DefinitionError


def is_own(error: BaseException) -> bool:
    """Whether what came out of a handler is its own doing, rather than somebody's who ends its task.

    So are also errors that are no `Exception`: `sys.exit` in a parser of arguments, a panic in an extension.
    """
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is not None and not task.cancelling()
    return not isinstance(error, GeneratorExit)


def kind_and_message(error: BaseException) -> tuple[str, str]:
    """Kind and message of an error that is a handler's own."""
    kind = type(error).__name__
    if isinstance(error, asyncio.CancelledError):
        return kind, str(error) or "its handler cancelled itself"
    return kind, str(error)


def setup_failed(stage: str, error: BaseException) -> DefinitionError:
    """What to raise for a stage's `setup` that raised."""
    kind, message = kind_and_message(error)
    place = traceback.extract_tb(error.__traceback__)[-1]
    return DefinitionError(
        f"its setup failed: {kind}: {message} (at {place.filename}:{place.lineno})", stage=stage
    )
