"""Rate and size limits of a server process' log: no caller may make it grow without bound.

The limits sit in a filter on the handlers, so that every logger of the process passes them, the event
loop's and the libraries' too. Lines are limited by kind: a logger, the template of its message and the type
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

BURST: Final = 10
EVERY_S: Final = 10.0
TOTAL_BURST: Final = 100
TOTAL_EVERY_S: Final = 1.0
MAX_KINDS: Final = 256
MAX_TEMPLATE: Final = 200
MAX_MESSAGE: Final = 1000
MAX_TRACE: Final = 3000
# A service's own loggers are its author's business.
OURS: Final = frozenset({"kwiken", "asyncio", "aiohttp", "concurrent", "opentelemetry", "urllib3"})

LOOP_LOG = logging.getLogger("kwiken.loop")
_VERDICT: Final = "_kwiken_passed"


class TokenBucket:
    """Token bucket of log lines.

    Args:
        burst: lines that may come at once.
        every_s: seconds after which there is room for one more.
        now: seconds on any clock.
    """

    __slots__ = ("_at", "_burst", "_every_s", "_left", "unsaid")

    def __init__(self, burst: int, every_s: float, now: float) -> None:
        self._burst = burst
        self._every_s = every_s
        self._left = float(burst)
        self._at = now
        self.unsaid = 0

    def take(self, now: float) -> bool:
        """Whether one more line has room now."""
        self._left = min(self._burst, self._left + (now - self._at) / self._every_s)
        self._at = now
        if self._left < 1.0:
            return False
        self._left -= 1.0
        return True


class LineLimits:
    """Rate limits of log lines, for each kind and over all kinds. A state machine; the time is passed in."""

    def __init__(self) -> None:
        self._kinds: OrderedDict[tuple[str, ...], TokenBucket] = OrderedDict()
        self._total: TokenBucket | None = None

    def take(self, kind: tuple[str, ...], now: float) -> int | None:
        """How many lines of this kind were left out before this one; None when this one is left out too.

        Args:
            kind: what lines have in common.
            now: seconds on any clock.
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
    """Logging filter: warnings and worse of ours are limited in rate and size, tracebacks too.

    Args:
        clock: seconds, monotonic.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._limits = LineLimits()

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is logged; one that is, is cut to size in place."""
        if record.levelno < logging.WARNING or record.name.partition(".")[0] not in OURS:
            return True
        passed: bool | None = record.__dict__.get(_VERDICT)  # another handler's filter may have asked before
        if passed is None:
            passed = record.__dict__[_VERDICT] = self._judge(record)
        return passed

    def _judge(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        kind = (record.name, str(record.msg)[:MAX_TEMPLATE], type(error).__name__)
        unsaid = self._limits.take(kind, self._clock())
        if unsaid is None:
            return False
        more = f" ({unsaid} more like this were left out)" if unsaid else ""
        record.msg, record.args = one_line(record.getMessage(), MAX_MESSAGE) + more, ()
        if error is not None:
            record.exc_text = brief_trace(error)
            record.exc_info = None
        record.stack_info = None
        return True


def one_line(text: str, most: int) -> str:
    """A text on one line of printable characters, so that no caller can forge lines or steer a terminal."""
    plain = "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text[:most]
    )
    return plain if len(text) <= most else f"{plain}..."


def brief_trace(error: BaseException) -> str:
    """An error's traceback; of a long one the end, where the cause is."""
    lines = "".join(traceback.TracebackException.from_exception(error, limit=-12, compact=True).format())
    cut = lines.rstrip("\n")
    if len(cut) > MAX_TRACE:
        cut = "...\n" + cut[-MAX_TRACE:].partition("\n")[2]
    return "\n".join(one_line(line, MAX_MESSAGE) for line in cut.split("\n"))


def limit_logs() -> None:
    """Limit what this process logs from now on; of handlers that are added later nothing is known."""
    limits = LimitFilter()
    last_resort = [logging.lastResort] if logging.lastResort is not None else []
    for handler in (*logging.getLogger().handlers, *last_resort):
        if not any(isinstance(each, LimitFilter) for each in handler.filters):
            handler.addFilter(limits)


def log_loop_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Exception handler of an event loop: one kind of line for each type of exception.

    asyncio's own puts addresses of objects into the template, so that no two lines are of one kind.
    """
    del loop
    error = context.get("exception")
    LOOP_LOG.error("%s", context.get("message") or "unhandled error in the event loop", exc_info=error)
