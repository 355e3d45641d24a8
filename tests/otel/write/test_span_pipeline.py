"""Span pipeline and observers: no caller waits, and every loss is counted."""

from __future__ import annotations

import json
import logging
import random
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from kwiken.base.errors import InputError
from kwiken.otel.trace.traces import read_traces
from kwiken.otel.write import pipeline as pipeline_module
from kwiken.otel.write.collector import TRACES_PATH, Collector
from kwiken.otel.write.endpoint import collector_url
from kwiken.otel.write.observer import ServerSpans, make_observer
from kwiken.otel.write.pipeline import Pipeline
from kwiken.otel.write.records import RequestRecord
from kwiken.otel.write.sdk_exporter import OtlpLinesExporter
from kwiken.otel.write.span_model import SpanData
from tests.support.otel.span_trees import MS, T0, Dag, record
from tests.support.peers.http_servers import Told, http_server

CHAIN = Dag([[], [0], [1]])


def requests(number: int, seed: int = 1) -> list[RequestRecord]:
    rng = random.Random(seed)
    return [record(rng, CHAIN, start=T0 + i * 50 * MS, widths={1: 4}) for i in range(number)]


def lines(folder: Path) -> list[Any]:
    return [json.loads(line) for path in sorted(folder.iterdir()) for line in path.read_text().splitlines()]


def all_spans(folder: Path) -> list[Any]:
    return [
        s
        for line in lines(folder)
        for r in line["resourceSpans"]
        for c in r["scopeSpans"]
        for s in c["spans"]
    ]


def test_every_request_is_a_line_once_closed(tmp_path: Path) -> None:
    observer = make_observer("shop", traces=tmp_path)
    for request in requests(50):
        observer.request_finished(request)
    observer.close()
    observer.close()
    assert len(lines(tmp_path)) == 50
    counts = observer.counts()
    assert (counts.taken, counts.lines, counts.dropped, counts.lost_lines) == (50, 50, 0, 0)
    assert counts.spans == len(all_spans(tmp_path)) == 50 * (1 + 3 + 6)
    assert counts.bytes == sum(path.stat().st_size for path in tmp_path.iterdir())


def test_what_was_flushed_can_be_read_while_the_service_runs(tmp_path: Path) -> None:
    observer = make_observer("shop", traces=tmp_path)
    try:
        for request in requests(20):
            observer.request_finished(request)
        assert observer.flush()
        assert [path.suffix for path in tmp_path.iterdir()] == [".part"]
        assert len(read_traces([tmp_path])) == 20
    finally:
        observer.close()


def test_nothing_is_taken_after_closing(tmp_path: Path) -> None:
    observer = make_observer("shop", traces=tmp_path)
    observer.close()
    observer.request_finished(requests(1)[0])
    assert observer.counts().dropped == 1
    assert list(tmp_path.iterdir()) == []


def served(**more: Any) -> Any:
    parent = SimpleNamespace(trace_id=1 << 99, span_id=42, sampled=True)
    call = {"parent": parent, "shard": 2, "start_ns": T0, "end_ns": T0 + MS, "busy_ms": 0.25, "error": None}
    call |= {"exception": None, "began_ns": T0, "attempt": 0, "first_item_ns": None}
    return SimpleNamespace(**{**call, **more})


def test_a_replicas_calls_become_server_spans_below_their_callers(tmp_path: Path) -> None:
    spans = ServerSpans("shop", "look", "r1", "n1", traces=tmp_path)
    for _ in range(100):
        spans.call_finished(served())
    spans.call_finished(served(error="boom"))
    spans.call_finished(served(parent=None))
    spans.call_finished(served(parent=SimpleNamespace(trace_id=1, span_id=1, sampled=False)))
    spans.close()
    found = all_spans(tmp_path)
    assert len(found) == 101
    assert {s["parentSpanId"] for s in found} == {f"{42:016x}"}
    assert len({s["spanId"] for s in found}) == 101
    assert sum("status" in s for s in found) == 1
    assert spans.counts().not_sampled == 2
    assert len(lines(tmp_path)) < 20, "calls share lines"
    attributes = {
        a["key"]: a["value"] for a in lines(tmp_path)[0]["resourceSpans"][0]["resource"]["attributes"]
    }
    assert attributes["service.name"] == {"stringValue": "shop-look"}
    assert attributes["service.instance.id"] == {"stringValue": "r1"}


def test_a_full_queue_drops_and_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline_module, "MAX_QUEUE", 10)
    release = threading.Event()

    def slow(item: int) -> list[SpanData]:
        release.wait(10)
        return [SpanData(1, item + 1, None, "x", 1, T0, T0, [])]

    pipeline = Pipeline(slow, {}, files=None, collector=None)
    for number in range(100):
        pipeline.put(number)
    release.set()
    pipeline.close()
    counts = pipeline.counts()
    assert counts.taken + counts.dropped == 100
    assert 10 <= counts.taken <= 12
    assert counts.spans == counts.taken


