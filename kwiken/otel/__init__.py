"""OpenTelemetry support: a span writer for the runtime, and a reader of traces into profiles.

Importing this package loads neither the OpenTelemetry SDK nor NumPy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwiken.base.lazy import lazy_names

if TYPE_CHECKING:
    from kwiken.otel.fit.fit import Fits as Fits, fit_profile as fit_profile, fit_profiles as fit_profiles
    from kwiken.otel.trace.paths import critical_path as critical_path
    from kwiken.otel.trace.recorded_requests import read_requests as read_requests
    from kwiken.otel.trace.traces import (
        Trace as Trace,
        Traces as Traces,
        TraceSpan as TraceSpan,
        read_traces as read_traces,
    )
    from kwiken.otel.write.convert import otlp_lines as otlp_lines, readable_spans as readable_spans
    from kwiken.otel.write.records import Observer as Observer, RequestRecord as RequestRecord
    from kwiken.otel.write.sdk_exporter import OtlpLinesExporter as OtlpLinesExporter

__getattr__ = lazy_names(__name__, __file__)
