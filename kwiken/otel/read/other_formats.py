"""Files that hold no traces that can be read: which tool wrote them, and what their owner can do."""

from __future__ import annotations

import codecs
import re
from typing import Final

SNIFFED: Final = 4096  # bytes at the start of a file or document in which marks are looked for
WRONG: Final = (
    "is neither OTLP JSON (objects with `resourceSpans`, one a line) nor Jaeger JSON (an object with `data`, "
    "or documents of its Elasticsearch index) nor Zipkin JSON (spans with `localEndpoint`)"
)
_BY_OTLP: Final = (
    "send the spans by OTLP to a Jaeger, or to an OpenTelemetry collector, whose file exporter writes OTLP "
    "JSON (`format: json`)"
)
_RECEIVER: Final = (
    "an OpenTelemetry collector with its {} receiver reads it, and its file exporter writes OTLP JSON"
)
_STARTS: Final = (
    (b"\x28\xb5\x2f\xfd", "is compressed by zstd; unpack it first, or compress it by gzip"),
    (b"PK\x03\x04", "is a zip archive; unpack it first"),
    (b"\xff\xfe", "is text in UTF-16; write it in UTF-8"),
    (b"\xfe\xff", "is text in UTF-16; write it in UTF-8"),
)
_BINARY: Final = re.compile(rb"[\x00-\x08\x0e-\x1f]")
_PROTOBUF: Final = (
    "is binary, such as OTLP in protobuf; set `format: json` in the collector's file exporter, or "
    "OTEL_EXPORTER_OTLP_PROTOCOL=http/json where the spans are sent"
)
# What a document of another tool holds near its start; the first that fits counts.
_MARKS: Final = tuple(
    (re.compile(mark), reason)
    for mark, reason in (
        (rb'"profile": ?"sha256:', "is a plan of kwiken, and traces are needed"),
        (
            rb'"latency_ms":\[',
            "is a profile of kwiken, and traces are needed; `kwiken explain` and `plan` take profiles",
        ),
        (rb'"resource_spans"', "names its fields in snake_case; OTLP JSON has `resourceSpans`"),
        (
            rb"\"trace_id\": ?\"0x|\"SpanContext\": ?{|\btraceId: '|Activity\.TraceId: ",
            f"is the output of OpenTelemetry's console exporter, which is for reading by eye; {_BY_OTLP}",
        ),
        (
            rb'ResourceSpans #|"resource spans": ?\d|"(?:name|otelcol\.component\.id)": ?"(?:debug|logging)"',
            f"is the output of a collector's debug exporter, which is for reading by eye; {_BY_OTLP}",
        ),
        (rb"LoggingSpanExporter", f"is what a logging exporter of OpenTelemetry wrote; {_BY_OTLP}"),
        (
            rb'"binaryAnnotations"|"value": ?"[cs][rs]"',
            "is Zipkin JSON of version 1; ask Zipkin's /api/v2/traces for version 2",
        ),
        (
            rb'"(?:[Tt]race_?[Ii]d|Id)": ?"1-[0-9a-f]{8}-[0-9a-f]{24}"',
            f"holds segments of AWS X-Ray; {_BY_OTLP}",
        ),
        (
            rb'"(?:traceSegmentId|trace_segment_id|segmentId|segment_id|endpointNames?|isSizeLimited)":',
            f"is of SkyWalking; {_RECEIVER.format('skywalking')}",
        ),
        (rb'"trace\.trace_id":|"trace\.span_id":', f"holds events of Honeycomb; {_BY_OTLP}"),
        (
            rb'"type": ?"spans?"|"trace_id": ?"?\d+"?[,}]|"resource_name":|"_dd\.|"dd\.trace_id"',
            f"is of Datadog; {_RECEIVER.format('datadog')}",
        ),
        (
            rb'"frames": ?\[|"schema": ?\{"',
            "holds data frames of a Grafana panel; download the trace itself, as from Tempo's /api/traces/ID",
        ),
        (
            rb'"root(?:Trace|Service)Name":',
            "is Tempo's answer to a search, which holds no spans; ask /api/traces/ID for each trace",
        ),
        (rb'"processor": ?\{"|"transaction\.id"|"transaction": ?\{"', f"is of Elastic APM; {_BY_OTLP}"),
        (
            rb'"TraceId": ?"|"Span_?Id": ?"|"@timestamp":',
            f"holds documents of another index than Jaeger's; {_BY_OTLP}",
        ),
        (rb'"projectId":', f"is of Google Cloud Trace; {_BY_OTLP}"),
        (rb'"operation_Id"|"operation_ParentId"', f"is of Azure Application Insights; {_BY_OTLP}"),
        (rb'"trace\.id":|"newrelic', f"is of New Relic or Elastic APM; {_BY_OTLP}"),
        (rb'"traceEvents"', f"is a trace of one program, for Chrome or Perfetto; {_BY_OTLP}"),
    )
)


def named(start: bytes) -> str | None:
    """Which other tool wrote a document, and the way out; None if that is not known.

    Args:
        start: first bytes of the document, `SNIFFED` or more.
    """
    for mark, reason in _STARTS:
        if start.startswith(mark):
            return reason
    start = start[:SNIFFED]
    if _BINARY.search(start) or _is_no_text(start):
        return _PROTOBUF
    return next((reason for mark, reason in _MARKS if mark.search(start)), None)


def _is_no_text(start: bytes) -> bool:
    """Whether these bytes are no text in UTF-8, of which the last character may be cut."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(start)
    except UnicodeDecodeError:
        return True
    return False
