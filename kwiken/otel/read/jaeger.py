"""Decoder of Jaeger JSON, one trace at a time, as Jaeger's UI exports it and its query API returns it."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from kwiken.otel.conventions.callees import folded_query, with_address
from kwiken.otel.conventions.facts import PATHS, QUERIES, UNSET, WANTED
from kwiken.otel.read.columns import (
    ERROR,
    FOLLOWS,
    NO_CALLEE,
    NO_KIND,
    NO_TEXT,
    SERVER,
    SPAN_INSTANCE_MARKS,
    UNFINISHED,
    UNKNOWN,
    Attributes,
    Batch,
    SpanFacts,
    same_id,
    states_instance,
)
from kwiken.otel.read.kw_attributes import FIRST_ITEM, MARK, busy_ms, first_items, own_note, worth
from kwiken.otel.read.sampling import share_of_attributes, states_share
from kwiken.otel.read.span_store import SpanStore
from kwiken.otel.read.timestamps import Epoch, Stated, refused

_CHILD: Final = "CHILD_OF"
_FOLLOWS: Final = "FOLLOWS_FROM"
_ERROR_MARK: Final = b'"error"'
_STORED_DOT: Final = "@"
_MIN_TAGS: Final = 4  # bytes; `[]` and `null` hold none
_SCALARS: Final = (str, int, float, bool, type(None))
_NO: Final = (None, False, 0, "", "false", "False", "0")
_Note = tuple[int, float, float]


class Reference(msgspec.Struct, gc=False):
    """Another span that a span belongs to."""

    spanID: str = ""  # noqa: N815 - Jaeger's names
    refType: str = _CHILD  # noqa: N815
    traceID: str = ""  # noqa: N815


class JaegerProcess(msgspec.Struct, gc=False):
    """Service of a span."""

    serviceName: str = UNKNOWN  # noqa: N815
    tags: msgspec.Raw = msgspec.Raw()


class _Tag(msgspec.Struct, gc=False):
    key: str
    value: Any = None


class Span(msgspec.Struct, gc=False):
    """One span; times in microseconds, those of an unfinished one without a duration."""

    startTime: int  # noqa: N815
    duration: int | None = None
    spanID: str = ""  # noqa: N815 - without it the forest counts the span and leaves it out
    operationName: str = ""  # noqa: N815
    traceID: str = ""  # noqa: N815
    references: list[Reference] | None = None
    parentSpanID: str | None = None  # noqa: N815
    processID: str | None = None  # noqa: N815
    process: JaegerProcess | None = None
    tags: msgspec.Raw = msgspec.Raw()


class _Stored(Span, gc=False):
    """Span as a document of Elasticsearch, some of its tags as fields with other signs for their dots."""

    tag: dict[str, Any] | None = None


class _Trace(msgspec.Struct):
    spans: list[Span]
    traceID: str = ""  # noqa: N815
    processes: dict[str, JaegerProcess] | None = None


class JaegerReader:
    """Decoder of Jaeger's traces into a span store."""

    def __init__(self, store: SpanStore) -> None:
        self._store = store
        self._trace = msgspec.json.Decoder(_Trace)
        self._stored = msgspec.json.Decoder(_Stored)
        self._tags = msgspec.json.Decoder(list[_Tag])
        self._kind_mark = f'"{store.kind_by}"'.encode() if store.kind_by is not None else None

    def trace(self, data: bytes | memoryview | msgspec.Raw) -> None:
        """Decode one trace and add its spans to the store.

        Raises:
            msgspec.MsgspecError, ValueError: the data are no trace, or a value is out of range.
        """
        trace = self._trace.decode(data)
        if trace.spans:
            self._put(trace)
            self._store.ready()

    def span(self, data: bytes | memoryview | msgspec.Raw) -> None:
        """Decode one span as Jaeger stores it in Elasticsearch; errors as in `trace`."""
        span = self._stored.decode(data)
        if span.tag:
            tags = self._tags.decode(span.tags) if bytes(span.tags) not in {b"", b"null"} else []
            tags += [_Tag(key.replace(_STORED_DOT, "."), value) for key, value in span.tag.items()]
            span.tags = msgspec.Raw(msgspec.json.encode(tags))
        self.put(span)

    def put(self, span: Span) -> None:
        """Add one span to the store.

        Raises:
            ValueError: a time is out of range.
        """
        self._put(_Trace([span]))
        self._store.ready()

    def _put(self, trace: _Trace) -> None:
        batch, spans = self._store.batch, trace.spans
        starts, ends = _times(spans, trace.traceID, self._store.epoch)
        parents, follows = _parents(spans)
        if None in (lasting := [span.duration for span in spans]):
            for place, duration in enumerate(lasting):
                follows[place] |= UNFINISHED if duration is None else 0
        # `in` takes twice as long as `find`, because it first checks whether the mark is a number.
        tags = [bytes(span.tags) for span in spans]
        together = b"".join(tags)  # most traces have none of what is searched: one search rules it out
        notes: list[_Note | None] = [None] * len(tags)
        if together.find(MARK) >= 0:
            notes = [self._note(raw) if raw.find(MARK) >= 0 else None for raw in tags]
            if together.find(FIRST_ITEM) >= 0:
                ends = first_items(starts, ends, tags, self._attributes)
        for place, raw in enumerate(tags, len(batch)) if states_share(together) else ():
            if len(raw) > _MIN_TAGS and states_share(raw):
                share = share_of_attributes(self._attributes(raw))
                if share is not None:
                    batch.shares[place] = share
        span_facts = self._span_facts(trace, tags, notes)
        ops, callees = [each.op for each in span_facts], [each.callee for each in span_facts]
        self._store.names.state(ops, lambda place: self._attributes(tags[place]))
        self._store.names.state(callees, lambda place: with_address(self._attributes(tags[place])))
        if self._kind_mark is not None:
            batch.kinds += [self._kind(self._kind_mark, raw) for raw in tags]
        batch.traits += [
            self._store.names.traits_of(raw, self._attributes)
            if note is None and len(raw) > _MIN_TAGS and (not parent or fact.flags & SERVER)
            else NO_TEXT
            for parent, raw, note, fact in zip(parents, tags, notes, span_facts, strict=True)
        ]
        batch.instances += self._instances(
            trace, tags, of_spans=states_instance(together, SPAN_INSTANCE_MARKS)
        )
        batch.trace_ids += [span.traceID or trace.traceID for span in spans]
        batch.span_ids += [span.spanID for span in spans]
        batch.parent_ids += parents
        batch.starts += starts
        batch.ends += ends
        batch.ops += ops
        batch.callees += callees
        batch.flags += [each.flags | late for each, late in zip(span_facts, follows, strict=True)]
        batch.own += [
            -1 if note is None else _add(batch, span, *note) for span, note in zip(spans, notes, strict=True)
        ]

    def _span_facts(self, trace: _Trace, tags: list[bytes], notes: list[_Note | None]) -> list[SpanFacts]:
        """What each span says about itself; of our own spans, name and error mark alone count."""
        names, processes = self._store.names, trace.processes or {}
        span_facts, bare = (
            names.span_facts,
            {key: names.bare(each.serviceName) for key, each in processes.items()},
        )
        found = []
        for span, raw, note in zip(trace.spans, tags, notes, strict=True):
            if len(raw) <= _MIN_TAGS:
                known = bare.get(span.processID or "")
                known = names.bare(_service(span, processes)) if known is None else known
                found.append(known[span.operationName])
                continue
            service = _service(span, processes)
            if note is None:
                found.append(span_facts(service, 0, UNSET, span.operationName, *self._wanted(raw)))
            else:
                failed = raw.find(_ERROR_MARK) >= 0 and self._failed(raw)
                op = names.operation(service, span.operationName)
                found.append(SpanFacts(op, NO_CALLEE, ERROR if failed else 0))
        return found

    def _wanted(self, raw: bytes) -> tuple[Attributes, Attributes]:
        """Tags of a span that the conventions read, and among them the paths."""
        found: list[tuple[str, object]] = []
        paths: list[tuple[str, object]] = []
        for tag in self._tags.decode(raw):
            key, value = tag.key, tag.value
            if key in WANTED:
                if isinstance(value, str):
                    found.append((key, folded_query(value) if key in QUERIES else value))
                else:
                    found.append((key, value if isinstance(value, _SCALARS) else str(value)))
            elif key in PATHS:
                paths.append((key, str(value)))
        return found, paths

    def _instances(self, trace: _Trace, tags: list[bytes], *, of_spans: bool) -> list[int]:
        """Number of the instance of each span's service: that of its process, else that of its own tags.

        Args:
            of_spans: whether the tags of some span may state an instance.
        """
        instance, decoded = self._store.names.instance, self._attributes
        known = {key: instance(bytes(each.tags), decoded) for key, each in (trace.processes or {}).items()}
        found = []
        for span, raw in zip(trace.spans, tags, strict=True):
            code = known.get(span.processID or "", NO_TEXT)
            if code != NO_TEXT or (span.process is None and len(raw) <= _MIN_TAGS):
                found.append(code)
                continue
            if span.process is not None:
                code = instance(bytes(span.process.tags), decoded)
            if of_spans and code == NO_TEXT and len(raw) > _MIN_TAGS:
                code = instance(raw, decoded, SPAN_INSTANCE_MARKS)
            found.append(code)
        return found

    def _kind(self, mark: bytes, tags: bytes) -> int:
        """Number of the request class that a span states."""
        if mark not in tags:
            return NO_KIND
        values = [tag.value for tag in self._tags.decode(tags) if tag.key == self._store.kind_by]
        return self._store.names.kind(str(values[0])) if values else NO_KIND

    def _attributes(self, tags: bytes) -> dict[str, Any]:
        return {tag.key: tag.value for tag in self._tags.decode(tags)} if tags not in {b"", b"null"} else {}

    def _failed(self, tags: bytes) -> bool:
        return any(tag.key == "error" and tag.value not in _NO for tag in self._tags.decode(tags))

    def _note(self, tags: bytes) -> _Note | None:
        """Number of the note of one of our own spans, its CPU time and worth; None for any other span."""
        attributes = self._attributes(tags)
        note = own_note(attributes, self._store.names)
        if note is None:
            return None
        return note, busy_ms(attributes.get("kw.busy_ms")), worth(attributes.get("kw.worth"))


