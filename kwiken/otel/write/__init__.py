"""Span writer: request records converted to spans and written to files and collectors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwiken.base.lazy import lazy_names

if TYPE_CHECKING:
    from kwiken.otel.write.convert import otlp_lines as otlp_lines, readable_spans as readable_spans
    from kwiken.otel.write.endpoint import collector_url as collector_url
    from kwiken.otel.write.labels import OTHER as OTHER, shorten as shorten
    from kwiken.otel.write.observer import (
        DecisionRecord as DecisionRecord,
        DecisionSpans as DecisionSpans,
        ServerSpans as ServerSpans,
        make_observer as make_observer,
        resource as resource,
    )
    from kwiken.otel.write.otlp_json import SCOPE as SCOPE, scope_version as scope_version
    from kwiken.otel.write.records import (
        AttemptKind as AttemptKind,
        AttemptRecord as AttemptRecord,
        Entrance as Entrance,
        ExceptionRecord as ExceptionRecord,
        Observer as Observer,
        Outcome as Outcome,
        RequestRecord as RequestRecord,
        Sample as Sample,
        StageRecord as StageRecord,
    )
    from kwiken.otel.write.sdk_exporter import OtlpLinesExporter as OtlpLinesExporter
    from kwiken.otel.write.span_model import attempt_name as attempt_name

__getattr__ = lazy_names(__name__, __file__)
