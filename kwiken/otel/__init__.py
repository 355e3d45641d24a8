"""OpenTelemetry support: a span writer for the runtime, and a reader of traces into profiles.

Importing this package loads neither the OpenTelemetry SDK nor NumPy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwiken.base.lazy import lazy_names

if TYPE_CHECKING:
    from kwiken.otel.fit import Fits as Fits, fit_profile as fit_profile, fit_profiles as fit_profiles
    from kwiken.otel.trace import (
        Trace as Trace,
        Traces as Traces,
        TraceSpan as TraceSpan,
        critical_path as critical_path,
        read_requests as read_requests,
        read_traces as read_traces,
    )
    from kwiken.otel.write import (
        Observer as Observer,
        OtlpLinesExporter as OtlpLinesExporter,
        RequestRecord as RequestRecord,
        otlp_lines as otlp_lines,
        readable_spans as readable_spans,
    )

__getattr__ = lazy_names(__name__, __file__)