def _add(batch: Batch, span: Span, note: int, busy: float, value: float) -> int:
    """Add the note of one of our own spans to the batch, and return its index."""
    place = len(batch.notes)
    batch.notes.append(note)
    batch.busy_ms.append(busy)
    batch.worth.append(value)
    batch.links += [(place, ref.spanID) for ref in span.references or () if ref.refType == _FOLLOWS]
    return place


def _times(spans: list[Span], trace_id: str, epoch: Epoch) -> tuple[list[int], list[int]]:
    """Starts and ends of the spans, nanoseconds since 1970.

    Raises:
        ValueError: a time is out of range; names span and field.
    """
    starts = [span.startTime * 1000 for span in spans]
    ends = [(span.startTime + (span.duration or 0)) * 1000 for span in spans]
    if not (epoch.possible(starts) and epoch.possible(ends)):
        found = (
            refused(
                span.traceID or trace_id,
                span.spanID,
                [
                    Stated("startTime", "microseconds", span.startTime, 1000),
                    Stated(
                        "startTime + duration", "microseconds", span.startTime + (span.duration or 0), 1000
                    ),
                ],
            )
            for span in spans
        )
        raise ValueError(next(why for why in found if why is not None))
    return starts, ends


def _service(span: Span, processes: dict[str, JaegerProcess]) -> str:
    """Service of a span: that of its process in the trace, or of the process inside the span."""
    if span.processID is not None and span.processID in processes:
        return processes[span.processID].serviceName
    return span.process.serviceName if span.process is not None else UNKNOWN


def _parents(spans: list[Span]) -> tuple[list[str], list[int]]:
    """Id of each span's parent, and the flag `FOLLOWS` if the span only follows from it."""
    parents, flags = [], [0] * len(spans)
    for place, span in enumerate(spans):
        references = span.references
        if references and len(references) == 1:  # as nearly always
            only = references[0]
            if only.refType == _CHILD and only.traceID == span.traceID:
                parents.append(only.spanID)
                continue
        elif not references:
            parents.append(span.parentSpanID or "")
            continue
        parent, flags[place] = _parent(span)
        parents.append(parent)
    return parents, flags


def _parent(span: Span) -> tuple[str, int]:
    """Id of a span's parent, and the flag `FOLLOWS` if the span only follows from it.

    References into other traces are ignored. The first CHILD_OF counts; without one, the first FOLLOWS_FROM.
    """
    follows = ""
    for reference in span.references or ():
        if reference.traceID and span.traceID and same_id(reference.traceID) != same_id(span.traceID):
            continue
        if reference.refType == _CHILD:
            return reference.spanID, 0
        if reference.refType == _FOLLOWS and not follows:
            follows = reference.spanID
    if follows:
        return follows, FOLLOWS
    return span.parentSpanID or "", 0
