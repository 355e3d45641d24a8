"""Span exporter over OTLP/HTTP, on the SDK's batch processor, with counts of exported and lost spans."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Final

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from kwiken.otel.http.bounded_answers import COLLECTOR
from kwiken.otel.http.exporter_session import collector_session
from kwiken.otel.write.endpoint import collector_url
from kwiken.otel.write.labels import Value
from kwiken.otel.write.sdk_spans import Readable
from kwiken.otel.write.span_model import SpanData

TRACES_PATH: Final = "/v1/traces"
MAX_QUEUED_SPANS: Final = 65_536
# Small batches: encoding one holds the interpreter's lock, which a gateway needs too.
MAX_BATCH_SPANS: Final = 256
_DELAY_MS: Final = 500.0
_POLL_S: Final = 0.02


class Counting(SpanExporter):
    """Exporter that counts the spans that an inner exporter accepted and refused."""

    def __init__(self, inner: SpanExporter) -> None:
        self._inner = inner
        self._lock = threading.Lock()
        self.exported = 0
        self.failed = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Export a batch through the inner exporter, and count its spans."""
        try:
            result = self._inner.export(spans)
        except Exception:
            with self._lock:
                self.failed += len(spans)
            raise
        with self._lock:
            if result is SpanExportResult.SUCCESS:
                self.exported += len(spans)
            else:
                self.failed += len(spans)
        return result

    def shutdown(self) -> None:
        """Shut the inner exporter down; it stops retrying the current batch."""
        self._inner.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Flush the inner exporter."""
        return self._inner.force_flush(timeout_millis)


class Collector:
    """Asynchronous exporter of span data to a collector.

    Args:
        endpoint: `http://HOST:PORT`, or the full URL of the collector's traces path.
        exporter: exporter to use instead of OTLP over HTTP, for tests.

    Raises:
        InputError: the endpoint is no HTTP URL.
    """

    def __init__(
        self, endpoint: str, resource: Mapping[str, Value], *, exporter: SpanExporter | None = None
    ) -> None:
        url = collector_url(endpoint, TRACES_PATH, option="otlp")
        self._readable = Readable(resource)
        self._exporter = Counting(
            exporter
            or OTLPSpanExporter(endpoint=url, timeout=COLLECTOR.timeout_s, session=collector_session())
        )
        self._processor = BatchSpanProcessor(
            self._exporter,
            max_queue_size=MAX_QUEUED_SPANS,
            schedule_delay_millis=_DELAY_MS,
            max_export_batch_size=MAX_BATCH_SPANS,
        )
        self._offered = 0
        self._closed = False

    @property
    def exported(self) -> int:
        """Number of spans that the collector accepted."""
        return self._exporter.exported

    @property
    def failed(self) -> int:
        """Number of spans that the collector refused or that never reached it."""
        return self._exporter.failed

    @property
    def dropped(self) -> int:
        """Number of spans dropped because the queue was full; known once closed, 0 before."""
        return self._offered - self.exported - self.failed if self._closed else 0

    def send(self, span: SpanData) -> None:
        """Queue one span."""
        self._offered += 1
        self._processor.on_end(self._readable(span))

    def close(self, timeout_s: float = COLLECTOR.whole_s) -> None:
        """Send the queued spans for at most about `timeout_s` seconds, then drop the rest."""
        end = time.monotonic() + timeout_s
        stopper = threading.Thread(target=self._processor.shutdown, name="kwiken-spans-close", daemon=True)
        stopper.start()
        while stopper.is_alive() and time.monotonic() < end:
            stopper.join(_POLL_S)
        if stopper.is_alive():
            self._exporter.shutdown()  # ends the wait between retries
            stopper.join(COLLECTOR.whole_s)
        self._closed = True