def test_a_note_that_cannot_be_written_is_counted_and_the_rest_go_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    observer = make_observer("shop", traces=tmp_path)
    bad = requests(1)[0]
    bad.stages = None  # type: ignore[assignment]
    good = requests(1, seed=2)[0]
    with caplog.at_level(logging.CRITICAL, "kwiken.spans"):
        observer.request_finished(bad)
        observer.request_finished(good)
        observer.close()
    assert (observer.counts().bad, len(lines(tmp_path))) == (1, 1)


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="spans cannot be written there"):
        make_observer("shop", traces=tmp_path / "file" / "below")


@pytest.mark.parametrize(
    "address",
    ["", "localhost:4318", "ftp://x:1", "http://", "http://h:port", "http://h:99999", "grpc://x:4317"],
)
def test_an_address_that_is_no_collectors_is_refused(address: str) -> None:
    with pytest.raises(InputError, match="is no URL of a collector"):
        make_observer("shop", otlp=address)


def test_the_traces_path_is_added_where_none_is_given() -> None:
    for given, expected in (
        ("http://h:4318", "http://h:4318/v1/traces"),
        ("http://h:4318/", "http://h:4318/v1/traces"),
        ("https://h/otlp/v1/traces", "https://h/otlp/v1/traces"),
    ):
        assert collector_url(given, TRACES_PATH, option="otlp") == expected


def test_a_collector_gets_the_same_spans_as_the_files(tmp_path: Path) -> None:
    with http_server() as collector:
        observer = make_observer("shop", traces=tmp_path, otlp=collector.url)
        for request in requests(30):
            observer.request_finished(request)
        observer.close()
    sent = [
        span
        for asked in collector.asked
        for resource in ExportTraceServiceRequest.FromString(asked.body).resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]
    assert {(s.trace_id.hex(), s.span_id.hex(), s.name) for s in sent} == {
        (s["traceId"], s["spanId"], s["name"]) for s in all_spans(tmp_path)
    }
    counts = observer.counts()
    assert counts.exported == counts.spans == 300
    assert (counts.export_failed, counts.export_dropped) == (0, 0)


def test_a_collector_that_refuses_costs_no_request_and_is_counted(tmp_path: Path) -> None:
    with http_server(Told(status=400)) as collector:
        logging.disable(logging.CRITICAL)
        try:
            observer = make_observer("shop", traces=tmp_path, otlp=collector.url)
            for request in requests(5):
                observer.request_finished(request)
            observer.close()
        finally:
            logging.disable(logging.NOTSET)
    counts = observer.counts()
    assert (counts.exported, counts.export_failed) == (0, 50)
    assert len(lines(tmp_path)) == 5, "the files have them all the same"


class Blocked(SpanExporter):
    """An exporter whose collector hangs until it is shut down."""

    def __init__(self) -> None:
        self.over = threading.Event()

    def export(self, spans: Any) -> SpanExportResult:
        self.over.wait(30)
        return SpanExportResult.FAILURE

    def shutdown(self) -> None:
        self.over.set()


def test_closing_does_not_wait_for_a_collector_that_hangs() -> None:
    exporter = Blocked()
    out = Collector("http://127.0.0.1:1", {"service.name": "x"}, exporter=exporter)
    for number in range(1, 1000):
        out.send(SpanData(1, number, None, "x", 1, T0, T0, []))
    out.close(timeout_s=0.1)
    assert exporter.over.is_set(), "it was told to give up"
    assert out.exported + out.failed + out.dropped == 999


def test_any_tracers_spans_can_go_into_the_embedded_sink(tmp_path: Path) -> None:
    exporter = OtlpLinesExporter(tmp_path, "mine")
    provider = TracerProvider(resource=Resource({"service.name": "mine"}))
    provider.add_span_processor(BatchSpanProcessor(exporter))
    tracer = provider.get_tracer("lib", "1.2")
    with tracer.start_as_current_span("outer", attributes={"n": 1, "many": ("a", "b")}):
        for name in ("first", "second"):
            with tracer.start_as_current_span(name):
                time.sleep(0.001)
    provider.shutdown()
    assert exporter.counts.lines >= 1
    assert exporter.export([]) is SpanExportResult.FAILURE, "it is closed"
    (trace,) = read_traces([tmp_path])
    assert [span.label for span in trace.spans] == ["mine:outer", "mine:first", "mine:second"]
    scope = lines(tmp_path)[0]["resourceSpans"][0]["scopeSpans"][0]["scope"]
    assert scope == {"name": "lib", "version": "1.2"}
