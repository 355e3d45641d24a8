"""Spans of a request in both formats: attributes, links, statuses, and bounds."""

from __future__ import annotations

import base64
import dataclasses
import json
import random
import subprocess
import sys
from typing import Any
from unittest import mock

import msgspec
import pytest
from google.protobuf import json_format
from hypothesis import given, strategies as st
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from kwiken.otel.write import labels as labels_module, otlp_json
from kwiken.otel.write.convert import otlp_lines, readable_spans
from kwiken.otel.write.labels import MAX_LENGTH, MAX_MESSAGE, MAX_VALUES, OTHER, Labels
from kwiken.otel.write.observer import resource
from kwiken.otel.write.otlp_json import OtlpLines
from kwiken.otel.write.records import (
    AttemptKind,
    AttemptRecord,
    ExceptionRecord,
    Outcome,
    RequestRecord,
    StageRecord,
)
from kwiken.otel.write.sdk_spans import Readable, span_data
from kwiken.otel.write.span_model import CallRecord, Server, SpanData, call_span, request_spans
from tests.support.otel.span_trees import MS, T0, random_dag, record

IDS = ("traceId", "spanId", "parentSpanId")


def official(line: bytes) -> TracesData:
    """The line as the official parser reads it; it takes identifiers in base64, where OTLP's JSON has hex."""

    def swap(value: Any) -> Any:
        if isinstance(value, dict):
            return {
                k: base64.b64encode(bytes.fromhex(v)).decode() if k in IDS else swap(v)
                for k, v in value.items()
            }
        return [swap(item) for item in value] if isinstance(value, list) else value

    document = json.dumps(swap(json.loads(line)))
    parsed: TracesData = json_format.Parse(document, TracesData())
    return parsed


def spans_of(line: bytes) -> list[Any]:
    return list(official(line).resource_spans[0].scope_spans[0].spans)


def values(span: Any) -> dict[str, Any]:
    return {a.key: getattr(a.value, a.value.WhichOneof("value")) for a in span.attributes}


def attempt(
    outcome: Outcome, *, number: int = 0, start: int = T0, end: int = T0 + MS, **more: Any
) -> AttemptRecord:
    kind = AttemptKind.REISSUE if number else AttemptKind.PRIMARY
    return AttemptRecord(100 + number, 0, number, kind, f"r{number}", "n", start, end, outcome, **more)


def one_stage(*attempts: AttemptRecord, **more: Any) -> RequestRecord:
    stage = StageRecord(7, "look", (), 1, T0, T0 + 5 * MS, attempts=list(attempts), **more)
    return RequestRecord(1 << 100, 5, None, "shop", T0, T0 + 6 * MS, stages=[stage])


def written(request: RequestRecord) -> list[Any]:
    return spans_of(OtlpLines(resource("shop")).line(request_spans(request, Labels())))


@given(st.integers(0, 2**32), st.integers(1, 6))
def test_lines_and_the_sdks_own_encoding_say_the_same(seed: int, stages: int) -> None:
    rng = random.Random(seed)
    dag = random_dag(rng, stages)
    spans = request_spans(record(rng, dag, widths={0: 3}, copies=0.5), Labels())
    own_files = official(OtlpLines(resource("shop")).line(spans))
    readable = Readable(resource("shop"))
    theirs = encode_spans([readable(span) for span in spans])
    mine, reference = own_files.resource_spans[0], theirs.resource_spans[0]
    assert mine.scope_spans[0].scope == reference.scope_spans[0].scope
    assert sorted(map(str, mine.resource.attributes)) == sorted(map(str, reference.resource.attributes))
    for span in mine.scope_spans[0].spans:
        span.status.SetInParent()  # the SDK writes an empty status out, and it means the same
    for span in reference.scope_spans[0].spans:
        span.flags = 0
        for link in span.links:
            link.flags = 0
    assert list(mine.scope_spans[0].spans) == list(reference.scope_spans[0].spans)


@given(st.integers(0, 2**32))
def test_notes_survive_the_way_through_the_sdk(seed: int) -> None:
    rng = random.Random(seed)
    readable = Readable(resource("shop"))
    for span in request_spans(record(rng, random_dag(rng, 4), copies=0.5), Labels()):
        assert span_data(readable(span)) == flat(span)


def flat(span: SpanData) -> SpanData:
    """The span with all of its attributes as its own."""
    return msgspec.structs.replace(span, attributes=[*span.shared, *span.attributes], shared=())


