"""OpenTelemetry SDK exporter that writes any tracer's spans to rotating files of OTLP JSON lines."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from kwiken.otel.write.otlp_json import OtlpLines
from kwiken.otel.write.rotating_files import FileCounts, LineFiles
from kwiken.otel.write.sdk_spans import span_data


class OtlpLinesExporter(SpanExporter):
    """Span exporter to rotating files of OTLP JSON lines, for a `BatchSpanProcessor`.

    Args:
        folder: folder of the files, made if it is missing.
        max_bytes: maximal size of one file, bytes.
        max_files: maximal number of files of this name; the oldest are deleted first.

    Raises:
        OSError: the folder cannot be made.
    """

    def __init__(self, folder: Path, name: str, *, max_bytes: int = 64 << 20, max_files: int = 16) -> None:
        self._files = LineFiles(folder, name, max_bytes, max_files)
        self._lock = threading.Lock()
        self._closed = False

    @property
    def counts(self) -> FileCounts:
        """Counts of lines written and lost."""
        return self._files.counts

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Write a batch: a line for each resource and scope in it."""
        with self._lock:
            if self._closed:
                return SpanExportResult.FAILURE
            lost = self._files.counts.lost_lines
            self._files.write([_line(list(group)) for _, group in groupby(spans, key=_origin)])
            kept = self._files.counts.lost_lines == lost
            return SpanExportResult.SUCCESS if kept else SpanExportResult.FAILURE

    def shutdown(self) -> None:
        """Close the file."""
        with self._lock:
            self._closed = True
            self._files.close()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:  # noqa: ARG002 - the SDK's signature
        """Return True at once, because nothing is buffered."""
        return True


def _origin(span: ReadableSpan) -> tuple[int, int]:
    return id(span.resource), id(span.instrumentation_scope)


def _line(spans: list[ReadableSpan]) -> bytes:
    first = spans[0]
    scope = first.instrumentation_scope
    encoder = OtlpLines(
        first.resource.attributes,
        (scope.name, scope.version or "") if scope is not None else ("", ""),
        (first.resource.schema_url, (scope.schema_url or "") if scope is not None else ""),
    )
    return encoder.line([span_data(span) for span in spans])
