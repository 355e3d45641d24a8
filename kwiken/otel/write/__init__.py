"""Span writer: request records converted to spans and written to files and collectors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwiken.lazy import lazy_names

if TYPE_CHECKING:
    from kwiken.otel.write.convert import otlp_lines, readable_spans
    from kwiken.otel.write.endpoint import collector_url
    from kwiken.otel.write.labels import OTHER, shorten
    from kwiken.otel.write.observer import ServerSpans, make_observer, resource
    from kwiken.otel.write.otlp_json import SCOPE, scope_version
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
    "OTHER",
    "SCOPE",
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
    "collector_url",
    "make_observer",
    "otlp_lines",
    "readable_spans",
    "resource",
    "scope_version",
    "shorten",
]

__getattr__ = lazy_names(
    __name__,
    {
        "kwiken.otel.write.convert": (
            "otlp_lines",
            "readable_spans",
        ),
        "kwiken.otel.write.endpoint": ("collector_url",),
        "kwiken.otel.write.otlp_json": (
            "SCOPE",
            "scope_version",
        ),
        "kwiken.otel.write.labels": (
            "OTHER",
            "shorten",
        ),
        "kwiken.otel.write.observer": (
            "ServerSpans",
            "make_observer",
            "resource",
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
