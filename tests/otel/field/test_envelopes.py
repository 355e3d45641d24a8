"""What other tools write around traces, and what they write instead of them."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from kwiken.base.errors import InputError
from kwiken.otel.fit.fit import fit_profile
from tests.support.otel.field_data import field_file
from tests.support.otel.span_trees import (
    Dag,
    Maker,
    Span,
    by_trace,
    jaeger_trace,
    otlp_line,
    stored_span,
    zipkin_span,
)

US = 1000


def traces() -> list[Span]:
    """Requests whose times are whole microseconds, so that all formats state them alike."""
    spans = Maker(Dag([[], [0], [0]]), random.Random(3), pairs=True, chances={2: 0.7}).requests(30)
    for span in spans:
        span.start, span.end = span.start // US * US, span.end // US * US
    return spans


def lines(documents: Sequence[Any]) -> str:
    return "".join(f"{json.dumps(document)}\n" for document in documents)


def otlp(spans: Sequence[Span]) -> list[Any]:
    return [json.loads(otlp_line(trace)) for trace in by_trace(spans)]


def whole(spans: Sequence[Span]) -> Any:
    return {"resourceSpans": [part for one in otlp(spans) for part in one["resourceSpans"]]}


def jaeger(spans: Sequence[Span]) -> list[Any]:
    return [jaeger_trace(trace) for trace in by_trace(spans)]


def stored(spans: Sequence[Span]) -> list[Any]:
    return [stored_span(span) for span in spans]


def bulk(spans: Sequence[Span]) -> list[Any]:
    return [
        part for each in stored(spans) for part in ({"index": {"_index": each["_index"]}}, each["_source"])
    ]


def tags_as_fields(spans: Sequence[Span]) -> list[Any]:
    """Documents whose tags are fields of an object, as `--es.tags-as-fields.all` stores them."""
    documents = stored(spans)
    for document in documents:
        source = document["_source"]
        source["tag"] = {tag["key"].replace(".", "@"): str(tag["value"]) for tag in source.pop("tags")}
    return documents


def with_services(spans: Sequence[Span]) -> list[Any]:
    service = {"_index": "jaeger-service-2026-01-01", "_source": {"serviceName": "a", "operationName": "b"}}
    return [service, *stored(spans), service]


def of_zipkin(spans: Sequence[Span]) -> list[Any]:
    return [[zipkin_span(span) for span in trace] for trace in by_trace(spans)]


ENVELOPES: dict[str, Callable[[Sequence[Span]], str]] = {
    "version 3 of Jaeger's API": lambda spans: json.dumps({"result": whole(spans)}),
    "version 3, a result a line": lambda spans: lines([{"result": one} for one in otlp(spans)]),
    "version 3, indented": lambda spans: json.dumps({"result": whole(spans)}, indent=1),
    "version 3, in an array": lambda spans: json.dumps([{"result": one} for one in otlp(spans)]),
    "OTLP in data": lambda spans: json.dumps({"data": whole(spans)}),
    "OTLP in an array in data": lambda spans: json.dumps({"data": otlp(spans)}),
    "OTLP in an array in data, a line each": lambda spans: lines([{"data": [one]} for one in otlp(spans)]),
    "OTLP in a trace in data": lambda spans: json.dumps({"data": {"trace": whole(spans)}}, indent=2),
    "a trace of Jaeger in data": lambda spans: lines([{"data": one} for one in jaeger(spans)]),
    "traces of Jaeger in a result": lambda spans: json.dumps({"result": {"data": jaeger(spans)}}),
    "a dump of Elasticsearch": lambda spans: lines(stored(spans)),
    "a dump with documents of services": lambda spans: lines(with_services(spans)),
    "a dump in an array": lambda spans: json.dumps(stored(spans)),
    "an answer of Elasticsearch": lambda spans: json.dumps({"took": 1, "hits": {"hits": stored(spans)}}),
    "an answer of Elasticsearch, indented": lambda spans: json.dumps(
        {"hits": {"hits": stored(spans)}}, indent=1
    ),
    "answers of Elasticsearch": lambda spans: json.dumps(
        {"responses": [{"hits": {"hits": stored(trace)}} for trace in by_trace(spans)]}
    ),
    "what Kibana shows": lambda spans: json.dumps({"rawResponse": {"hits": {"hits": stored(spans)}}}),
    "Elasticsearch's bulk format": lambda spans: lines(bulk(spans)),
    "tags as fields": lambda spans: lines(tags_as_fields(spans)),
    "documents alone": lambda spans: lines([each["_source"] for each in stored(spans)]),
    "Zipkin's traces": lambda spans: json.dumps(of_zipkin(spans)),
    "Zipkin's traces, indented": lambda spans: json.dumps(of_zipkin(spans), indent=1),
    "Zipkin's spans": lambda spans: json.dumps([span for trace in of_zipkin(spans) for span in trace]),
    "a trace of Zipkin a line": lambda spans: lines(of_zipkin(spans)),
    "a span of Zipkin a line": lambda spans: lines([span for trace in of_zipkin(spans) for span in trace]),
}


@pytest.mark.parametrize("case", ENVELOPES)
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_the_same_traces_give_the_same_profile_in_every_envelope(
    case: str, packed: bool, tmp_path: Path
) -> None:
    spans = traces()
    (tmp_path / "plain.jsonl").write_text(lines(otlp(spans)))
    text = ENVELOPES[case](spans).encode()
    (tmp_path / "other.json").write_bytes(gzip.compress(text) if packed else text)
    found, wanted = (fit_profile([tmp_path / name]) for name in ("other.json", "plain.jsonl"))
    assert found.digest == wanted.digest
    assert found.requests == 30


@pytest.mark.parametrize("case", ["a dump of Elasticsearch", "tags as fields", "Zipkin's spans"])
def test_failures_are_read_from_every_format(case: str, tmp_path: Path) -> None:
    spans = traces()
    for trace in by_trace(spans)[:7]:
        trace[0].error = True
    (tmp_path / "a.json").write_text(ENVELOPES[case](spans))
    assert fit_profile([tmp_path / "a.json"]).counts["requests_failed"] == 7


@pytest.mark.parametrize(("name", "requests"), [("F13", 250), ("F14", 100)])
def test_cases_of_envelopes_are_read(name: str, requests: int) -> None:
    profile = fit_profile([field_file(name)])
    assert profile.requests == requests
    assert [stage.match.service for stage in profile.stages] == ["front", "back"]


# Start of a file, and what the message names.
OTHERS: dict[str, tuple[str, str]] = {
    "console of Python": (
        '{\n "name": "a",\n "context": {\n  "trace_id": "0x01"\n }\n}\n' * 2,
        "console exporter",
    ),
    "console of Python, a line": ('{"name": "a", "context": {"trace_id": "0x01"}}\n', "console exporter"),
    "console of Node": ("{\n  resource: {},\n  traceId: 'ab',\n}\n", "console exporter"),
    "console of Go": ('{"Name": "a", "SpanContext": {"TraceID": "ab"}}\n', "console exporter"),
    "console of .NET": ("Activity.TraceId:            ab\n", "console exporter"),
    "debug exporter of the collector": (
        "2026 info ResourceSpans #0\nResource SchemaURL: \n",
        "debug exporter",
    ),
    "X-Ray, a segment": ('{"trace_id": "1-5759e988-bd862e3fe1be46a994272793", "id": "ab"}\n', "X-Ray"),
    "X-Ray, an answer": (
        '{"Traces": [{"Id": "1-5759e988-bd862e3fe1be46a994272793", "Segments": []}]}',
        "X-Ray",
    ),
    "Datadog, of an agent": ('[[{"trace_id": 123, "span_id": 4, "service": "a", "meta": {}}]]', "Datadog"),
    "Datadog, an answer": ('{"data": [{"id": "x", "type": "spans", "attributes": {}}]}', "Datadog"),
    "SkyWalking": ('{"data": {"trace": {"spans": [{"traceId": "a.1", "segmentId": "b"}]}}}', "SkyWalking"),
    "Grafana, an answer": ('{"results": {"A": {"frames": [{"schema": {"fields": []}}]}}}', "Grafana"),
    "Grafana, a panel": ('[{"schema": {"fields": []}, "data": {"values": []}}]', "Grafana"),
    "Tempo, a search": ('{"traces": [{"traceID": "ab", "rootServiceName": "a"}]}', "answer to a search"),
    "Honeycomb": ('{"trace.trace_id": "ab", "duration_ms": 3}\n', "Honeycomb"),
    "Elastic APM": ('{"_source": {"processor": {"event": "transaction"}}}\n', "Elastic APM"),
    "another index": ('{"_source": {"TraceId": "ab", "SpanId": "cd", "@timestamp": 1}}\n', "another index"),
    "Google Cloud": ('{"traces": [{"projectId": "p", "traceId": "ab", "spans": []}]}', "Google Cloud Trace"),
    "Zipkin of version 1": ('[{"traceId": "1", "id": "2", "binaryAnnotations": []}]', "version 1"),
    "Zipkin of version 1, annotations": (
        '[{"traceId": "1", "id": "2", "annotations": [{"timestamp": 1, "value": "sr", "endpoint": {}}]}]',
        "version 1",
    ),
    "Chrome": ('{"traceEvents": []}', "Chrome"),
    "protobuf, framed": ("\0\0\x01\x10\n", "protobuf"),
    "protobuf": ("\n\x8f\x01\n\x1c\n\x1a\n\x0cservice.name\x12\n\n\x08checkout", "protobuf"),
}


@pytest.mark.parametrize("case", OTHERS)
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_other_tools_are_named_with_the_way_out(case: str, packed: bool, tmp_path: Path) -> None:
    start, message = OTHERS[case]
    text = start.encode("latin-1")
    (tmp_path / "a.json").write_bytes(gzip.compress(text) if packed else text)
    with pytest.raises(InputError, match=rf"a\.json.*{message}"):
        fit_profile([tmp_path / "a.json"])


def test_the_case_of_a_console_is_named_with_the_way_out() -> None:
    with pytest.raises(InputError, match=r"console exporter.*send the spans by OTLP"):
        fit_profile([field_file("F15")])


def test_envelopes_in_envelopes_have_an_end(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"result": ' * 50 + "{}" + "}" * 50)
    with pytest.raises(InputError, match="inside of more than 6 other documents"):
        fit_profile([tmp_path / "a.json"])
    (tmp_path / "a.json").write_text("[" * 50 + "]" * 50)
    with pytest.raises(InputError, match="inside of more than 6 other documents"):
        fit_profile([tmp_path / "a.json"])
