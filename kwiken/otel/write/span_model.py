"""Span model: names, attributes, links and times of the spans of one request record.

A `SpanData` is a span independent of any format. OTLP lines and SDK spans are both made from it, so they
state the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import msgspec

from kwiken.otel.stated_attributes import CALL_METHOD, CALL_PATH, POST, client_attributes, server_attributes
from kwiken.otel.write.labels import MAX_MESSAGE, Attributes, Labels, Value, shorten
from kwiken.otel.write.records import (
    AttemptKind,
    AttemptRecord,
    ExceptionRecord,
    Outcome,
    RequestRecord,
    StageRecord,
)

# OTLP's numbers (opentelemetry.proto.trace.v1.Span.SpanKind).
INTERNAL: Final = 1
SERVER: Final = 2
CLIENT: Final = 3

CANCELLED: Final = "cancelled"
REQUEST: Final = "request"
# Names of events.
EXCEPTION: Final = "exception"
QUEUED: Final = "queued"
STARTED: Final = "started"
SENT: Final = "sent"
FIRST_BYTE: Final = "first byte"
FIRST_ITEM: Final = "first_item"
ANSWERED: Final = "answered"  # outcome of a request
# Names of attempts' operations: few, so that a trace store lists them, and telling at a glance.
_SUFFIX: Final = {AttemptKind.PRIMARY: "", AttemptKind.REISSUE: " copy", AttemptKind.RETRY: " retry"}
# Trace stores round start and duration to microseconds each, so that an end may come out 2 us early.
_LOSER_MARGIN_NS: Final = 3000


class SpanData(msgspec.Struct, gc=False):
    """One span; in no cycles, so that the garbage collector need not look at it.

    Attributes:
        trace_id: id of the trace, 128 bits.
        span_id: id of the span, 64 bits.
        parent_id: id of the parent span, 64 bits; None for a root.
        start_ns: start, nanoseconds since 1970.
        end_ns: end, nanoseconds since 1970, not before `start_ns`.
        attributes: keys and values of its own, in the order to write.
        shared: keys and values that many spans have in common, to be written first; the same object for all.
        links: ids of spans of the same trace that this one comes after.
        error: error message; None for no error.
        events: names and times of further events, nanoseconds since 1970, in the order to write.
    """

    trace_id: int
    span_id: int
    parent_id: int | None
    name: str
    kind: int
    start_ns: int
    end_ns: int
    attributes: list[tuple[str, Value]] = []
    shared: Attributes = ()
    links: list[int] = []
    error: str | None = None
    exception: ExceptionRecord | None = None
    events: list[tuple[str, int]] = []


@dataclass(slots=True, frozen=True)
class CallRecord:
    """One call that a replica ran, for its server span.

    Attributes:
        trace_id: id of the caller's trace, 128 bits.
        parent_id: id of the span of the caller's attempt, 64 bits.
        shard: number of the shard, from 0.
        start_ns: time of the call's arrival, nanoseconds since 1970.
        end_ns: time at which its answer was ready, nanoseconds since 1970.
        began_ns: time at which its handler began, after its wait in the replica's queue, nanoseconds since
            1970; None if not measured.
        busy_ms: CPU time that the replica spent on it, milliseconds; None if not measured.
        attempt: number of the attempt, from 0; None if the caller did not state it.
        error: error message, "cancelled" if the caller closed the connection; None for no error.
        first_item_ns: time of its first item, nanoseconds since 1970; None where it sent none.
    """

    trace_id: int
    parent_id: int
    shard: int
    start_ns: int
    end_ns: int
    began_ns: int | None = None
    busy_ms: float | None = None
    attempt: int | None = None
    error: str | None = None
    exception: ExceptionRecord | None = None
    first_item_ns: int | None = None


def request_spans(record: RequestRecord, labels: Labels) -> list[SpanData]:
    """Spans of one request, of its stages and of their attempts."""
    hedged = late = False
    partial = record.partial
    stages = {stage.name: stage.span_id for stage in record.stages}
    below: list[SpanData] = []
    for stage in record.stages:
        copied = helped = False
        ends: dict[int, int] = {}  # end of the winning attempt by shard, nanoseconds since 1970
        for attempt in stage.attempts:
            copied = copied or attempt.kind is AttemptKind.REISSUE
            helped = helped or attempt.catch_up
            if attempt.outcome is Outcome.WON:
                ends[attempt.shard] = attempt.end_ns
        name = labels("kw.stage", stage.name)
        below.append(_stage_span(record, stage, name, stages, labels, hedged=copied, late=helped))
        below += [_attempt_span(record, stage, name, attempt, ends, labels) for attempt in stage.attempts]
        hedged = hedged or copied
        partial = partial or stage.partial
        late = late or helped
    first_ns = record.first_item_ns
    root = SpanData(
        record.trace_id,
        record.span_id,
        record.parent_span_id,
        REQUEST,
        SERVER,
        record.start_ns,
        max(record.start_ns, record.end_ns),
        _to_first_item(record.start_ns, first_ns),
        _request_attributes(record, labels, hedged=hedged, partial=partial, late=late),
        error=_message(record.error),
        events=[(FIRST_ITEM, first_ns)] if first_ns is not None else [],
    )
    return [root, *below]


def _request_attributes(
    record: RequestRecord, labels: Labels, *, hedged: bool, partial: bool, late: bool
) -> Attributes:
    sample, outcome = record.sample, _outcome(record)
    # A share is rounded, so that there are few of them.
    drawn = None if sample is None else (sample.reason, sample.share)
    entry = record.entry
    key = (
        record.service,
        outcome,
        record.plan,
        record.control,
        hedged,
        partial,
        late,
        drawn,
        entry,
        record.status,
    )
    shared = labels.shared(key)
    if shared is not None:
        return shared
    attributes: list[tuple[str, Value]] = [
        ("kw.service", labels("kw.service", record.service)),
        ("kw.outcome", outcome),
    ]
    if record.plan is not None:
        attributes.append(("kw.plan", labels("kw.plan", record.plan)))
    flags = {"control": record.control, "hedged": hedged, "partial": partial, "catch_up": late}
    attributes += [(f"kw.{flag}", True) for flag, holds in flags.items() if holds]
    if sample is not None:
        attributes.append(("kw.sample.reason", sample.reason))
        attributes.append(("kw.sample.share", float(sample.share)))
    if entry is not None:
        attributes += server_attributes(entry.url, entry.operation, entry.route, record.status)
    return labels.share(key, attributes)


def _outcome(record: RequestRecord) -> str:
    """Outcome of a request: `answered`, `failed` or `cancelled`."""
    if record.cancelled:
        return CANCELLED
    return ANSWERED if record.error is None else str(Outcome.FAILED)


def attempt_name(stage: str, kind: AttemptKind) -> str:
    """Name of an attempt's operation: that of its stage, followed by `copy` or `retry` for these."""
    return stage + _SUFFIX[kind]


