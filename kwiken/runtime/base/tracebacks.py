"""Tracebacks of handlers' exceptions, bounded in size and rate, for logs and spans."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from typing import Final

from kwiken.base.printable import printable
from kwiken.otel.write.records import ExceptionRecord
from kwiken.runtime.base.token_bucket import TokenBucket

MAX_FRAMES: Final = 12  # the last ones, where the cause is
MAX_TRACE: Final = 3000  # characters of a traceback
MAX_LINE: Final = 1000  # characters of one of its lines
MAX_MESSAGE: Final = 500  # characters of an exception's message
BURST: Final = 10  # tracebacks on spans at once
EVERY_S: Final = 1.0  # interval of further tracebacks on spans


def brief_trace(error: BaseException) -> str:
    """Traceback of an error, limited to its end, where the cause is; each line is escaped."""
    trace = traceback.TracebackException.from_exception(error, limit=-MAX_FRAMES, compact=True)
    text = "".join(trace.format()).rstrip("\n")
    if len(text) > MAX_TRACE:
        text = "...\n" + text[-MAX_TRACE:].partition("\n")[2]
    return "\n".join(printable(line, most=MAX_LINE) for line in text.split("\n"))


class ExceptionRecorder:
    """Makes the records of exceptions for spans.

    Type and message are in each record. A traceback takes 0.1 to 0.3 ms to format, so that only some get one
    where many calls fail.

    Args:
        clock: monotonic clock, seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._bucket = TokenBucket(BURST, EVERY_S, clock())

    def record(self, error: BaseException) -> ExceptionRecord:
        """Record of an exception."""
        kind = type(error)
        return ExceptionRecord(
            kind=f"{kind.__module__}.{kind.__qualname__}" if kind.__module__ != "builtins" else kind.__name__,
            message=printable(str(error), most=MAX_MESSAGE),
            stacktrace=brief_trace(error) if self._bucket.take(self._clock()) else None,
        )
