"""OTLP JSON into columns: one `TracesData` or `ExportTraceServiceRequest` at a time.

Typed decoding skips what is not asked for. A span's attributes stay undecoded unless they are ours.
"""

from __future__ import annotations

import re
from math import nan
from typing import Any, Final

import msgspec

from otel._columns import ERROR, NO_KIND, UNKNOWN, Batch
from otel._own_notes import MARK, busy_ms, own_note, worth
from otel._store import SpanStore
from otel._times import Stated, possible, refused

_ERROR_CODES: Final = frozenset((2, "2", "STATUS_CODE_ERROR"))
_REMEMBERED: Final = 8192
# What differs from span to span, as our own writer has it: last, the busy time last of all. It begins with
# plain letters, or the search would take twenty times as long.
_TAIL: Final = re.compile(
    rb'"kw\.(?:worth","value":\{"doubleValue":([0-9.eE+-]+)\}\},\{"key":"kw\.)?'
    rb'busy_ms","value":\{"doubleValue":([0-9.eE+-]+)\}\}\]\Z'
)


class _Value(msgspec.Struct, gc=False):
    stringValue: str | None = None  # noqa: N815 - OTLP's names
    intValue: str | int | None = None  # noqa: N815
    doubleValue: float | str | None = None  # noqa: N815
    boolValue: bool | None = None  # noqa: N815


class _Attribute(msgspec.Struct, gc=False):
    key: str
    value: _Value | None = None


class _Status(msgspec.Struct, gc=False):
    code: int | str = 0


class _Link(msgspec.Struct, gc=False):
    spanId: str = ""  # noqa: N815
    traceId: str = ""  # noqa: N815


class _Span(msgspec.Struct, gc=False):
    startTimeUnixNano: str | int  # noqa: N815 - OTLP's names
    endTimeUnixNano: str | int  # noqa: N815
    traceId: str = ""  # noqa: N815 - without it, or the span's own, the forest counts it and leaves it out
    spanId: str = ""  # noqa: N815
    name: str = ""
    parentSpanId: str | None = None  # noqa: N815
    attributes: msgspec.Raw = msgspec.Raw()
    links: list[_Link] | None = None
    status: _Status | None = None


class _ScopeSpans(msgspec.Struct):
    spans: list[_Span] = []


class _Resource(msgspec.Struct):
    attributes: msgspec.Raw = msgspec.Raw()


class ResourceSpans(msgspec.Struct):
    """All spans of one resource."""

    resource: _Resource | None = None
    scopeSpans: list[_ScopeSpans] = []  # noqa: N815


class _Traces(msgspec.Struct):
    resourceSpans: list[ResourceSpans]  # noqa: N815


