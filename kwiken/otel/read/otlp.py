"""Decoder of OTLP JSON, one `TracesData` or `ExportTraceServiceRequest` at a time.

Typed decoding skips fields that are not needed. A span's attributes stay undecoded unless they are ours.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, cast

import msgspec

from kwiken.otel.conventions.callees import folded_query, with_address
from kwiken.otel.conventions.facts import FAILED, KINDS, OK, PATHS, QUERIES, UNSET, WANTED
from kwiken.otel.read.columns import (
    ERROR,
    NO_CALLEE,
    NO_KIND,
    NO_TEXT,
    SERVER,
    SPAN_INSTANCE_MARKS,
    UNFINISHED,
    UNKNOWN,
    Attributes,
    SpanFacts,
    same_id,
    states_instance,
)
from kwiken.otel.read.kw_attributes import FIRST_ITEM, MARK, first_items
from kwiken.otel.read.kw_batches import OwnReader, OwnSpans
from kwiken.otel.read.sampling import share_of_attributes, share_of_state, states_share
from kwiken.otel.read.span_store import SpanStore
from kwiken.otel.read.timestamps import MAX_NS, Epoch, Stated, refused

_STATES: Final = {
    **dict.fromkeys((1, "1", "STATUS_CODE_OK"), OK),
    **dict.fromkeys((2, "2", "STATUS_CODE_ERROR"), FAILED),
}
_MAX_CACHED: Final = 8192
_MIN_ATTRIBUTES: Final = 4  # bytes; `[]` and `null` hold none
_TIMES: Final = msgspec.json.Decoder(list[Annotated[int, msgspec.Meta(ge=0, le=MAX_NS)]])


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
    endTimeUnixNano: str | int | None = 0  # noqa: N815 - 0 or none until the span ends
    traceId: str = ""  # noqa: N815 - without it, or the span's own, the forest counts it and leaves it out
    spanId: str = ""  # noqa: N815
    name: str = ""
    kind: int | str | None = None
    parentSpanId: str | None = None  # noqa: N815
    attributes: msgspec.Raw = msgspec.Raw()
    links: list[_Link] | None = None
    status: _Status | None = None
    traceState: str | None = None  # noqa: N815


class _ScopeSpans(msgspec.Struct):
    spans: list[_Span] = []


class _Resource(msgspec.Struct):
    attributes: msgspec.Raw = msgspec.Raw()


class ResourceSpans(msgspec.Struct):
    """All spans of one resource."""

    resource: _Resource | None = None
    scopeSpans: list[_ScopeSpans] = []  # noqa: N815
    instrumentationLibrarySpans: list[_ScopeSpans] = []  # noqa: N815 - the same before OTLP 0.15


class _Traces(msgspec.Struct):
    resourceSpans: list[ResourceSpans]  # noqa: N815


class _Batches(msgspec.Struct):
    batches: list[ResourceSpans]


class OtlpReader:
    """Decoder of OTLP spans into a span store."""

    def __init__(self, store: SpanStore) -> None:
        self._store = store
        self._line = msgspec.json.Decoder(_Traces)
        self._batches = msgspec.json.Decoder(_Batches)
        self._resource = msgspec.json.Decoder(ResourceSpans)
        self._attributes = msgspec.json.Decoder(list[_Attribute])
        self._resources: dict[bytes, tuple[str, int]] = {}
        self._own = OwnReader(store.names, self._plain)
        self._kind_mark = f'"{store.kind_by}"'.encode() if store.kind_by is not None else None

    def line(self, data: bytes | memoryview | msgspec.Raw) -> None:
        """Decode one `TracesData` and add its spans to the store.

        Raises:
            msgspec.MsgspecError, ValueError: the data are no `TracesData`, or a value is out of range.
        """
        self._take(self._line.decode(data).resourceSpans)

    def batches(self, data: bytes | memoryview | msgspec.Raw) -> None:
        """Decode one answer of Tempo, which names its resources `batches`; errors as in `line`."""
        self._take(self._batches.decode(data).batches)

    def resource(self, data: bytes | memoryview | msgspec.Raw) -> None:
        """Decode one `ResourceSpans` and add its spans to the store; errors as in `line`."""
        self._take([self._resource.decode(data)])

    def _take(self, resources: list[ResourceSpans]) -> None:
        """Add all spans to the batch, or none if there is an error."""
        groups = [
            (*self._resource_of(part), scope.spans)
            for part in resources
            for scope in (*part.scopeSpans, *part.instrumentationLibrarySpans)
            if scope.spans
        ]
        spans = [span for _, _, some in groups for span in some]
        if not spans:
            return
        batch = self._store.batch
        starts, ends = _times(spans, self._store.epoch)
        attributes = [bytes(span.attributes) for span in spans]
        together = b"".join(attributes)  # to look for what no span states once, not span by span
        stated_own = together.find(MARK) >= 0
        own = self._own.decode(attributes, len(batch.notes)) if stated_own else OwnSpans([-1] * len(spans))
        if stated_own and together.find(FIRST_ITEM) >= 0:
            ends = first_items(starts, ends, attributes, self._plain)
        shares = states_share(together)
        if shares or any(span.traceState for span in spans):
            for place, (span, raw) in enumerate(zip(spans, attributes, strict=True), len(batch)):
                share = share_of_state(span.traceState) if span.traceState else None
                if share is None and shares and states_share(raw):
                    share = share_of_attributes(self._plain(raw))
                if share is not None:
                    batch.shares[place] = share
        span_facts = self._span_facts(groups, attributes, own.which)
        ops, callees = [each.op for each in span_facts], [each.callee for each in span_facts]
        names = self._store.names
        names.state(ops, lambda place: self._plain(attributes[place]))
        names.state(callees, lambda place: with_address(self._plain(attributes[place])))
        if self._kind_mark is not None:
            batch.kinds += [self._kind(self._kind_mark, raw) for raw in attributes]
        batch.traits += [
            names.traits_of(raw, self._plain)
            if place < 0 and len(raw) > _MIN_ATTRIBUTES and (not span.parentSpanId or fact.flags & SERVER)
            else NO_TEXT
            for span, raw, place, fact in zip(spans, attributes, own.which, span_facts, strict=True)
        ]
        stated = [instance for _, instance, some in groups for _ in some]
        if states_instance(together, SPAN_INSTANCE_MARKS):
            stated = [
                names.instance(raw, self._plain, SPAN_INSTANCE_MARKS) if code == NO_TEXT else code
                for code, raw in zip(stated, attributes, strict=True)
            ]
        batch.instances += stated
        if own.notes:
            batch.links += _links(spans, own.which)
            batch.notes += own.notes
            batch.busy_ms += own.busy_ms
            batch.worth += own.worth
        batch.own += own.which
        batch.trace_ids += [span.traceId for span in spans]
        batch.span_ids += [span.spanId for span in spans]
        batch.parent_ids += [span.parentSpanId or "" for span in spans]
        batch.starts += starts
        batch.ends += ends
        batch.ops += ops
        batch.callees += callees
        batch.flags += [
            each.flags | (0 if end else UNFINISHED) for each, end in zip(span_facts, ends, strict=True)
        ]
        self._store.ready()

    def _span_facts(
        self, groups: list[tuple[str, int, list[_Span]]], attributes: list[bytes], which: list[int]
    ) -> list[SpanFacts]:
        """What each span says about itself; of our own spans, name and status alone count."""
        names, found = self._store.names, []
        rest = iter(zip(attributes, which, strict=True))
        for service, _, spans in groups:
            known = names.of_service(service)
            for span in spans:
                raw, own = next(rest)
                status = UNSET if span.status is None else _STATES.get(span.status.code, UNSET)
                if own >= 0:
                    op = known.get(span.name)
                    op = names.new_operation(service, span.name) if op is None else op
                    found.append(SpanFacts(op, NO_CALLEE, ERROR if status == FAILED else 0))
                else:
                    kind = KINDS.get(span.kind, 0)
                    found.append(names.span_facts(service, kind, status, span.name, *self._wanted(raw)))
        return found

    def _wanted(self, raw: bytes) -> tuple[Attributes, Attributes]:
        """Attributes of a span that the conventions read, and among them the paths."""
        if len(raw) <= _MIN_ATTRIBUTES:
            return (), ()
        found: list[tuple[str, object]] = []
        paths: list[tuple[str, object]] = []
        for each in self._attributes.decode(raw):
            key, one = each.key, each.value
            if key in WANTED:
                value = _plain(one) if one is None or one.stringValue is None else one.stringValue
                found.append(
                    (key, folded_query(value) if key in QUERIES and isinstance(value, str) else value)
                )
            elif key in PATHS:
                paths.append((key, _plain(each.value)))
        return found, paths

    def _resource_of(self, part: ResourceSpans) -> tuple[str, int]:
        """Service of a resource, and the number of its instance."""
        raw = bytes(part.resource.attributes) if part.resource is not None else b""
        known = self._resources.get(raw)
        if known is None:
            found = self._plain(raw).get("service.name")
            known = str(found) if found else UNKNOWN, self._store.names.instance(raw, self._plain)
            if len(self._resources) >= _MAX_CACHED:
                self._resources.clear()
            self._resources[raw] = known
        return known

    def _plain(self, raw: bytes) -> dict[str, Any]:
        if not raw or raw == b"null":
            return {}
        return {a.key: _plain(a.value) for a in self._attributes.decode(raw)}

    def _kind(self, mark: bytes, raw: bytes) -> int:
        """Number of the request class that a span states."""
        value = self._plain(raw).get(self._store.kind_by or "") if mark in raw else None
        return NO_KIND if value is None else self._store.names.kind(str(value))


def _links(spans: list[_Span], which: list[int]) -> list[tuple[int, str]]:
    """Pairs of an own span's note and the id of a span of its trace that it comes after."""
    return [
        (place, link.spanId)
        for span, place in zip(spans, which, strict=True)
        if span.links and place >= 0
        for link in span.links
        if link.traceId == span.traceId or same_id(link.traceId) == same_id(span.traceId)
    ]


