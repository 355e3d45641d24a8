"""Conversion of span data to SDK spans (for collectors) and back (for the exporter to files)."""

from __future__ import annotations

from collections.abc import Mapping

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from kwiken.otel.stated_attributes import SCHEMA_URL
from kwiken.otel.write.labels import Value
from kwiken.otel.write.otlp_json import SCOPE, scope_version
from kwiken.otel.write.records import ExceptionRecord
from kwiken.otel.write.span_model import EXCEPTION, SpanData, exception_attributes

_SAMPLED = TraceFlags(TraceFlags.SAMPLED)


class Readable:
    """Converter of span data to `ReadableSpan`s with the same identifiers and times.

    Args:
        resource: attributes of the resource, with `service.name`.
    """

    def __init__(self, resource: Mapping[str, Value]) -> None:
        self._resource = Resource(dict(resource), SCHEMA_URL)
        self._scope = InstrumentationScope(SCOPE, scope_version(), SCHEMA_URL)

    def __call__(self, span: SpanData) -> ReadableSpan:
        """Convert one span."""
        return ReadableSpan(
            name=span.name,
            context=_context(span.trace_id, span.span_id),
            parent=None if span.parent_id is None else _context(span.trace_id, span.parent_id),
            resource=self._resource,
            attributes=dict((*span.shared, *span.attributes)),
            events=_events(span),
            links=[Link(_context(span.trace_id, link)) for link in span.links],
            kind=SpanKind(span.kind - 1),  # OTLP's numbers have 0 for unspecified
            status=Status() if span.error is None else Status(StatusCode.ERROR, span.error),
            start_time=span.start_ns,
            end_time=span.end_ns,
            instrumentation_scope=self._scope,
        )


def _events(span: SpanData) -> list[Event]:
    events = [Event(name, {}, at_ns) for name, at_ns in span.events]
    if span.exception is not None:
        events.append(Event(EXCEPTION, exception_attributes(span.exception), span.end_ns))
    return events


def _context(trace_id: int, span_id: int) -> SpanContext:
    return SpanContext(trace_id, span_id, is_remote=False, trace_flags=_SAMPLED)


def span_data(span: ReadableSpan) -> SpanData:
    """Note of an SDK span, from any tracer.

    Raises:
        ValueError: the span has no context or no times.
    """
    context = span.get_span_context()
    if context is None or span.start_time is None or span.end_time is None:
        raise ValueError(f"span {span.name!r} has not ended or has no context")
    failed = span.status.status_code is StatusCode.ERROR
    return SpanData(
        context.trace_id,
        context.span_id,
        None if span.parent is None else span.parent.span_id,
        span.name,
        span.kind.value + 1,
        span.start_time,
        span.end_time,
        list((span.attributes or {}).items()),  # type: ignore[arg-type] # the encoder takes every kind of value
        links=[link.context.span_id for link in span.links if link.context.trace_id == context.trace_id],
        error=(span.status.description or "") if failed else None,
        exception=_exception_of(span),
        events=[(event.name, event.timestamp) for event in span.events if event.name != EXCEPTION],
    )


def _exception_of(span: ReadableSpan) -> ExceptionRecord | None:
    """Exception of the last event of that name; None for none."""
    for event in reversed(span.events):
        if event.name == EXCEPTION:
            said = {key: str(value) for key, value in (event.attributes or {}).items()}
            return ExceptionRecord(
                said.get("exception.type", ""),
                said.get("exception.message", ""),
                said.get("exception.stacktrace"),
            )
    return None
