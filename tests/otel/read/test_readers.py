"""Trace readers: every format and compression gives the same spans and the same profile."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from kwiken.base.errors import InputError
from kwiken.model.profile.profile import Profile
from kwiken.otel.fit.fit import fit_profile
from kwiken.otel.read import file_reader, inputs
from kwiken.otel.read.columns import span_numbers, trace_numbers
from kwiken.otel.trace.load import read_forest
from kwiken.otel.trace.traces import read_traces
from kwiken.otel.write.observer import make_observer
from tests.support.otel.span_trees import (
    Maker,
    Span,
    by_trace,
    jaeger_json,
    jaeger_trace,
    layered_dag,
    otlp_line,
    otlp_lines,
    otlp_spans,
    random_dag,
    record,
    write,
)


def made(requests: int = 30, seed: int = 1) -> list[Span]:
    rng = random.Random(seed)
    return Maker(layered_dag(rng, 3), rng, pairs=True).requests(requests)


def in_microseconds(spans: list[Span]) -> list[Span]:
    """The same spans as Jaeger can tell them."""
    for span in spans:
        span.end = span.start + (span.end - span.start) // 1000 * 1000
        span.start = span.start // 1000 * 1000
        span.end = span.end // 1000 * 1000
    return spans


def same(a: Profile, b: Profile) -> None:
    assert [(s.name, s.after, s.match, s.busy_ms) for s in a.stages] == [
        (s.name, s.after, s.match, s.busy_ms) for s in b.stages
    ]
    np.testing.assert_allclose(a.latency_ms, b.latency_ms, atol=2e-3)
    for one, other in zip(a.stages, b.stages, strict=True):
        np.testing.assert_allclose(one.calls_ms, other.calls_ms, atol=4e-3)
        np.testing.assert_array_equal(one.censored, other.censored)


def resources(spans: list[Span]) -> dict[str, Any]:
    """All spans as one document with a resource each service."""
    services = sorted({span.service for span in spans})
    return {"resourceSpans": [otlp_spans(s, [x for x in spans if x.service == s]) for s in services]}


WAYS: dict[str, Callable[[list[Span]], str]] = {
    "a jaeger document on one line": jaeger_json,
    "a jaeger document over many lines": lambda s: jaeger_json(s, indent=1),
    "jaeger with a process in each span": lambda s: jaeger_json(s, embedded=True),
    "a jaeger document a line": lambda s: "".join(f"{jaeger_json(trace)}\n" for trace in by_trace(s)),
    "a bare jaeger trace a line": lambda s: "".join(f"{json.dumps(jaeger_trace(t))}\n" for t in by_trace(s)),
    "otlp lines": otlp_lines,
    "otlp lines without a last newline": lambda s: otlp_lines(s).rstrip("\n"),
    "otlp lines with blank lines and a mark": lambda s: "\ufeff\n\n" + otlp_lines(s).replace("\n", "\r\n\n"),
    "an array of jaeger traces": lambda s: json.dumps([jaeger_trace(t) for t in by_trace(s)], indent=1),
    "an array of answers of jaeger": lambda s: json.dumps([json.loads(jaeger_json(t)) for t in by_trace(s)]),
    "an array of otlp documents": lambda s: json.dumps(
        [json.loads(line) for line in otlp_lines(s).split("\n") if line]
    ),
    "otlp lines among lines of logs and metrics": lambda s: (
        '{"resourceLogs":[]}\n' + otlp_lines(s).replace("\n", '\n{"resourceMetrics":[]}\n')
    ),
    "otlp from before its scopes were named so": lambda s: otlp_lines(s).replace(
        "scopeSpans", "instrumentationLibrarySpans"
    ),
    "an answer of tempo": lambda s: json.dumps({"batches": resources(s)["resourceSpans"]}),
    "an answer of tempo over many lines": lambda s: json.dumps(
        {"batches": resources(s)["resourceSpans"]}, indent=1
    ),
    "an answer of tempo's second api": lambda s: json.dumps({"trace": resources(s)}),
    "answers of tempo, one a line": lambda s: "".join(
        json.dumps({"trace": resources(trace)}) + "\n" for trace in by_trace(s)
    ),
    "an otlp document": lambda s: json.dumps(resources(s)),
    "an otlp document over many lines": lambda s: json.dumps(resources(s), indent=2),
    "a span a line": lambda s: "".join(f"{otlp_line([span])}\n" for span in s),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("packed", [False, True])
def test_every_way_to_write_them_reads_the_same(way: str, packed: bool, tmp_path: Path) -> None:
    expected = fit_profile([write(tmp_path / "expected.jsonl", otlp_lines(in_microseconds(made())))])
    data = WAYS[way](in_microseconds(made())).encode()
    path = tmp_path / ("x.json.gz" if packed else "x.json")
    path.write_bytes(gzip.compress(data) if packed else data)
    same(fit_profile([path]), expected)


def test_a_trace_may_be_spread_over_lines_and_files(tmp_path: Path) -> None:
    spans = made()
    expected = fit_profile([write(tmp_path / "expected.jsonl", otlp_lines(spans))])
    random.Random(5).shuffle(spans)
    folder = tmp_path / "many" / "deep"
    folder.mkdir(parents=True)
    for part in range(7):
        write(folder / f"{part}.jsonl", otlp_lines(spans[part::7]))
    same(fit_profile([tmp_path / "many"]), expected)


def test_a_file_named_twice_is_read_once(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", otlp_lines(made()))
    profile = fit_profile([path, tmp_path, str(path)])
    assert (profile.counts["files"], profile.requests) == (1, 30)


def test_a_folders_other_files_are_left_alone(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", otlp_lines(made()))
    write(tmp_path / "README.txt", "no traces")
    write(tmp_path / ".hidden.json", "no traces")
    assert fit_profile([tmp_path]).counts["files"] == 1


def test_a_file_being_written_may_end_in_the_middle_of_a_line(tmp_path: Path) -> None:
    text = otlp_lines(made())
    write(tmp_path / "a.jsonl", text)
    write(tmp_path / "b.jsonl.part", otlp_lines(made(seed=2))[:-100])
    write(tmp_path / "c.jsonl.part", "")
    write(tmp_path / "d.jsonl.part", otlp_lines(made(1, seed=3))[:-100])
    profile = fit_profile([tmp_path])
    assert (profile.requests, profile.counts["lines_unfinished"]) == (59, 2)
    assert profile.counts["files_without_spans"] == 2


def test_a_large_document_goes_through_a_file_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = fit_profile([write(tmp_path / "a.json", jaeger_json(made(), indent=1))])
    monkeypatch.setattr(inputs, "IN_MEMORY", 1000)
    same(fit_profile([tmp_path / "a.json"]), expected)


@pytest.mark.parametrize("way", ["a jaeger document on one line", "otlp lines"])
def test_a_first_line_past_what_is_held_in_memory(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = fit_profile([write(tmp_path / "a.json", WAYS[way](made()))])
    monkeypatch.setattr(file_reader, "IN_MEMORY", 1000)
    monkeypatch.setattr(inputs, "IN_MEMORY", 1000)
    same(fit_profile([tmp_path / "a.json"]), expected)


def test_an_error_far_into_a_large_document_is_located(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_reader, "IN_MEMORY", 1000)
    monkeypatch.setattr(inputs, "IN_MEMORY", 1000)
    document = json.loads(jaeger_json(made()))
    document["data"][20]["spans"][1]["duration"] = "x"
    with pytest.raises(InputError, match=r"a\.json: data\[20\]: .*duration"):
        fit_profile([write(tmp_path / "a.json", json.dumps(document))])


def test_progress_counts_all_bytes(tmp_path: Path) -> None:
    paths = [write(tmp_path / f"{i}.jsonl", "".join([otlp_lines(made(20, seed=i))])) for i in range(3)]
    paths.append(write(tmp_path / "long.jsonl", "".join(f"{otlp_line([s])}\n" for s in made(100, seed=9))))
    seen: list[tuple[int, int]] = []
    fit_profile(paths, on_progress=lambda done, total: seen.append((done, total)))
    total = sum(path.stat().st_size for path in paths)
    assert {t for _, t in seen} == {total}
    assert [d for d, _ in seen] == sorted(d for d, _ in seen)
    assert seen[-1] == (total, total)
    assert len(seen) > len(paths)


@given(st.integers(0, 2**32))
def test_our_sink_and_jaegers_form_of_the_same_agree(seed: int) -> None:
    import tempfile

    rng = random.Random(seed)
    dag = random_dag(rng, 4)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        observer = make_observer("shop", traces=folder)
        for _ in range(20):
            request = record(rng, dag, widths={1: 3}, copies=0.3)
            observer.request_finished(request)
        observer.close()
        expected = fit_profile([folder])
        (path,) = folder.iterdir()
        documents = [as_jaeger(json.loads(line)) for line in path.read_text().splitlines()]
        path.unlink()
        write(folder / "j.json", json.dumps({"data": documents}))
        same(fit_profile([folder]), expected)


def as_jaeger(line: Any) -> dict[str, Any]:
    """An own trace as a Jaeger that got it by OTLP gives it out."""
    types = {"stringValue": "string", "intValue": "int64", "doubleValue": "float64", "boolValue": "bool"}
    (resource,) = line["resourceSpans"]
    spans = []
    for span in resource["scopeSpans"][0]["spans"]:
        tags: list[dict[str, Any]] = [{"key": "span.kind", "type": "string", "value": "client"}]
        for attribute in span["attributes"]:
            ((kind, value),) = attribute["value"].items()
            tags.append(
                {
                    "key": attribute["key"],
                    "type": types[kind],
                    "value": int(value) if kind == "intValue" else value,
                }
            )
        references = []
        if "parentSpanId" in span:
            references.append(
                {"refType": "CHILD_OF", "traceID": span["traceId"], "spanID": span["parentSpanId"]}
            )
        references += [
            {"refType": "FOLLOWS_FROM", "traceID": link["traceId"], "spanID": link["spanId"]}
            for link in span.get("links", [])
        ]
        start, end = int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"])
        spans.append(
            {
                "traceID": span["traceId"],
                "spanID": span["spanId"],
                "operationName": span["name"],
                "references": references,
                "startTime": start // 1000,
                "duration": end // 1000 - start // 1000,
                "tags": tags,
                "processID": "p1",
            }
        )
    return {"traceID": spans[0]["traceID"], "spans": spans, "processes": {"p1": {"serviceName": "shop"}}}


def test_identifiers_of_any_kind_separate_spans(tmp_path: Path) -> None:
    """Base64 (old exporters), upper case, stripped zeros, or plain words."""
    for number, (trace, a, b) in enumerate(
        [
            ("W47/95gDgQPSabYzgT/GDA==", "7uGbfsPBsXM=", "hAAAAAAAAAE="),
            ("5B8EFFF798038103D269B633813FC60C", "EEE19B7EC3C1B174", "EEE19B7EC3C1B173"),
            ("1", "a", "b"),
            ("trace-one", "span one", "span two"),
        ]
    ):
        spans = [
            {
                "traceId": trace,
                "spanId": a,
                "name": "r",
                "startTimeUnixNano": 1000,
                "endTimeUnixNano": "9000",
            },
            {
                "traceId": trace,
                "spanId": b,
                "parentSpanId": a,
                "name": "c",
                "startTimeUnixNano": "2000",
                "endTimeUnixNano": 3000,
            },
        ]
        path = write(
            tmp_path / f"{number}.jsonl", json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]})
        )
        (trace_read,) = read_traces([path])
        assert [span.parent for span in trace_read.spans] == [None, 0]
        assert trace_read.spans[0].service == "unknown_service"


@given(st.lists(st.text(alphabet="0123456789abcdefABCDEF g-", max_size=20), max_size=8))
def test_equal_identifiers_are_equal_numbers_and_others_are_not(ids: list[str]) -> None:
    numbers = span_numbers(ids).tolist()

    def plain(text: str) -> object:
        try:
            return int(text or "0", 16) if len(text) <= 16 and text.isalnum() else text or 0
        except ValueError:
            return text

    for i, a in enumerate(ids):
        for j, b in enumerate(ids):
            assert (numbers[i] == numbers[j]) == (plain(a) == plain(b))


def test_trace_identifiers_keep_all_their_bits() -> None:
    ids = ["0" * 31 + "1", "1" + "0" * 31, "f" * 32]
    high, low = trace_numbers(ids)
    assert [(int(h) << 64) | int(n) for h, n in zip(high, low, strict=True)] == [int(i, 16) for i in ids]
    high, low = trace_numbers(["1", "f" * 32])
    assert (int(high[1]), int(low[0])) == ((1 << 64) - 1, 1)


def test_jaegers_references_are_followed_as_jaeger_does(tmp_path: Path) -> None:
    spans = made(1)
    document = json.loads(jaeger_json(spans))
    root, child = document["data"][0]["spans"][:2]
    elsewhere = {"refType": "CHILD_OF", "traceID": "ffff", "spanID": "1234"}
    after = {"refType": "FOLLOWS_FROM", "traceID": root["traceID"], "spanID": "77"}
    child["references"] = [elsewhere, after, *child["references"]]
    root["references"] = [elsewhere]
    forest = read_forest([write(tmp_path / "a.json", json.dumps(document))])
    assert forest.counts["spans_orphaned"] == 0
    assert (forest.depth == 0).sum() == 1


def test_an_error_is_one_only_where_its_tag_says_so(tmp_path: Path) -> None:
    for value, failed in (
        (True, 1),
        ("true", 1),
        ("ClientSideError", 1),
        (False, 0),
        ("false", 0),
        (None, 0),
    ):
        document = json.loads(jaeger_json(made(1)))
        document["data"][0]["spans"][1]["tags"] = [
            {"key": "error", "value": value},
            {"key": "message", "value": '"error" in a text'},
        ]
        forest = read_forest([write(tmp_path / "a.json", json.dumps(document))])
        assert (forest.spans["flags"] & 1).sum() == failed, value


def test_fields_that_are_null_are_as_good_as_missing(tmp_path: Path) -> None:
    span = {
        "traceId": "1" * 32,
        "spanId": "2" * 16,
        "parentSpanId": None,
        "name": "r",
        "startTimeUnixNano": "1000",
        "endTimeUnixNano": "2000",
        "attributes": None,
        "links": None,
        "status": None,
        "flags": 257,
        "droppedAttributesCount": 0,
    }
    line = json.dumps(
        {"resourceSpans": [{"resource": None, "scopeSpans": [{"spans": [span]}]}, {"scopeSpans": []}]}
    )
    assert len(read_traces([write(tmp_path / "a.jsonl", line)])) == 1


def test_jaeger_spans_without_an_id_or_a_process_are_counted(tmp_path: Path) -> None:
    rng = random.Random(5)
    document = json.loads(jaeger_json(Maker(layered_dag(rng, 2), rng).requests(30)))
    good = fit_profile([write(tmp_path / "good.json", json.dumps(document))])
    assert "spans_without_service" not in good.counts
    for trace in document["data"]:
        leaf = trace["spans"][-1]
        trace["spans"].append({**leaf, "spanID": ""})
        trace["spans"].append({key: value for key, value in leaf.items() if key != "spanID"})
    bare = fit_profile([write(tmp_path / "bare.json", json.dumps(document))])
    assert bare.counts["spans_without_id"] == 60
    assert bare.latency_ms.tolist() == good.latency_ms.tolist()
    for trace in document["data"]:
        trace["spans"][-3]["processID"] = "p99"
    lost = fit_profile([write(tmp_path / "lost.json", json.dumps(document))])
    assert lost.counts["spans_without_service"] == 30
