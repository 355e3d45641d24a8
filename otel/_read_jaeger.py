"""Jaeger JSON into columns: one trace at a time, as its interface exports it and its query API answers."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from otel._columns import ERROR, FOLLOWS, NO_KIND, UNKNOWN, Batch
from otel._own_notes import MARK, busy_ms, own_note, worth
from otel._store import SpanStore
from otel._times import Stated, possible, refused

_CHILD: Final = "CHILD_OF"
_FOLLOWS: Final = "FOLLOWS_FROM"
_ERROR_MARK: Final = b'"error"'
_NO: Final = (None, False, 0, "", "false", "False", "0")


class _Reference(msgspec.Struct, gc=False):
    spanID: str = ""  # noqa: N815 - Jaeger's names
    refType: str = _CHILD  # noqa: N815
    traceID: str = ""  # noqa: N815


class _Process(msgspec.Struct, gc=False):
    serviceName: str = UNKNOWN  # noqa: N815


class _Tag(msgspec.Struct, gc=False):
    key: str
    value: Any = None


class _Span(msgspec.Struct, gc=False):
    startTime: int  # noqa: N815
    duration: int
    spanID: str = ""  # noqa: N815 - without it the forest counts the span and leaves it out
    operationName: str = ""  # noqa: N815
    traceID: str = ""  # noqa: N815
    references: list[_Reference] | None = None
    parentSpanID: str | None = None  # noqa: N815
    processID: str | None = None  # noqa: N815
    process: _Process | None = None
    tags: msgspec.Raw = msgspec.Raw()


class _Trace(msgspec.Struct):
    spans: list[_Span]
    traceID: str = ""  # noqa: N815
    processes: dict[str, _Process] | None = None


class JaegerReader:
    """Puts Jaeger's spans into a store."""

    def __init__(self, store: SpanStore) -> None:
        self._store = store
        self._trace = msgspec.json.Decoder(_Trace)
        self._tags = msgspec.json.Decoder(list[_Tag])
        self._kind_mark = f'"{store.kind_by}"'.encode() if store.kind_by is not None else None

    def trace(self, data: bytes | memoryview | msgspec.Raw) -> None:
        """Take one trace.

        Raises:
            msgspec.MsgspecError, ValueError: not that, or values that no span could have.
        """
        trace = self._trace.decode(data)
        if trace.spans:
            self._put(trace)
            self._store.ready()

    def _put(self, trace: _Trace) -> None:
        batch, names, spans = self._store.batch, self._store.names, trace.spans
        processes = trace.processes or {}
        services = {key: process.serviceName for key, process in processes.items()}
        known = {key: names.of_service(name) for key, name in services.items()}
        batch.trace_ids += [span.traceID or trace.traceID for span in spans]
        batch.span_ids += [span.spanID for span in spans]
        starts, ends = _times(spans, trace.traceID)
        batch.starts += starts
        batch.ends += ends
        for span in spans:
            key = span.processID
            op = known[key].get(span.operationName) if key in known else None
            if op is None:
                op = names.operation(_service(span, services), span.operationName)
            batch.ops.append(op)
            references = span.references
            if references and len(references) == 1 and references[0].refType == _CHILD:
                parent, flags = references[0].spanID, 0  # as nearly always
                if references[0].traceID != span.traceID:
                    parent, flags = _parent(span)
            else:
                parent, flags = _parent(span)
            batch.parent_ids.append(parent)
            tags = bytes(span.tags)
            if _ERROR_MARK in tags and self._failed(tags):
                flags |= ERROR
            batch.flags.append(flags)
            batch.own.append(self._note(batch, span, tags) if MARK in tags else -1)
        if self._kind_mark is not None:
            batch.kinds += [self._kind(self._kind_mark, bytes(span.tags)) for span in spans]

    def _kind(self, mark: bytes, tags: bytes) -> int:
        """The number of the kind of requests that a span tells of."""
        if mark not in tags:
            return NO_KIND
        values = [tag.value for tag in self._tags.decode(tags) if tag.key == self._store.kind_by]
        return self._store.names.kind(str(values[0])) if values else NO_KIND

    def _failed(self, tags: bytes) -> bool:
        return any(tag.key == "error" and tag.value not in _NO for tag in self._tags.decode(tags))

    def _note(self, batch: Batch, span: _Span, tags: bytes) -> int:
        """The place of the span's own notes; -1 for a span that only looked like ours."""
        attributes = {tag.key: tag.value for tag in self._tags.decode(tags)}
        note = own_note(attributes, self._store.names)
        if note is None:
            return -1
        place = len(batch.notes)
        batch.notes.append(note)
        batch.busy_ms.append(busy_ms(attributes.get("kw.busy_ms")))
        batch.worth.append(worth(attributes.get("kw.worth")))
        batch.links += [(place, ref.spanID) for ref in span.references or () if ref.refType == _FOLLOWS]
        return place


def _times(spans: list[_Span], trace_id: str) -> tuple[list[int], list[int]]:
    """When the spans started and ended, nanoseconds since 1970.

    Raises:
        ValueError: a time that no clock shows; names span and field.
    """
    starts = [span.startTime * 1000 for span in spans]
    ends = [(span.startTime + span.duration) * 1000 for span in spans]
    if not (possible(starts) and possible(ends)):
        found = (
            refused(
                span.traceID or trace_id,
                span.spanID,
                [
                    Stated("startTime", "microseconds", span.startTime, 1000),
                    Stated("startTime + duration", "microseconds", span.startTime + span.duration, 1000),
                ],
            )
            for span in spans
        )
        raise ValueError(next(why for why in found if why is not None))
    return starts, ends


def _service(span: _Span, services: dict[str, str]) -> str:
    """The service of a span: of its process by name, or of the process that it brings along."""
    if span.processID is not None and span.processID in services:
        return services[span.processID]
    return span.process.serviceName if span.process is not None else UNKNOWN


def _parent(span: _Span) -> tuple[str, int]:
    """The parent's id, and whether the span only follows from it.

    A reference into another trace is no parent. The first CHILD_OF counts, and FOLLOWS_FROM only without one.
    """
    follows = ""
    for reference in span.references or ():
        if reference.traceID and span.traceID and reference.traceID != span.traceID:
            continue
        if reference.refType == _CHILD:
            return reference.spanID, 0
        if reference.refType == _FOLLOWS and not follows:
            follows = reference.spanID
    if follows:
        return follows, FOLLOWS
    return span.parentSpanID or "", 0
