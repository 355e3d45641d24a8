"""Spans to a collector over OTLP/HTTP, by the SDK's batch processor and exporter; drops are counted."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from kwiken.errors import InputError
from kwiken.otel.write.labels import Value
from kwiken.otel.write.sdk_spans import Readable
from kwiken.otel.write.span_model import SpanNote

QUEUE: Final = 65_536
# Small batches: encoding one holds the interpreter's lock, and a gateway shares it.
BATCH: Final = 256
_DELAY_MS: Final = 500.0
_TIMEOUT_S: Final = 5.0
_POLL_S: Final = 0.02


class Counting(SpanExporter):
    """Counts what another exporter took and what it refused."""

    def __init__(self, inner: SpanExporter) -> None:
        self._inner = inner
        self._lock = threading.Lock()
        self.exported = 0
        self.failed = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Export and count."""
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
        """Shut the other exporter down; retries of a batch under way end."""
        self._inner.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Flush the other exporter."""
        return self._inner.force_flush(timeout_millis)


class Collector:
    """Sends span notes to a collector.

    Args:
        endpoint: `http://HOST:PORT`, or the full URL of its traces path.
        resource: attributes of the resource.
        exporter: in place of OTLP/HTTP, for tests.

    Raises:
        InputError: an endpoint that is no HTTP URL.
    """

    def __init__(
        self, endpoint: str, resource: Mapping[str, Value], *, exporter: SpanExporter | None = None
    ) -> None:
        url = traces_url(endpoint)
        self._readable = Readable(resource)
        self._exporter = Counting(exporter or OTLPSpanExporter(endpoint=url, timeout=_TIMEOUT_S))
        self._processor = BatchSpanProcessor(
            self._exporter,
            max_queue_size=QUEUE,
            schedule_delay_millis=_DELAY_MS,
            max_export_batch_size=BATCH,
        )
        self._offered = 0
        self._closed = False

    @property
    def exported(self) -> int:
        """Spans that the collector took."""
        return self._exporter.exported

    @property
    def failed(self) -> int:
        """Spans that the collector refused or that never reached it."""
        return self._exporter.failed

    @property
    def dropped(self) -> int:
        """Spans lost before they were sent, the queue being full; final once closed, else 0."""
        return self._offered - self.exported - self.failed if self._closed else 0

    def send(self, note: SpanNote) -> None:
        """Queue one span."""
        self._offered += 1
        self._processor.on_end(self._readable(note))

    def close(self, timeout_s: float = _TIMEOUT_S) -> None:
        """Send what is queued, for at most about `timeout_s`; then give up on the rest."""
        end = time.monotonic() + timeout_s
        stopper = threading.Thread(target=self._processor.shutdown, name="kwiken-spans-close", daemon=True)
        stopper.start()
        while stopper.is_alive() and time.monotonic() < end:
            stopper.join(_POLL_S)
        if stopper.is_alive():
            self._exporter.shutdown()  # a batch waiting to be tried again gives up now
            stopper.join(_TIMEOUT_S)
        self._closed = True


def traces_url(endpoint: str) -> str:
    """The URL of a collector's traces path.

    Raises:
        InputError: no HTTP URL.
    """
    try:
        parts = urlsplit(endpoint)
        fits = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        fits = False
    if not fits:
        raise InputError(f"{endpoint!r} is no URL of a collector; give http://HOST:4318", where="otlp")
    path = parts.path if parts.path not in {"", "/"} else "/v1/traces"
    return urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))