def _times(spans: list[_Span], epoch: Epoch) -> tuple[list[int], list[int]]:
    """Starts and ends of the spans, nanoseconds since 1970.

    Raises:
        ValueError: a time is no number or out of range; names span and field.
    """
    stated: list[str | int | None] = [span.startTimeUnixNano for span in spans]
    stated += [span.endTimeUnixNano for span in spans]
    try:
        # Decoding them together takes half the time of as many `int(...)`.
        times = _TIMES.decode(f"[{','.join(cast(list[str], stated))}]")
    except (TypeError, ValueError, msgspec.MsgspecError):
        times = []
    if len(times) != len(stated) or not epoch.possible(times):
        times = _one_by_one(spans, stated, epoch)
    return times[: len(spans)], times[len(spans) :]


def _one_by_one(spans: list[_Span], stated: list[str | int | None], epoch: Epoch) -> list[int]:
    """Times converted one by one, for numbers instead of strings and unusual forms; errors as `_times`."""
    try:
        times = [int(cast(str, time)) for time in stated[: len(spans)]]
        times += [int(time or 0) for time in stated[len(spans) :]]
    except ValueError as error:
        raise ValueError(_refused(spans)) from error
    if not epoch.possible(times):
        raise ValueError(_refused(spans))
    return times


def _refused(spans: list[_Span]) -> str:
    """Error message for the first span with an invalid time."""
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
    """Scalar as a Python value; None for lists and maps, which none of our attributes is."""
    if value is None:
        return None
    if value.stringValue is not None:
        return value.stringValue
    if value.intValue is not None:
        return int(value.intValue)
    if value.boolValue is not None:
        return value.boolValue
    return None if value.doubleValue is None else float(value.doubleValue)