class OtlpReader:
    """Puts OTLP spans into a store."""

    def __init__(self, store: SpanStore) -> None:
        self._store = store
        self._line = msgspec.json.Decoder(_Traces)
        self._resource = msgspec.json.Decoder(ResourceSpans)
        self._attributes = msgspec.json.Decoder(list[_Attribute])
        self._services: dict[bytes, str] = {}
        self._notes: dict[bytes, tuple[int, float, float]] = {}
        self._kind_mark = f'"{store.kind_by}"'.encode() if store.kind_by is not None else None

    def line(self, data: bytes | memoryview) -> None:
        """Take one whole `TracesData`.

        Raises:
            msgspec.MsgspecError, ValueError: not that, or values that no span could have.
        """
        for resource in self._line.decode(data).resourceSpans:
            self._take(resource)
        self._store.ready()

    def resource(self, data: bytes | memoryview | msgspec.Raw) -> None:
        """Take one `ResourceSpans`; errors as in `line`."""
        self._take(self._resource.decode(data))
        self._store.ready()

    def _take(self, resource: ResourceSpans) -> None:
        service = self._service(resource.resource)
        for scope in resource.scopeSpans:
            if scope.spans:
                self._put(service, scope.spans)

    def _service(self, resource: _Resource | None) -> str:
        """The resource's `service.name`."""
        raw = bytes(resource.attributes) if resource is not None else b""
        service = self._services.get(raw)
        if service is None:
            found = self._plain(raw).get("service.name")
            service = str(found) if found else UNKNOWN
            if len(self._services) >= _REMEMBERED:
                self._services.clear()
            self._services[raw] = service
        return service

    def _plain(self, raw: bytes) -> dict[str, Any]:
        if not raw or raw == b"null":
            return {}
        return {a.key: _plain(a.value) for a in self._attributes.decode(raw)}

    def _put(self, service: str, spans: list[_Span]) -> None:
        batch, names = self._store.batch, self._store.names
        known = names.of_service(service)
        batch.trace_ids += [span.traceId for span in spans]
        batch.span_ids += [span.spanId for span in spans]
        batch.parent_ids += [span.parentSpanId or "" for span in spans]
        starts, ends = _times(spans)
        batch.starts += starts
        batch.ends += ends
        for span in spans:
            op = known.get(span.name)
            batch.ops.append(names.new_operation(service, span.name) if op is None else op)
            status = span.status
            failed = status is not None and status.code in _ERROR_CODES
            batch.flags.append(ERROR if failed else 0)
            raw = bytes(span.attributes)
            batch.own.append(self._note(batch, span, raw) if MARK in raw else -1)
        if self._kind_mark is not None:
            batch.kinds += [self._kind(self._kind_mark, bytes(span.attributes)) for span in spans]

    def _kind(self, mark: bytes, raw: bytes) -> int:
        """The number of the kind of requests that a span tells of."""
        value = self._plain(raw).get(self._store.kind_by or "") if mark in raw else None
        return NO_KIND if value is None else self._store.names.kind(str(value))

    def _note(self, batch: Batch, span: _Span, raw: bytes) -> int:
        """The place of the span's own notes; -1 for a span that only looked like ours.

        Notes are remembered by all of the attributes but worth and busy time: our spans differ in little
        else, and we write these last. In another order they merely stay part of what is remembered.
        """
        tail = _TAIL.search(raw)
        key = raw if tail is None else raw[: tail.start()]
        known = self._notes.get(key)
        if known is None:
            attributes = self._plain(raw)
            note = own_note(attributes, self._store.names)
            if note is None:
                return -1
            known = note, busy_ms(attributes.get("kw.busy_ms")), worth(attributes.get("kw.worth"))
            if len(self._notes) >= _REMEMBERED:
                self._notes.clear()
            self._notes[key] = known
        note, busy, value = known
        if tail is not None:
            told, measured = tail.groups()
            busy = busy_ms(float(measured))
            value = worth(float(told)) if told else nan
        place = len(batch.notes)
        batch.notes.append(note)
        batch.busy_ms.append(busy)
        batch.worth.append(value)
        if span.links:
            batch.links += [(place, link.spanId) for link in span.links if link.traceId == span.traceId]
        return place


def _times(spans: list[_Span]) -> tuple[list[int], list[int]]:
    """When the spans started and ended, nanoseconds since 1970.

    Raises:
        ValueError: a time that is no number, or that no clock shows; names span and field.
    """
    try:
        starts = [int(span.startTimeUnixNano) for span in spans]
        ends = [int(span.endTimeUnixNano) for span in spans]
    except ValueError as error:
        raise ValueError(_refused(spans)) from error
    if not (possible(starts) and possible(ends)):
        raise ValueError(_refused(spans))
    return starts, ends


def _refused(spans: list[_Span]) -> str:
    """Which of the spans has a time that cannot be, and why."""
    found = (
        refused(
            span.traceId,
            span.spanId,
            [
                Stated("startTimeUnixNano", "nanoseconds", span.startTimeUnixNano),
                Stated("endTimeUnixNano", "nanoseconds", span.endTimeUnixNano),
            ],
        )
        for span in spans
    )
    return next(why for why in found if why is not None)


def _plain(value: _Value | None) -> object:
    """A scalar as Python has it; None for lists and maps, which none of our attributes is."""
    if value is None:
        return None
    if value.stringValue is not None:
        return value.stringValue
    if value.intValue is not None:
        return int(value.intValue)
    if value.boolValue is not None:
        return value.boolValue
    return None if value.doubleValue is None else float(value.doubleValue)