def _stage_span(
    record: RequestRecord,
    stage: StageRecord,
    name: str,
    stages: dict[str, int],
    labels: Labels,
    *,
    hedged: bool,
    late: bool,
) -> SpanData:
    key = (record.service, stage.name, stage.fanout, hedged, stage.idempotent, stage.threads, late)
    shared = labels.shared(key)
    if shared is None:
        attributes: list[tuple[str, Value]] = [
            ("kw.service", labels("kw.service", record.service)),
            ("kw.stage", name),
            ("kw.fanout", stage.fanout),
        ]
        if hedged:
            attributes.append(("kw.hedged", True))
        if not stage.idempotent:
            attributes.append(("kw.idempotent", False))
        if stage.threads > 1:
            attributes.append(("kw.threads", stage.threads))
        if late:
            attributes.append(("kw.catch_up", True))
        shared = labels.share(key, attributes)
    return SpanData(
        record.trace_id,
        stage.span_id,
        record.span_id,
        name,
        INTERNAL,
        stage.start_ns,
        max(stage.start_ns, stage.end_ns),
        [
            *([("kw.partial", True), ("kw.utility", float(stage.utility))] if stage.partial else ()),
            *_to_first_item(stage.start_ns, stage.first_item_ns),
        ],
        shared,
        [stages[parent] for parent in stage.after if parent in stages],
        _message(stage.error),
    )


def _attempt_span(
    record: RequestRecord,
    stage: StageRecord,
    name: str,
    attempt: AttemptRecord,
    ends: dict[int, int],
    labels: Labels,
) -> SpanData:
    # Keys of requests, stages and attempts have different lengths, so that none is taken for another.
    key = (
        record.service,
        stage.name,
        attempt.shard,
        attempt.replica,
        attempt.outcome,
        attempt.kind,
        attempt.attempt,
        attempt.node,
        attempt.threads,
        attempt.catch_up,
        attempt.address,
        attempt.status,
    )
    shared = labels.shared(key)
    if shared is None:
        attributes: list[tuple[str, Value]] = [
            ("kw.shard", attempt.shard),
            ("kw.replica", labels("kw.replica", attempt.replica)),
            ("kw.outcome", str(attempt.outcome)),
            ("kw.attempt.kind", str(attempt.kind)),
            ("kw.attempt", attempt.attempt),
            ("kw.node", labels("kw.node", attempt.node)),
            ("kw.stage", name),
            ("kw.service", labels("kw.service", record.service)),
        ]
        if attempt.threads > 1:
            attributes.append(("kw.threads", attempt.threads))
        if attempt.catch_up:
            attributes.append(("kw.catch_up", True))
        attributes += client_attributes(attempt.address, stage.operation, attempt.attempt, attempt.status)
        shared = labels.share(key, attributes)
    # Values that differ from span to span come last, because the reader caches the attributes before them.
    own: list[tuple[str, Value]] = []
    if attempt.worth is not None:
        own.append(("kw.worth", float(attempt.worth)))
    own += _to_first_item(attempt.start_ns, attempt.first_item_ns)
    if attempt.busy_ms is not None:
        own.append(("kw.busy_ms", float(attempt.busy_ms)))
    failed = attempt.outcome is Outcome.FAILED
    end_ns = _attempt_end(attempt, ends)
    return SpanData(
        record.trace_id,
        attempt.span_id,
        stage.span_id,
        attempt_name(name, attempt.kind),
        CLIENT,
        attempt.start_ns,
        end_ns,
        own,
        shared,
        error=_message(attempt.error or "failed") if failed else None,
        exception=attempt.exception,
        events=_events_of(attempt, end_ns),
    )


