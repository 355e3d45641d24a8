"""Formats of log lines: text for people and JSON for programs, with time, level, event and trace."""

from __future__ import annotations

import logging
import time
from typing import Final

import msgspec

from kwiken.base.printable import printable
from kwiken.runtime.base.log_events import EVENT, TRACE
from kwiken.runtime.gateway.settings import LogFormat

NO_EVENT: Final = "other"
LIBRARY: Final = "kwiken"


class _Line(logging.Formatter):
    """Formatter that knows a record's moment, event and trace."""

    def __init__(self, process: str) -> None:
        super().__init__()
        self._process = process

    @staticmethod
    def _moment(record: logging.LogRecord) -> str:
        """Time of a record in UTC, to the millisecond (RFC 3339)."""
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        return f"{seconds}.{int(record.msecs):03d}Z"

    @staticmethod
    def _event(record: logging.LogRecord) -> str:
        found = record.__dict__.get(EVENT)
        return found if isinstance(found, str) else NO_EVENT

    @staticmethod
    def _trace(record: logging.LogRecord) -> str | None:
        found = record.__dict__.get(TRACE)
        return found if isinstance(found, str) else None

    def _stack(self, record: logging.LogRecord) -> str | None:
        """Traceback of a record; the limits on lines may have shortened it before."""
        if record.exc_text is None and record.exc_info:
            record.exc_text = self.formatException(record.exc_info)
        return record.exc_text


class TextLine(_Line):
    """A line for people: time, level, process, event, message and trace; an indented traceback follows.

    Whatever a message or an error holds, no line of it can be taken for one of the log.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Format a record."""
        trace, stack = self._trace(record), self._stack(record)
        line = (
            f"{self._moment(record)} {record.levelname} {self._process} {self._event(record)}: "
            f"{record.getMessage()}" + (f" (trace {trace})" if trace else "")
        )
        return "\n    ".join([line, *map(printable, stack.splitlines())]) if stack else line


class JsonLine(_Line):
    """A line of JSON, whatever the message holds.

    Fields: `time`, `level`, `process`, `event`, `message`, and where they apply `trace_id` and `stacktrace`;
    `logger` for a line that is not this project's.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Format a record."""
        line = {
            "time": self._moment(record),
            "level": record.levelname.lower(),
            "process": self._process,
            "event": self._event(record),
            "message": record.getMessage(),
        }
        if (trace := self._trace(record)) is not None:
            line["trace_id"] = trace
        if (stack := self._stack(record)) is not None:
            line["stacktrace"] = stack
        if record.name.partition(".")[0] != LIBRARY:
            line["logger"] = printable(record.name)
        return msgspec.json.encode(line).decode()


def formatter_of(log_format: LogFormat, process: str) -> logging.Formatter:
    """Formatter of a process's lines.

    Args:
        process: name of the process in each line.
    """
    return JsonLine(process) if log_format == "json" else TextLine(process)