@pytest.mark.parametrize("most", [2, 10_000])
@given(st.integers(0, 2**32))
def test_a_writer_that_has_seen_other_spans_writes_the_same(most: int, seed: int) -> None:
    rng = random.Random(seed)
    dag = random_dag(rng, 4)
    used_labels, used_encoder = Labels(), OtlpLines(resource("shop"))
    with (
        mock.patch.multiple(labels_module, MAX_SHARED=most),
        mock.patch.multiple(otlp_json, _MAX_CACHED=most),
    ):
        for _ in range(4):
            request = record(rng, dag, widths={0: 3}, copies=0.5)
            request.control = rng.random() < 0.5
            request.stages[0].idempotent = rng.random() < 0.5
            request.stages[0].partial = rng.random() < 0.5
            request.stages[0].attempts[0].catch_up = rng.random() < 0.5
            request.stages[0].attempts[0].threads = rng.randint(1, 2)
            mine = used_encoder.line(request_spans(request, used_labels))
            assert mine == OtlpLines(resource("shop")).line(request_spans(request, Labels()))


def test_request_stage_and_attempt_hang_together_and_edges_are_links() -> None:
    rng = random.Random(3)
    request = record(rng, random_dag(rng, 5))
    spans = {span.span_id: span for span in written(request)}
    root = spans[request.span_id.to_bytes(8)]
    assert root.parent_span_id == b""
    assert root.name == "request"
    by_name = {stage.name: stage for stage in request.stages}
    for stage in request.stages:
        span = spans[stage.span_id.to_bytes(8)]
        assert span.parent_span_id == root.span_id
        assert [link.span_id for link in span.links] == [by_name[p].span_id.to_bytes(8) for p in stage.after]
        for one in stage.attempts:
            below = spans[one.span_id.to_bytes(8)]
            assert below.parent_span_id == span.span_id
            assert below.name == f"{stage.name}{' copy' if one.kind is AttemptKind.REISSUE else ''}"
            assert values(below)["kw.outcome"] == "won"


def test_a_cancelled_loser_is_marked_but_no_error_and_a_failed_one_is_an_error() -> None:
    spans = written(
        one_stage(
            attempt(Outcome.CANCELLED, end=T0 + 4 * MS),
            attempt(Outcome.WON, number=1, start=T0 + MS, end=T0 + 3 * MS),
            attempt(Outcome.FAILED, number=2, start=T0 + MS, end=T0 + 2 * MS, error="boom\nat line 3"),
        )
    )
    _, stage, cancelled, won, failed = spans
    assert values(cancelled)["kw.outcome"] == "cancelled"
    assert (cancelled.status.code, failed.status.code, won.status.code) == (0, 2, 0)
    assert failed.status.message == "boom at line 3"
    assert values(stage)["kw.hedged"] is True
    assert cancelled.end_time_unix_nano == T0 + 3 * MS - 3000, "a loser ends before its winner"


BOOM = ExceptionRecord("shop.Boom", "no index", 'Traceback ...\n  File "a.py", line 3\nshop.Boom: no index')


@pytest.mark.parametrize("exception", [BOOM, dataclasses.replace(BOOM, stacktrace=None)])
def test_a_handlers_exception_is_an_event_of_the_span_in_both_formats(
    exception: ExceptionRecord,
) -> None:
    request = one_stage(attempt(Outcome.FAILED, error="boom", exception=exception))
    call = CallRecord(1, 2, 0, T0, T0 + MS, error="boom", exception=exception)
    server = call_span(call, Server("shop", "look", "r1", "n1"), 7, Labels())
    readable = Readable(resource("shop"))
    for data in (request_spans(request, Labels())[-1], server):
        (span,) = spans_of(OtlpLines(resource("shop")).line([data]))
        (event,) = span.events
        assert (event.name, event.time_unix_nano) == ("exception", T0 + MS)
        assert values(event) == {
            "exception.type": "shop.Boom",
            "exception.message": "no index",
            **({"exception.stacktrace": BOOM.stacktrace} if exception.stacktrace else {}),
        }
        reference = encode_spans([readable(data)]).resource_spans[0].scope_spans[0].spans[0]
        assert list(reference.events) == [event]
        assert span_data(readable(data)) == flat(data)


def test_a_loser_never_ends_before_it_starts() -> None:
    spans = written(
        one_stage(
            attempt(Outcome.WON, end=T0 + 2 * MS),
            attempt(Outcome.CANCELLED, number=1, start=T0 + 2 * MS, end=T0 + 3 * MS),
        )
    )
    assert spans[3].end_time_unix_nano == spans[3].start_time_unix_nano == T0 + 2 * MS


def test_a_request_cut_short_still_has_times_in_order() -> None:
    request = one_stage(attempt(Outcome.CANCELLED, end=0))
    request.end_ns = request.stages[0].end_ns = 0
    assert all(span.end_time_unix_nano >= span.start_time_unix_nano for span in written(request))


def test_marks_are_there_only_where_they_say_something() -> None:
    plain = written(one_stage(attempt(Outcome.WON)))
    assert not {"kw.hedged", "kw.partial", "kw.control", "kw.plan"} & {k for s in plain for k in values(s)}
    request = one_stage(attempt(Outcome.WON, busy_ms=1.5), partial=True, utility=0.75, idempotent=False)
    request.plan, request.control = "p1", True
    root, stage, call = written(request)
    assert (values(root)["kw.plan"], values(root)["kw.control"]) == ("p1", True)
    assert values(stage)["kw.partial"] is True
    assert values(stage)["kw.utility"] == 0.75
    assert values(stage)["kw.idempotent"] is False
    assert values(call)["kw.busy_ms"] == 1.5
    assert not {"kw.threads", "kw.catch_up", "kw.worth"} & {k for s in plain for k in values(s)}


