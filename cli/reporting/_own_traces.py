"""Reads back the requests that our own gateway noted, from the OTLP JSON lines of the embedded sink."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from otel import AttemptKind, AttemptRecord, Outcome, RequestRecord, StageRecord

MARK: Final = b'"kw.attempt.kind"'
MOST_REQUESTS: Final = 200_000
MOST_LINE: Final = 64 << 20
SUFFIXES: Final = (".jsonl", ".jsonl.part")


class _Value(msgspec.Struct):
    stringValue: str | None = None  # noqa: N815 - OTLP's names
    intValue: str | int | None = None  # noqa: N815
    doubleValue: float | str | None = None  # noqa: N815
    boolValue: bool | None = None  # noqa: N815


class _Attribute(msgspec.Struct):
    key: str
    value: _Value


class _Link(msgspec.Struct):
    spanId: str  # noqa: N815


class _Status(msgspec.Struct, frozen=True):
    message: str = ""
    code: int = 0


class _Span(msgspec.Struct):
    traceId: str  # noqa: N815
    spanId: str  # noqa: N815
    startTimeUnixNano: str  # noqa: N815
    endTimeUnixNano: str  # noqa: N815
    parentSpanId: str = ""  # noqa: N815
    attributes: list[_Attribute] = []
    links: list[_Link] = []
    status: _Status = _Status()


class _Scope(msgspec.Struct):
    spans: list[_Span] = []


class _Resource(msgspec.Struct):
    scopeSpans: list[_Scope] = []  # noqa: N815


class _Line(msgspec.Struct):
    resourceSpans: list[_Resource] = []  # noqa: N815


_decode = msgspec.json.Decoder(_Line).decode


@dataclass
class _Trace:
    """The spans of one request, as they come in."""

    request: _Span | None = None
    stages: dict[str, tuple[_Span, dict[str, object]]] = field(default_factory=dict)
    attempts: list[tuple[_Span, dict[str, object]]] = field(default_factory=list)


def trace_files(folder: Path) -> list[Path]:
    """The sink's files in a folder, in order of name."""
    return sorted(path for path in folder.iterdir() if path.name.endswith(SUFFIXES) and path.is_file())


def read_requests(
    paths: Iterable[Path], *, wanted: Callable[[int], bool] | None = None, most: int = MOST_REQUESTS
) -> Iterator[RequestRecord]:
    """The requests in files of our own spans; lines of other spans and torn ones are passed over.

    Args:
        paths: OTLP JSON lines.
        wanted: says of a trace's number whether it matters; by default all do.
        most: requests at most.
    """
    traces: dict[int, _Trace] = {}
    for path in paths:
        with path.open("rb") as file:
            while line := file.readline(MOST_LINE):
                if MARK in line:
                    _take(line, traces, wanted, most)
    for number, trace in traces.items():
        if trace.request is not None:
            yield _record(number, trace, trace.request)


def _take(line: bytes, traces: dict[int, _Trace], wanted: Callable[[int], bool] | None, most: int) -> None:
    try:
        spans = [s for r in _decode(line).resourceSpans for scope in r.scopeSpans for s in scope.spans]
    except msgspec.MsgspecError:
        return
    for span in spans:
        number = _hex(span.traceId)
        if number is None or (wanted is not None and not wanted(number)):
            continue
        if number not in traces and len(traces) >= most:
            continue
        values = {a.key: _plain(a.value) for a in span.attributes if a.key.startswith("kw.")}
        if "kw.service" in values:
            _sort(span, values, traces.setdefault(number, _Trace()))


def _sort(span: _Span, values: dict[str, object], trace: _Trace) -> None:
    if "kw.stage" not in values:
        trace.request = span
    elif "kw.attempt.kind" in values:
        trace.attempts.append((span, values))
    elif "kw.fanout" in values:
        trace.stages[span.spanId] = (span, values)


def _record(number: int, trace: _Trace, request: _Span) -> RequestRecord:
    stages = {key: _stage(span, values, trace) for key, (span, values) in trace.stages.items()}
    for span, values in trace.attempts:
        if span.parentSpanId in stages and (attempt := _attempt(span, values)) is not None:
            stages[span.parentSpanId].attempts.append(attempt)
    own = {a.key: _plain(a.value) for a in request.attributes}
    plan = own.get("kw.plan")
    return RequestRecord(
        trace_id=number,
        span_id=_hex(request.spanId) or 0,
        parent_span_id=_hex(request.parentSpanId),
        service=str(own["kw.service"]),
        start_ns=_time(request.startTimeUnixNano),
        end_ns=_time(request.endTimeUnixNano),
        plan=plan if isinstance(plan, str) else None,
        control=own.get("kw.control") is True,
        error=request.status.message or None,
        stages=sorted(stages.values(), key=lambda stage: stage.start_ns),
    )


def _stage(span: _Span, values: dict[str, object], trace: _Trace) -> StageRecord:
    parents = [trace.stages[link.spanId][1] for link in span.links if link.spanId in trace.stages]
    fanout = values["kw.fanout"]
    return StageRecord(
        span_id=_hex(span.spanId) or 0,
        name=str(values["kw.stage"]),
        after=tuple(str(parent["kw.stage"]) for parent in parents),
        fanout=fanout if isinstance(fanout, int) else 1,
        start_ns=_time(span.startTimeUnixNano),
        end_ns=_time(span.endTimeUnixNano),
        error=span.status.message or None,
        partial=values.get("kw.partial") is True,
    )


def _attempt(span: _Span, values: dict[str, object]) -> AttemptRecord | None:
    try:
        kind, outcome = AttemptKind(str(values["kw.attempt.kind"])), Outcome(str(values.get("kw.outcome")))
    except ValueError:
        return None
    shard, number = values.get("kw.shard"), values.get("kw.attempt")
    return AttemptRecord(
        span_id=_hex(span.spanId) or 0,
        shard=shard if isinstance(shard, int) else 0,
        attempt=number if isinstance(number, int) else 0,
        kind=kind,
        replica=str(values.get("kw.replica", "")),
        node=str(values.get("kw.node", "")),
        start_ns=_time(span.startTimeUnixNano),
        end_ns=_time(span.endTimeUnixNano),
        outcome=outcome,
        error=span.status.message or None,
    )


def _plain(value: _Value) -> object:
    if value.intValue is not None:
        return int(value.intValue) if str(value.intValue).lstrip("-").isdigit() else None
    for found in (value.stringValue, value.boolValue, value.doubleValue):
        if found is not None:
            return found
    return None


def _hex(text: str) -> int | None:
    try:
        return int(text, 16) if text else None
    except ValueError:
        return None


def _time(text: str) -> int:
    return int(text) if text.isdigit() else 0
