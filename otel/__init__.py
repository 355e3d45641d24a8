"""The senses: spans out, traces in.

Importing this loads neither the OpenTelemetry SDK nor NumPy: replicas import it and start fast.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from otel._notes import CallNote
from otel._records import AttemptKind, AttemptRecord, Observer, Outcome, RequestRecord, StageRecord

if TYPE_CHECKING:
    from otel._convert import otlp_lines, readable_spans
    from otel._critical_path import Step, critical_path
    from otel._fit import Fits, fit_profile, fit_profiles
    from otel._observer import RequestSpans, ServerSpans, make_observer
    from otel._pipeline import SpanCounts
    from otel._read_requests import read_requests
    from otel._sink import OtlpLinesExporter
    from otel._traces import OwnMarks, Trace, Traces, TraceSpan, read_traces

_LAZY = {
    "Fits": "otel._fit",
    "OtlpLinesExporter": "otel._sink",
    "RequestSpans": "otel._observer",
    "ServerSpans": "otel._observer",
    "SpanCounts": "otel._pipeline",
    "OwnMarks": "otel._traces",
    "Step": "otel._critical_path",
    "Trace": "otel._traces",
    "TraceSpan": "otel._traces",
    "Traces": "otel._traces",
    "critical_path": "otel._critical_path",
    "fit_profile": "otel._fit",
    "fit_profiles": "otel._fit",
    "otlp_lines": "otel._convert",
    "read_requests": "otel._read_requests",
    "read_traces": "otel._traces",
    "readable_spans": "otel._convert",
    "make_observer": "otel._observer",
}

__all__ = [
    "AttemptKind",
    "AttemptRecord",
    "CallNote",
    "Fits",
    "Observer",
    "OtlpLinesExporter",
    "Outcome",
    "OwnMarks",
    "RequestRecord",
    "RequestSpans",
    "ServerSpans",
    "SpanCounts",
    "StageRecord",
    "Step",
    "Trace",
    "TraceSpan",
    "Traces",
    "critical_path",
    "fit_profile",
    "fit_profiles",
    "make_observer",
    "otlp_lines",
    "read_requests",
    "read_traces",
    "readable_spans",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_LAZY[name]), name)
    globals()[name] = value
    return value
