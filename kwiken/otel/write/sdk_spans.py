"""Conversion of span notes to SDK spans (for collectors) and back (for the exporter to files)."""

from __future__ import annotations

from collections.abc import Mapping

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from kwiken.otel.write.labels import Value
from kwiken.otel.write.otlp_json import SCOPE, scope_version
from kwiken.otel.write.records import ExceptionRecord
from kwiken.otel.write.span_model import EXCEPTION, SpanNote, exception_attributes

_SAMPLED = TraceFlags(TraceFlags.SAMPLED)


class Readable:
    """Converter of span notes to `ReadableSpan`s with the same identifiers and times.

    Args:
        resource: attributes of the resource, with `service.name`.
    """

    def __init__(self, resource: Mapping[str, Value]) -> None:
        self._resource = Resource(dict(resource))
        self._scope = InstrumentationScope(SCOPE, scope_version())

    def __call__(self, note: SpanNote) -> ReadableSpan:
        """Convert one note."""
        return ReadableSpan(
            name=note.name,
            context=_context(note.trace_id, note.span_id),
            parent=None if note.parent_id is None else _context(note.trace_id, note.parent_id),
            resource=self._resource,
            attributes=dict(note.attributes),
            events=_events(note),
            links=[Link(_context(note.trace_id, link)) for link in note.links],
            kind=SpanKind(note.kind - 1),  # OTLP's numbers have 0 for unspecified
            status=Status() if note.error is None else Status(StatusCode.ERROR, note.error),
            start_time=note.start_ns,
            end_time=note.end_ns,
            instrumentation_scope=self._scope,
        )


def _events(note: SpanNote) -> list[Event]:
    if note.exception is None:
        return []
    return [Event(EXCEPTION, exception_attributes(note.exception), note.end_ns)]


def _context(trace_id: int, span_id: int) -> SpanContext:
    return SpanContext(trace_id, span_id, is_remote=False, trace_flags=_SAMPLED)


def note_of(span: ReadableSpan) -> SpanNote:
    """Note of an SDK span, from any tracer.

    Raises:
        ValueError: the span has no context or no times.
    """
    context = span.get_span_context()
    if context is None or span.start_time is None or span.end_time is None:
        raise ValueError(f"span {span.name!r} has not ended or has no context")
    failed = span.status.status_code is StatusCode.ERROR
    return SpanNote(
        context.trace_id,
        context.span_id,
        None if span.parent is None else span.parent.span_id,
        span.name,
        span.kind.value + 1,
        span.start_time,
        span.end_time,
        list((span.attributes or {}).items()),  # type: ignore[arg-type] # the encoder takes every kind of value
        [link.context.span_id for link in span.links if link.context.trace_id == context.trace_id],
        (span.status.description or "") if failed else None,
        _exception_of(span),
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
