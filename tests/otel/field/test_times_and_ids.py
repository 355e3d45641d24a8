"""Times in another unit, spans without an end, and ids that are written in several ways."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kwiken.base.errors import InputError
from kwiken.model.profile.profile import Profile
from kwiken.otel.fit.fit import fit_profile
from tests.support.otel.field_data import field_file
from tests.support.otel.span_trees import MS, T0, Span, by_trace, jaeger_trace, otlp_line, write

US = 1000


def calls(requests: int, *, levels: int = 1) -> list[Span]:
    """Requests that call down a chain of services; each level has a client's and a server's span."""
    spans: list[Span] = []
    for number in range(requests):
        start, end = T0 + number * 100 * MS, T0 + number * 100 * MS + (20 + number % 7) * MS
        trace, top = number + 1, len(spans) + 1
        spans.append(Span(trace, top, 0, "front", "GET /home", start, end))
        for level in range(levels):
            start, end = start + MS, end - 2 * MS
            caller = "front" if level == 0 else f"back{level}"
            spans.append(Span(trace, len(spans) + 1, top, caller, "GET", start, end))
            spans.append(
                Span(
                    trace,
                    len(spans) + 1,
                    len(spans),
                    f"back{level + 1}",
                    "GET /items",
                    start + MS // 5,
                    end - MS // 5,
                )
            )
            top = len(spans)
    return spans


def otlp(spans: list[Span]) -> list[Any]:
    return [json.loads(otlp_line(trace)) for trace in by_trace(spans)]


def otlp_spans(document: Any) -> list[Any]:
    return [
        span for part in document["resourceSpans"] for scope in part["scopeSpans"] for span in scope["spans"]
    ]


def fit(path: Path, documents: list[Any], **options: Any) -> Profile:
    return fit_profile(
        [write(path / "a.jsonl", "".join(f"{json.dumps(one)}\n" for one in documents))], **options
    )


def without_end(document: Any, which: Callable[[Any], bool], how: object) -> Any:
    """OTLP or Jaeger JSON whose chosen spans state no end: `how` is what stands there, `...` for no field."""
    for span in otlp_spans(document) if "resourceSpans" in document else document["spans"]:
        field = "endTimeUnixNano" if "spanId" in span else "duration"
        if which(span):
            if how is ...:
                del span[field]
            else:
                span[field] = how
    return document


def is_server(span: Any) -> bool:
    return bool(span.get("name", span.get("operationName")) == "GET /items")


@pytest.mark.parametrize("how", ["0", 0, "", None, ...])
@pytest.mark.parametrize("levels", [1, 3])
@pytest.mark.parametrize("part", [1, 25])
def test_a_call_is_whole_at_its_client_where_the_servers_span_has_no_end(
    how: object, levels: int, part: int, tmp_path: Path
) -> None:
    spans = calls(50, levels=levels)
    cut = [without_end(one, is_server, how) if i % part == 0 else one for i, one in enumerate(otlp(spans))]
    found, wanted = fit(tmp_path, cut, depth=levels), fit(tmp_path, otlp(spans), depth=levels)
    assert found.counts["spans_unfinished"] == -(-50 // part) * levels
    assert [stage.visit_share for stage in found.stages] == [1.0] * len(found.stages)
    for one, other in zip(found.stages, wanted.stages, strict=True):
        np.testing.assert_array_equal(one.calls_ms, other.calls_ms)


def test_a_call_is_whole_at_its_server_where_the_clients_span_has_no_end(tmp_path: Path) -> None:
    documents = [without_end(one, lambda span: span["name"] == "GET", "0") for one in otlp(calls(50))]
    found = fit(tmp_path, documents)
    assert found.stages[1].visit_share == 1.0
    # From the client's start to the server's end, which is a fifth of a millisecond early.
    np.testing.assert_allclose(found.stages[1].latency_ms, found.latency_ms - 3 - 0.2)


def test_jaegers_spans_without_a_duration_are_unfinished_too(tmp_path: Path) -> None:
    documents = [without_end(jaeger_trace(trace), is_server, ...) for trace in by_trace(calls(50))]
    found = fit(tmp_path, documents)
    assert found.counts["spans_unfinished"] == 50
    assert found.stages[1].visit_share == 1.0


def test_requests_without_an_end_are_set_aside(tmp_path: Path) -> None:
    documents = otlp(calls(50))
    for document in documents[:5]:
        without_end(document, lambda span: "parentSpanId" not in span, "0")
    found = fit(tmp_path, documents)
    assert (found.requests, found.counts["requests_negative"]) == (45, 5)
    with pytest.raises(InputError, match="50 end before they begin or have no end"):
        fit(tmp_path, [without_end(one, lambda span: "parentSpanId" not in span, "0") for one in documents])


def test_the_case_of_unfinished_spans() -> None:
    profile = fit_profile([field_file("F11")])
    own, back = profile.stages
    assert back.visit_share == 1.0
    assert np.percentile(own.calls_ms, 99) == pytest.approx(4.0)


UNITS = {"microseconds": 10**3, "milliseconds": 10**6, "seconds": 10**9}


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("which", ["startTimeUnixNano", "endTimeUnixNano"])
@pytest.mark.parametrize("every", [1, 7])
@pytest.mark.parametrize("kind", [str, int])
def test_times_in_another_unit_are_refused_with_the_unit(
    unit: str, which: str, every: int, kind: Callable[[int], object], tmp_path: Path
) -> None:
    documents = otlp(calls(20))
    for document in documents[::every]:
        for span in otlp_spans(document):
            span[which] = kind(int(span[which]) // UNITS[unit])
    with pytest.raises(
        InputError, match=rf"a\.jsonl:1: span .*: {which} must be .* which is a time in {unit}\Z"
    ):
        fit(tmp_path, documents)


@pytest.mark.parametrize(
    ("unit", "factor"), [("nanoseconds", 1000), ("milliseconds", 1 / 1000), ("seconds", 1e-6)]
)
def test_jaegers_times_in_another_unit_are_refused_with_the_unit(
    unit: str, factor: float, tmp_path: Path
) -> None:
    documents = [jaeger_trace(trace) for trace in by_trace(calls(20))]
    for span in documents[3]["spans"]:
        span["startTime"] = int(span["startTime"] * factor)
    with pytest.raises(InputError, match=rf"a\.jsonl:4: .*startTime must be .* which is a time in {unit}\Z"):
        fit(tmp_path, documents)


def test_the_case_of_microseconds() -> None:
    with pytest.raises(InputError, match="which is a time in microseconds"):
        fit_profile([field_file("F10")])


def test_times_since_the_start_of_a_simulation_are_read(tmp_path: Path) -> None:
    documents = otlp(calls(20))
    for document in documents:
        for span in otlp_spans(document):
            for field in ("startTimeUnixNano", "endTimeUnixNano"):
                span[field] = str(int(span[field]) - T0)
    assert fit(tmp_path, documents).digest == fit(tmp_path, documents).digest


def padded(text: str) -> str:
    return f"{text:0>32}"


FORMS: dict[str, Callable[[str], str]] = {
    "padded": padded,
    "short": lambda text: text.lstrip("0"),
    "capitals": str.upper,
    "with a prefix": lambda text: f"0x{text}",
    "padded capitals": lambda text: padded(text).upper(),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("field", ["traceID", "spanID"])
@pytest.mark.parametrize("every", [1, 3])
def test_ids_are_numbers_in_references_of_jaeger(form: str, field: str, every: int, tmp_path: Path) -> None:
    spans = calls(60, levels=2)
    for span in spans:
        span.trace += 0xABC0
    documents = [jaeger_trace(trace) for trace in by_trace(spans)]
    plain = fit(tmp_path, documents, depth=2)
    for document in documents[::every]:
        for span in document["spans"]:
            for reference in span["references"]:
                reference[field] = FORMS[form](reference[field])
    assert fit(tmp_path, documents, depth=2).digest == plain.digest


@pytest.mark.parametrize("form", FORMS)
def test_ids_are_numbers_in_otlp(form: str, tmp_path: Path) -> None:
    spans = calls(60)
    for span in spans:
        span.trace += 0xABC0
    documents = otlp(spans)
    plain = fit(tmp_path, documents)
    for document in documents:
        for span in otlp_spans(document)[1:]:
            for field in {"traceId", "parentSpanId"} & span.keys():
                span[field] = FORMS[form](span[field])
    assert fit(tmp_path, documents).digest == plain.digest


def test_the_case_of_padded_ids() -> None:
    back = fit_profile([field_file("F09")]).stages[1]
    assert back.match.service == "back"
    assert np.percentile(back.calls_ms, (50, 99)) == pytest.approx((10.02, 60.0), abs=0.01)