def _to_first_item(start_ns: int, first_item_ns: int | None) -> list[tuple[str, Value]]:
    """Time to the first item as an attribute, which the reader takes for the span's length; none without."""
    if first_item_ns is None:
        return []
    return [("kw.first_item_ms", max(0, first_item_ns - start_ns) / 1e6)]


def _events_of(attempt: AttemptRecord, end_ns: int) -> list[tuple[str, int]]:
    """Events of an attempt, none of them after its end."""
    events = []
    if attempt.sent_ns is not None:
        events.append((SENT, min(attempt.sent_ns, end_ns)))
    if attempt.first_byte_ns is not None:
        events.append((FIRST_BYTE, min(attempt.first_byte_ns, end_ns)))
    if attempt.first_item_ns is not None:
        events.append((FIRST_ITEM, min(attempt.first_item_ns, end_ns)))
    if attempt.outcome is Outcome.CANCELLED:
        events.append((CANCELLED, end_ns))
    return events


def _attempt_end(attempt: AttemptRecord, ends: dict[int, int]) -> int:
    """End of an attempt, nanoseconds since 1970; for a cancelled attempt just before the winner's end.

    Critical-path tools follow the child that ends last. A losing attempt is cancelled just after the winner
    answered, and would be taken for the attempt that the stage waited for.
    """
    end = attempt.end_ns
    if attempt.outcome is Outcome.CANCELLED and attempt.shard in ends:
        end = min(end, ends[attempt.shard] - _LOSER_MARGIN_NS)
    return max(attempt.start_ns, end)


def exception_attributes(exception: ExceptionRecord) -> dict[str, str]:
    """Attributes of the event `exception`, by OpenTelemetry's names."""
    found = {"exception.type": exception.kind, "exception.message": exception.message}
    if exception.stacktrace is not None:
        found["exception.stacktrace"] = exception.stacktrace
    return found


def _message(error: str | None) -> str | None:
    return None if error is None else shorten(error, MAX_MESSAGE)


@dataclass(slots=True, frozen=True)
class Server:
    """Attributes that all server spans of one replica share.

    Attributes:
        protocol: protocol of its calls: `http`, `grpc`, or empty for none that is stated.
    """

    service: str
    stage: str
    replica: str
    node: str
    protocol: str = ""


def call_span(call: CallRecord, server: Server, span_id: int, labels: Labels) -> SpanData:
    """Server span of one call."""
    stage = labels("kw.stage", server.stage)
    key = (server.service, server.stage, server.replica, server.node, call.shard, call.attempt)
    shared = labels.shared(key)
    if shared is None:
        common: list[tuple[str, Value]] = [
            ("kw.shard", call.shard),
            ("kw.replica", labels("kw.replica", server.replica)),
            ("kw.node", labels("kw.node", server.node)),
            ("kw.stage", stage),
            ("kw.service", labels("kw.service", server.service)),
        ]
        if call.attempt is not None:
            common.append(("kw.attempt", call.attempt))
        if server.protocol:
            asked = (CALL_METHOD, "") if server.protocol == "grpc" else (POST, CALL_PATH)
            common += server_attributes(f"{server.protocol}://", *asked, None)
        shared = labels.share(key, common)
    attributes = _to_first_item(call.start_ns, call.first_item_ns)
    if call.busy_ms is not None:
        attributes.append(("kw.busy_ms", float(call.busy_ms)))
    cancelled = call.error == CANCELLED
    if cancelled:
        attributes.append(("kw.outcome", CANCELLED))
    events = []
    end_ns = max(call.start_ns, call.end_ns)
    if call.began_ns is not None:
        events += [(QUEUED, call.start_ns), (STARTED, min(max(call.start_ns, call.began_ns), end_ns))]
    if call.first_item_ns is not None:
        events.append((FIRST_ITEM, min(call.first_item_ns, end_ns)))
    if cancelled:
        events.append((CANCELLED, end_ns))
    return SpanData(
        call.trace_id,
        span_id,
        call.parent_id,
        stage,
        SERVER,
        call.start_ns,
        end_ns,
        attributes,
        shared,
        error=None if cancelled else _message(call.error),
        exception=call.exception,
        events=events,
    )
