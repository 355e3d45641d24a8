"""Trace reader: OTLP and Jaeger JSON, from files or a running Jaeger, into columns of spans."""

from __future__ import annotations

from kwiken.otel.read.columns import NO_KIND, NO_TEXT, OTHER, Bools, Ids, Ints, Names, Rows, taken
from kwiken.otel.read.file_reader import FileReader
from kwiken.otel.read.http_api import Bounds, QueryAddress, downloaded
from kwiken.otel.read.inputs import find_files
from kwiken.otel.read.jaeger_api import JaegerQuery, fetched
from kwiken.otel.read.kw_attributes import KINDS, OUTCOMES
from kwiken.otel.read.span_store import MAX_SPANS, SpanStore, select, trace_keys

__all__ = [
    "KINDS",
    "MAX_SPANS",
    "NO_KIND",
    "NO_TEXT",
    "OTHER",
    "OUTCOMES",
    "Bools",
    "Bounds",
    "FileReader",
    "Ids",
    "Ints",
    "JaegerQuery",
    "Names",
    "QueryAddress",
    "Rows",
    "SpanStore",
    "downloaded",
    "fetched",
    "find_files",
    "select",
    "taken",
    "trace_keys",
]
