"""Span writer: request records converted to spans and written to files and collectors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwiken.lazy import lazy_names

if TYPE_CHECKING:
    from kwiken.otel.write.convert import otlp_lines, readable_spans
    from kwiken.otel.write.observer import ServerSpans, make_observer
    from kwiken.otel.write.records import (
        AttemptKind,
        AttemptRecord,
        ExceptionRecord,
        Observer,
        Outcome,
        RequestRecord,
        Sample,
        StageRecord,
    )
    from kwiken.otel.write.sdk_exporter import OtlpLinesExporter
    from kwiken.otel.write.span_model import attempt_name

__all__ = [
    "AttemptKind",
    "AttemptRecord",
    "ExceptionRecord",
    "Observer",
    "OtlpLinesExporter",
    "Outcome",
    "RequestRecord",
    "Sample",
    "ServerSpans",
    "StageRecord",
    "attempt_name",
    "make_observer",
    "otlp_lines",
    "readable_spans",
]

__getattr__ = lazy_names(
    __name__,
    {
        "kwiken.otel.write.convert": (
            "otlp_lines",
            "readable_spans",
        ),
        "kwiken.otel.write.observer": (
            "ServerSpans",
            "make_observer",
        ),
        "kwiken.otel.write.records": (
            "AttemptKind",
            "AttemptRecord",
            "ExceptionRecord",
            "Observer",
            "Outcome",
            "RequestRecord",
            "Sample",
            "StageRecord",
        ),
        "kwiken.otel.write.sdk_exporter": ("OtlpLinesExporter",),
        "kwiken.otel.write.span_model": ("attempt_name",),
    },
)
