"""Stores of spans, bounded, and what puts the spans of several processes into one."""

from __future__ import annotations

from kwiken.otel.read.store.renumbering import NameTables as NameTables
from kwiken.otel.read.store.span_store import (
    MAX_SPANS as MAX_SPANS,
    SpanStore as SpanStore,
    StoredSpans as StoredSpans,
    select as select,
    trace_keys as trace_keys,
)
