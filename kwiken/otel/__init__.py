"""OpenTelemetry support: a span writer for the runtime, and a reader of traces into profiles.

Importing this package loads neither the OpenTelemetry SDK nor NumPy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwiken.lazy import lazy_names

if TYPE_CHECKING:
    from kwiken.otel.fit import Fits, fit_profile, fit_profiles
    from kwiken.otel.trace import Trace, Traces, TraceSpan, critical_path, read_requests, read_traces
    from kwiken.otel.write import Observer, OtlpLinesExporter, RequestRecord, otlp_lines, readable_spans

__all__ = [
    "Fits",
    "Observer",
    "OtlpLinesExporter",
    "RequestRecord",
    "Trace",
    "TraceSpan",
    "Traces",
    "critical_path",
    "fit_profile",
    "fit_profiles",
    "otlp_lines",
    "read_requests",
    "read_traces",
    "readable_spans",
]

__getattr__ = lazy_names(
    __name__,
    {
        "kwiken.otel.fit": (
            "Fits",
            "fit_profile",
            "fit_profiles",
        ),
        "kwiken.otel.trace": (
            "Trace",
            "TraceSpan",
            "Traces",
            "critical_path",
            "read_requests",
            "read_traces",
        ),
        "kwiken.otel.write": (
            "Observer",
            "OtlpLinesExporter",
            "RequestRecord",
            "otlp_lines",
            "readable_spans",
        ),
    },
)
