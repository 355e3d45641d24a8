"""Rate-limited log filter: no client can make the log of a server process grow without limit.

The filter is attached to the handlers, so that it applies to every logger of the process, including those of
the event loop and of libraries. Lines are limited by kind: a logger, the template of its message and the type
of the exception.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

from kwiken.base.printable import printable
from kwiken.runtime.base.log_events import EVENT, Event, about
from kwiken.runtime.base.token_bucket import TokenBucket
from kwiken.runtime.base.tracebacks import brief_trace
from kwiken.runtime.gateway.settings import LogFormat, LogLevel
from kwiken.runtime.process.log_format import LIBRARY, formatter_of

BURST: Final = 10  # lines of one kind at once
EVERY_S: Final = 10.0  # interval of further lines of one kind
TOTAL_BURST: Final = 100  # lines of all kinds at once
TOTAL_EVERY_S: Final = 1.0  # interval of further lines of all kinds
MAX_KINDS: Final = 256
MAX_TEMPLATE: Final = 200  # characters
MAX_MESSAGE: Final = 1000  # characters
# A service's own loggers are not limited.
OURS: Final = frozenset({"kwiken", "asyncio", "aiohttp", "concurrent", "opentelemetry", "urllib3"})

LOOP_LOG = logging.getLogger("kwiken.loop")
_VERDICT: Final = "_kwiken_passed"


class _Kind:
    """Lines of one kind: their bucket, and the number omitted since the last one."""

    __slots__ = ("bucket", "omitted")

    def __init__(self, now: float) -> None:
        self.bucket = TokenBucket(BURST, EVERY_S, now)
        self.omitted = 0


class LineLimits:
    """Rate limits of log lines, per kind and in total. A state machine; the time is passed in."""

    def __init__(self) -> None:
        self._kinds: OrderedDict[tuple[str, ...], _Kind] = OrderedDict()
        self._total: TokenBucket | None = None

    def take(self, kind: tuple[str, ...], now: float) -> int | None:
        """Judge a line: None to omit it, else the number of lines of its kind omitted since the last one.

        Args:
            kind: logger, template and exception type of the line.
            now: present time, seconds of any clock.
        """
        lines = self._kinds.get(kind)
        if lines is None:
            lines = self._kinds[kind] = _Kind(now)
            if len(self._kinds) > MAX_KINDS:
                self._kinds.popitem(last=False)
        self._kinds.move_to_end(kind)
        if self._total is None:
            self._total = TokenBucket(TOTAL_BURST, TOTAL_EVERY_S, now)
        if not (lines.bucket.take(now) and self._total.take(now)):
            lines.omitted += 1
            return None
        omitted, lines.omitted = lines.omitted, 0
        return omitted


class LimitFilter(logging.Filter):
    """Logging filter that limits warnings and errors of this project and its libraries in rate and size.

    Args:
        clock: monotonic clock, seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._limits = LineLimits()

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to log a record; a record that is logged is shortened in place."""
        if record.levelno < logging.WARNING or record.name.partition(".")[0] not in OURS:
            return True
        passed: bool | None = record.__dict__.get(_VERDICT)  # set by the filter of another handler
        if passed is None:
            passed = record.__dict__[_VERDICT] = self._judge(record)
        return passed

    def _judge(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        event = str(record.__dict__.get(EVENT, ""))
        kind = (record.name, event, str(record.msg)[:MAX_TEMPLATE], type(error).__name__)
        omitted = self._limits.take(kind, self._clock())
        if omitted is None:
            return False
        more = f" ({omitted} more like this were omitted)" if omitted else ""
        record.msg, record.args = printable(record.getMessage(), most=MAX_MESSAGE) + more, ()
        if error is not None:
            record.exc_text = brief_trace(error)
            record.exc_info = None
        record.stack_info = None
        return True


def set_up_logs(log_format: LogFormat, process: str, *, level: LogLevel = "info") -> None:
    """Limit and format what this process logs, by its present handlers; later ones are not limited.

    Handlers that the service's code has set keep their format. Without any, lines go to standard error in the
    given format, from the given level on; libraries of this project log warnings and errors alone, unless the
    level is `debug`.

    Args:
        process: name of the process in each line.
        level: lowest level of lines where the service's code has set no handlers.
    """
    limits = LimitFilter()
    last_resort = [logging.lastResort] if logging.lastResort is not None else []
    lowest = logging.getLevelNamesMapping()[level.upper()]
    for handler in last_resort:
        handler.setLevel(lowest)
        handler.setFormatter(formatter_of(log_format, process))
    root = logging.getLogger()
    if not root.handlers:
        root.setLevel(lowest)
        for name in OURS - {LIBRARY}:
            logging.getLogger(name).setLevel(lowest if level == "debug" else logging.WARNING)
        if log_format == "json":  # Python's own warnings would be plain lines
            logging.captureWarnings(capture=True)
            for handler in last_resort:
                logging.getLogger("py.warnings").addHandler(handler)
    for handler in (*root.handlers, *last_resort):
        if not any(isinstance(each, LimitFilter) for each in handler.filters):
            handler.addFilter(limits)


def log_loop_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Exception handler of an event loop: logs one kind of line for each type of exception.

    asyncio's own handler puts addresses of objects into the template, so that every line is of another kind.
    """
    del loop
    error = context.get("exception")
    LOOP_LOG.error(
        "%s",
        context.get("message") or "unhandled error in the event loop",
        exc_info=error,
        extra=about(Event.LOOP_ERROR),
    )
