"""Encoder of spans as OTLP JSON lines: one `TracesData` a line, as the OTLP file exporter specifies.

Identifiers are lower-case hex, 64-bit integers are strings, enumerations are numbers (OTLP, JSON encoding).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from kwiken.otel.stated_attributes import SCHEMA_URL
from kwiken.otel.write.labels import Attributes, Value
from kwiken.otel.write.span_model import EXCEPTION, SpanData, exception_attributes

SCOPE: Final = "kwiken"
_ERROR: Final = 2
_MAX_CACHED: Final = 4096

_encode = msgspec.json.Encoder().encode


class _Status(msgspec.Struct, omit_defaults=True, gc=False):
    message: str = ""
    code: int = 0


class _Link(msgspec.Struct, gc=False):
    traceId: str  # noqa: N815 - OTLP's names
    spanId: str  # noqa: N815


class _Event(msgspec.Struct, omit_defaults=True, gc=False):
    timeUnixNano: str  # noqa: N815
    name: str
    attributes: list[msgspec.Raw] = []


class _Span(msgspec.Struct, omit_defaults=True, gc=False):
    traceId: str  # noqa: N815
    spanId: str  # noqa: N815
    name: str
    kind: int
    startTimeUnixNano: str  # noqa: N815
    endTimeUnixNano: str  # noqa: N815
    attributes: list[msgspec.Raw]
    parentSpanId: str = ""  # noqa: N815
    events: list[_Event] | None = None
    links: list[_Link] | None = None
    status: _Status | None = None


class _Double(msgspec.Struct, gc=False):
    doubleValue: float  # noqa: N815


class _DoubleAttribute(msgspec.Struct, gc=False):
    key: str
    value: _Double


class _Scope(msgspec.Struct):
    name: str
    version: str = ""


class _ScopeSpans(msgspec.Struct, omit_defaults=True):
    scope: _Scope
    spans: list[_Span]
    schemaUrl: str = ""  # noqa: N815


class _Resource(msgspec.Struct):
    attributes: list[msgspec.Raw]


class _ResourceSpans(msgspec.Struct, omit_defaults=True):
    resource: _Resource
    scopeSpans: list[_ScopeSpans]  # noqa: N815
    schemaUrl: str = ""  # noqa: N815


class _TracesData(msgspec.Struct):
    resourceSpans: list[_ResourceSpans]  # noqa: N815


def scope_version() -> str:
    """Version of this project, for the spans' instrumentation scope; empty if it is not installed."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("kwiken")
    except PackageNotFoundError:
        return ""


def any_value(value: object) -> dict[str, object]:
    """OTLP `AnyValue` of a Python value.

    A value of a type that OTLP does not know is written as text, as the SDK's exporters do.
    """
    for kind, key, write in _SCALARS:
        if isinstance(value, kind):
            return {key: write(value)}
    if isinstance(value, Mapping):
        return {"kvlistValue": {"values": [{"key": str(k), "value": any_value(v)} for k, v in value.items()]}}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return {"arrayValue": {"values": [any_value(item) for item in value]}}
    return {"stringValue": str(value)}


def _number(value: float) -> float | str:
    """JSON form of a number; NaN and infinities are strings, as in protobuf's JSON mapping."""
    if math.isfinite(value):
        return value
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


# A bool is an int to Python, so it comes first. Bytes are encoded as base64.
_SCALARS: Final[tuple[tuple[type, str, Callable[[Any], object]], ...]] = (
    (str, "stringValue", str),
    (bool, "boolValue", bool),
    (int, "intValue", str),
    (float, "doubleValue", _number),
    (bytes, "bytesValue", bytes),
)


class OtlpLines:
    """Encoder of the spans of one resource; not thread-safe.

    Args:
        resource: attributes of the resource, with `service.name`.
        scope: name and version of the instrumentation scope; None for this project's own spans.
        schemas: URLs of the conventions that the resource's and the scope's spans follow; empty for unknown.
    """

    __slots__ = ("_resource", "_schemas", "_scope", "_shared", "_written")

    def __init__(
        self,
        resource: Mapping[str, object],
        scope: tuple[str, str] | None = None,
        schemas: tuple[str, str] = (SCHEMA_URL, SCHEMA_URL),
    ) -> None:
        self._schemas = schemas
        name, release = scope if scope is not None else (SCOPE, scope_version())
        self._scope = _Scope(name, release)
        self._written: dict[tuple[str, type, Value], msgspec.Raw] = {}
        self._shared: dict[int, tuple[Attributes, msgspec.Raw]] = {}
        self._resource = _Resource([self.attribute(key, value) for key, value in resource.items()])

    def line(self, batch: Sequence[SpanData]) -> bytes:
        """One line with all of these spans, newline included."""
        spans = [self._span(data) for data in batch]
        of_resource, of_scope = self._schemas
        scope = _ScopeSpans(self._scope, spans, of_scope)
        return _encode(_TracesData([_ResourceSpans(self._resource, [scope], of_resource)])) + b"\n"

    def attribute(self, key: str, value: object) -> msgspec.Raw:
        """Encoded key and value; attributes of short types are cached, because most of them recur."""
        if type(value) is float and math.isfinite(value):  # the usual attribute of a span's own
            return msgspec.Raw(_encode(_DoubleAttribute(key, _Double(value))))
        if isinstance(value, (str, int)):
            kept = self._written.get((key, type(value), value))
            if kept is None:
                kept = _attribute(key, value)
                if len(self._written) >= _MAX_CACHED:
                    self._written.clear()
                self._written[key, type(value), value] = kept
            return kept
        return _attribute(key, value)

    def _all_of(self, shared: Attributes) -> msgspec.Raw:
        """Encoded attributes that spans share, with commas between them; encoded once for all spans."""
        kept = self._shared.get(id(shared))
        if kept is None:
            encoded = b",".join(bytes(self.attribute(key, value)) for key, value in shared)
            if len(self._shared) >= _MAX_CACHED:
                self._shared.clear()
            # Kept with the attributes themselves, so that no other object gets the same id.
            kept = self._shared[id(shared)] = (shared, msgspec.Raw(encoded))
        return kept[1]

    def _span(self, data: SpanData) -> _Span:
        trace = data.trace_id.to_bytes(16).hex()
        attributes = [self.attribute(key, value) for key, value in data.attributes]
        if data.shared:
            attributes.insert(0, self._all_of(data.shared))
        span = _Span(
            trace,
            data.span_id.to_bytes(8).hex(),
            data.name,
            data.kind,
            str(data.start_ns),
            str(data.end_ns),
            attributes,
        )
        if data.parent_id is not None:
            span.parentSpanId = data.parent_id.to_bytes(8).hex()
        if data.links:
            span.links = [_Link(trace, link.to_bytes(8).hex()) for link in data.links]
        if data.events:
            span.events = [_Event(str(at_ns), name) for name, at_ns in data.events]
        if data.exception is not None:
            event = [_attribute(*pair) for pair in exception_attributes(data.exception).items()]
            span.events = [*(span.events or ()), _Event(str(data.end_ns), EXCEPTION, event)]
        if data.error is not None:
            span.status = _Status(data.error, _ERROR)
        return span


def _attribute(key: str, value: object) -> msgspec.Raw:
    return msgspec.Raw(_encode({"key": key, "value": any_value(value)}))
