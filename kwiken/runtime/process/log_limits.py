"""Rate-limited log filter: no client can make the log of a server process grow without limit.

The filter is attached to the handlers, so that it applies to every logger of the process, including those of
the event loop and of libraries. Lines are limited by kind: a logger, the template of its message and the type
of the exception.
"""

from __future__ import annotations

import asyncio
import logging
import time
import traceback
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

BURST: Final = 10  # lines of one kind at once
EVERY_S: Final = 10.0  # interval of further lines of one kind
TOTAL_BURST: Final = 100  # lines of all kinds at once
TOTAL_EVERY_S: Final = 1.0  # interval of further lines of all kinds
MAX_KINDS: Final = 256
MAX_TEMPLATE: Final = 200  # characters
MAX_MESSAGE: Final = 1000  # characters
MAX_TRACE: Final = 3000  # characters
# A service's own loggers are not limited.
OURS: Final = frozenset({"kwiken", "asyncio", "aiohttp", "concurrent", "opentelemetry", "urllib3"})

LOOP_LOG = logging.getLogger("kwiken.loop")
_VERDICT: Final = "_kwiken_passed"


class TokenBucket:
    """Token bucket of log lines.

    Args:
        burst: number of lines at once, 1 or more.
        every_s: time after which one more line is allowed, seconds.
        now: present time, seconds of any clock.
    """

    __slots__ = ("_at", "_burst", "_every_s", "_left", "unsaid")

    def __init__(self, burst: int, every_s: float, now: float) -> None:
        self._burst = burst
        self._every_s = every_s
        self._left = float(burst)
        self._at = now
        self.unsaid = 0

    def take(self, now: float) -> bool:
        """Take one line if the bucket allows it; returns whether it did."""
        self._left = min(self._burst, self._left + (now - self._at) / self._every_s)
        self._at = now
        if self._left < 1.0:
            return False
        self._left -= 1.0
        return True


class LineLimits:
    """Rate limits of log lines, per kind and in total. A state machine; the time is passed in."""

    def __init__(self) -> None:
        self._kinds: OrderedDict[tuple[str, ...], TokenBucket] = OrderedDict()
        self._total: TokenBucket | None = None

    def take(self, kind: tuple[str, ...], now: float) -> int | None:
        """Judge a line: None to omit it, else the number of lines of its kind omitted since the last one.

        Args:
            kind: logger, template and exception type of the line.
            now: present time, seconds of any clock.
        """
        bucket = self._kinds.get(kind)
        if bucket is None:
            bucket = self._kinds[kind] = TokenBucket(BURST, EVERY_S, now)
            if len(self._kinds) > MAX_KINDS:
                self._kinds.popitem(last=False)
        self._kinds.move_to_end(kind)
        if self._total is None:
            self._total = TokenBucket(TOTAL_BURST, TOTAL_EVERY_S, now)
        if not (bucket.take(now) and self._total.take(now)):
            bucket.unsaid += 1
            return None
        unsaid, bucket.unsaid = bucket.unsaid, 0
        return unsaid


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
        kind = (record.name, str(record.msg)[:MAX_TEMPLATE], type(error).__name__)
        unsaid = self._limits.take(kind, self._clock())
        if unsaid is None:
            return False
        more = f" ({unsaid} more like this were omitted)" if unsaid else ""
        record.msg, record.args = one_line(record.getMessage(), MAX_MESSAGE) + more, ()
        if error is not None:
            record.exc_text = brief_trace(error)
            record.exc_info = None
        record.stack_info = None
        return True


def one_line(text: str, most: int) -> str:
    """Escape a text into one printable line, so that no client can forge lines or control a terminal."""
    plain = "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text[:most]
    )
    return plain if len(text) <= most else f"{plain}..."


def brief_trace(error: BaseException) -> str:
    """Traceback of an error, limited to its end, where the cause is."""
    lines = "".join(traceback.TracebackException.from_exception(error, limit=-12, compact=True).format())
    cut = lines.rstrip("\n")
    if len(cut) > MAX_TRACE:
        cut = "...\n" + cut[-MAX_TRACE:].partition("\n")[2]
    return "\n".join(one_line(line, MAX_MESSAGE) for line in cut.split("\n"))


def limit_logs() -> None:
    """Limit what this process logs, by its present handlers; handlers added later are not limited."""
    limits = LimitFilter()
    last_resort = [logging.lastResort] if logging.lastResort is not None else []
    for handler in (*logging.getLogger().handlers, *last_resort):
        if not any(isinstance(each, LimitFilter) for each in handler.filters):
            handler.addFilter(limits)


def log_loop_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Exception handler of an event loop: logs one kind of line for each type of exception.

    asyncio's own handler puts addresses of objects into the template, so that every line is of another kind.
    """
    del loop
    error = context.get("exception")
    LOOP_LOG.error("%s", context.get("message") or "unhandled error in the event loop", exc_info=error)
