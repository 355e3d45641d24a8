"""Conversion of request records to OTLP JSON lines and SDK spans, without an observer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from kwiken.base.extras import needs
from kwiken.otel.write.labels import Labels
from kwiken.otel.write.observer import resource
from kwiken.otel.write.otlp_json import OtlpLines
from kwiken.otel.write.records import RequestRecord
from kwiken.otel.write.span_model import request_spans

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan


def otlp_lines(service: str, records: Iterable[RequestRecord]) -> Iterator[bytes]:
    """OTLP JSON lines of a service's requests, one a line, newline included."""
    encoder, labels = OtlpLines(resource(service)), Labels()
    for record in records:
        yield encoder.line(request_spans(record, labels))


def readable_spans(service: str, records: Iterable[RequestRecord]) -> Iterator[ReadableSpan]:
    """OpenTelemetry SDK spans of a service's requests, for any exporter of the SDK."""
    with needs("kwiken.otel.readable_spans", "otel"):
        from kwiken.otel.write.sdk_spans import Readable

    readable, labels = Readable(resource(service)), Labels()
    for record in records:
        for span in request_spans(record, labels):
            yield readable(span)