def test_catch_up_is_recorded_on_the_call_and_its_stage() -> None:
    request = one_stage(attempt(Outcome.WON, threads=3, catch_up=True, worth=0.25, busy_ms=1.5), threads=4)
    _, stage, call = written(request)
    assert (values(stage)["kw.threads"], values(stage)["kw.catch_up"]) == (4, True)
    assert (values(call)["kw.threads"], values(call)["kw.catch_up"]) == (3, True)
    assert list(values(call))[-2:] == ["kw.worth", "kw.busy_ms"], "what differs comes last"


def test_a_server_span_hangs_below_the_callers_attempt() -> None:
    server = Server("shop", "look", "r1", "n1")
    call = CallRecord(1 << 90, 77, 3, T0, T0 + MS, busy_ms=0.5, attempt=2, error="bad")
    line = OtlpLines(resource("shop-look")).line([call_span(call, server, 9, Labels())])
    (span,) = spans_of(line)
    assert span.parent_span_id == (77).to_bytes(8)
    assert span.kind == 2
    assert span.status.message == "bad"
    assert values(span)["kw.shard"] == 3
    gone = CallRecord(1 << 90, 77, 3, T0, T0 + MS, error="cancelled")
    span = call_span(gone, server, 9, Labels())
    assert span.error is None
    assert ("kw.outcome", "cancelled") in span.attributes


def test_values_of_labels_are_short_and_few() -> None:
    labels = Labels()
    seen = {labels("kw.replica", f"replica-{i}") for i in range(5 * MAX_VALUES)}
    assert len(seen) == MAX_VALUES + 1
    assert OTHER in seen
    assert labels("kw.replica", "replica-0") == "replica-0", "a value that is known stays itself"
    assert labels("kw.node", "n") == "n", "each key has its own bound"
    assert len(labels("kw.node", "x" * 10_000)) == MAX_LENGTH
    lone = "half \ud800 a pair"
    assert labels("kw.node", lone).encode()


def test_error_messages_are_bounded() -> None:
    request = one_stage(attempt(Outcome.FAILED, error="e" * 10_000))
    request.error = "r" * 10_000
    spans = written(request)
    assert {len(s.status.message) for s in spans if s.status.code} == {MAX_MESSAGE}


@given(st.one_of(st.text(), st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats()))
def test_every_scalar_attribute_is_read_back_as_it_was(value: Any) -> None:
    try:
        str(value).encode()
    except UnicodeEncodeError:
        return  # what no JSON can hold; labels are cleaned of it
    span = SpanData(1, 2, None, "x", 1, T0, T0, [("a", value)])
    (span,) = spans_of(OtlpLines({"service.name": "s"}).line([span]))
    found = values(span)["a"]
    assert type(found) is type(value)
    assert found == value or (value != value and found != found)  # noqa: PLR0124 - NaN


def test_records_can_be_turned_into_lines_and_spans_without_an_observer() -> None:
    rng = random.Random(5)
    records = [record(rng, random_dag(rng, 3)) for _ in range(4)]
    lines = list(otlp_lines("shop", records))
    assert len(lines) == 4
    ids = {span.span_id for line in lines for span in spans_of(line)}
    spans = list(readable_spans("shop", records))
    assert {span.context.span_id.to_bytes(8) for span in spans} == ids
    assert {span.resource.attributes["service.name"] for span in spans} == {"shop"}


def test_truth_and_one_are_different_attributes() -> None:
    span = SpanData(1, 2, None, "x", 1, T0, T0, [("a", True), ("a", 1), ("a", 1.0), ("b", 0), ("b", False)])
    (span,) = spans_of(OtlpLines({}).line([span]))
    assert [a.value.WhichOneof("value") for a in span.attributes] == [
        "bool_value",
        "int_value",
        "double_value",
        "int_value",
        "bool_value",
    ]


def test_lists_and_maps_of_other_tracers_are_written_too() -> None:
    span = SpanData(1, 2, None, "x", 1, T0, T0, [("a", ("p", "q")), ("b", {"k": 1})])  # type: ignore[list-item]
    (span,) = spans_of(OtlpLines({}).line([span]))
    assert [v.string_value for v in span.attributes[0].value.array_value.values] == ["p", "q"]
    assert span.attributes[1].value.kvlist_value.values[0].value.int_value == 1


@pytest.mark.parametrize("heavy", ["numpy", "opentelemetry", "networkx", "aiohttp"])
def test_a_replica_that_writes_spans_loads_nothing_heavy(heavy: str) -> None:
    code = f"import sys; from kwiken.otel.write.observer import ServerSpans, make_observer; sys.exit({heavy!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
