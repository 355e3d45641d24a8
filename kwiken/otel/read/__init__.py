"""Trace reader: OTLP, Jaeger and Zipkin JSON into columns of spans."""

from __future__ import annotations

from kwiken.otel.read.columns import (
    NO_KIND as NO_KIND,
    NO_TEXT as NO_TEXT,
    OTHER as OTHER,
    Bools as Bools,
    Ids as Ids,
    Ints as Ints,
    Names as Names,
    Rows as Rows,
    taken as taken,
    without_ids as without_ids,
)
from kwiken.otel.read.file_reader import FileReader as FileReader
from kwiken.otel.read.inputs import TraceFile as TraceFile, find_files as find_files
from kwiken.otel.read.kw_attributes import KINDS as KINDS, OUTCOMES as OUTCOMES
from kwiken.otel.read.span_store import (
    SpanStore as SpanStore,
    StoredSpans as StoredSpans,
    select as select,
    spans_within as spans_within,
    trace_keys as trace_keys,
)
