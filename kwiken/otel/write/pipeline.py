"""Background pipeline from records to files and collectors; a bounded queue keeps callers from waiting."""

from __future__ import annotations

import atexit
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from kwiken.otel.write.labels import Value
from kwiken.otel.write.otlp_json import OtlpLines
from kwiken.otel.write.rotating_files import LineFiles
from kwiken.otel.write.span_model import SpanData

if TYPE_CHECKING:
    from kwiken.otel.write.collector import Collector

Item = TypeVar("Item")
LOG = logging.getLogger("kwiken.spans")
# The event's name in the log, as in `kwiken.runtime.base.log_events`, which this package may not import.
NOT_CONVERTED: Final = {"kw_event": "record_not_converted"}
MAX_QUEUE: Final = 20_000
_TICK_S: Final = 0.2
_LINES_A_WRITE: Final = 64
# Work after which the thread pauses, so that an event loop in the same process soon gets the interpreter's
# lock back, not after the 5 ms that a busy thread may keep it. A pause costs some 20 us of processor time,
# about half of what a line costs, so there is not one after each line.
_MAX_HOLD_S: Final = 0.0001
_YIELD_S: Final = 0.00005
_POLL_S: Final = 0.01
_CLOSE_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class SpanCounts:
    """Counts of a pipeline's records, spans and lines.

    Attributes:
        dropped: number of records refused because the queue was full or closed.
        not_sampled: number of calls without a span, because their caller does not record the trace.
        spans: number of spans made of the records.
        bad: number of records that could not be converted to spans.
        bytes: number of bytes written to files.
        lost_lines: number of lines that could not be written.
        exported: number of spans that the collector accepted.
        export_failed: number of spans that the collector refused, or that never reached it.
        export_dropped: number of spans dropped before they were sent; known once closed.
        last_error: message of the last error of the files; None for none.
    """

    taken: int = 0
    dropped: int = 0
    not_sampled: int = 0
    spans: int = 0
    bad: int = 0
    lines: int = 0
    bytes: int = 0
    lost_lines: int = 0
    exported: int = 0
    export_failed: int = 0
    export_dropped: int = 0
    last_error: str | None = None


class Pipeline(Generic[Item]):
    """Queue of records, with a thread that writes their spans; records come from any thread.

    Args:
        spans_of: function that makes the spans of one record; runs in the pipeline's thread.
        resource: attributes of the resource of all spans.
        files: files for OTLP JSON lines; None for none.
        collector: collector for spans; None for none.
        per_line: maximal number of records in one line, 1 or more.
    """

    def __init__(
        self,
        spans_of: Callable[[Item], list[SpanData]],
        resource: Mapping[str, Value],
        *,
        files: LineFiles | None,
        collector: Collector | None,
        per_line: int = 1,
    ) -> None:
        self._spans_of = spans_of
        self._encoder = OtlpLines(resource)
        self._files = files
        self._collector = collector
        self._per_line = per_line
        self._queue: deque[Item] = deque()
        self._taken = self._dropped = self._spans = self._bad = 0
        self._wake = threading.Event()
        self._idle = True
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="kwiken-spans", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def put(self, item: Item) -> None:
        """Queue one record, or drop it if the queue is full or closed; returns at once."""
        if self._closed or len(self._queue) >= MAX_QUEUE:
            self._dropped += 1
            return
        self._taken += 1
        self._queue.append(item)

    def flush(self, timeout_s: float = 5.0) -> bool:
        """Wait until all queued records are in the files; False after `timeout_s` seconds."""
        end = time.monotonic() + timeout_s
        while (self._queue or not self._idle) and self._thread.is_alive():
            if time.monotonic() > end:
                return False
            self._wake.set()
            time.sleep(_POLL_S)
        return True

    def close(self, timeout_s: float = _CLOSE_S) -> None:
        """Write the queued records, close the file, and stop; a second call does nothing."""
        if self._closed:
            return
        self._closed = True
        atexit.unregister(self.close)
        self._wake.set()
        self._thread.join(timeout_s)
        if self._collector is not None:
            self._collector.close()

    def counts(self) -> SpanCounts:
        """Counts so far."""
        files = self._files.counts if self._files is not None else None
        collector = self._collector
        return SpanCounts(
            taken=self._taken,
            dropped=self._dropped,
            spans=self._spans,
            bad=self._bad,
            lines=files.lines if files is not None else 0,
            bytes=files.bytes if files is not None else 0,
            lost_lines=files.lost_lines if files is not None else 0,
            exported=collector.exported if collector is not None else 0,
            export_failed=collector.failed if collector is not None else 0,
            export_dropped=collector.dropped if collector is not None else 0,
            last_error=files.last_error if files is not None else None,
        )

    def _run(self) -> None:
        while not self._closed:
            self._wake.wait(_TICK_S)
            self._wake.clear()
            self._drain()
        self._drain()
        if self._files is not None:
            self._files.close()

    def _drain(self) -> None:
        self._idle = False
        lines: list[bytes] = []
        resumed = time.monotonic()
        while self._queue:
            spans = self._take()
            if not spans:
                continue
            if self._files is not None:
                lines.append(self._encoder.line(spans))
            if self._collector is not None:
                for span in spans:
                    self._collector.send(span)
            if len(lines) >= _LINES_A_WRITE:
                self._write(lines)
                lines = []
            if time.monotonic() - resumed >= _MAX_HOLD_S:
                time.sleep(_YIELD_S)
                resumed = time.monotonic()
        self._write(lines)
        self._idle = True

    def _take(self) -> list[SpanData]:
        spans: list[SpanData] = []
        for _ in range(min(self._per_line, len(self._queue))):
            try:
                spans.extend(self._spans_of(self._queue.popleft()))
            except Exception:
                self._bad += 1
                LOG.exception("a record could not be converted to spans", extra=NOT_CONVERTED)
        self._spans += len(spans)
        return spans

    def _write(self, lines: list[bytes]) -> None:
        if lines and self._files is not None:
            self._files.write(lines)
