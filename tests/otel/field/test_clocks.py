"""Clocks that tick in milliseconds: an overlap up to the tick is none."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from kwiken.model.profile.profile import Profile
from kwiken.otel.fit.fit import fit_profile
from tests.support.otel.field_data import field_file
from tests.support.otel.span_trees import MS, T0, Span, by_trace, jaeger_json, otlp_lines, write, zipkin_span


def requests(
    number: int, *, names: Sequence[str], width: int = 1, tick: int = MS, every: int = 1, depth: int = 0
) -> list[Span]:
    """Requests that make calls one after another, `width` of each name at a time; starts are cut to the tick."""
    rng, spans, at = random.Random(5), list[Span](), T0
    for trace in range(1, number + 1):
        at += 100 * MS + rng.randrange(MS)
        whole = tick if trace % every == 0 else 1
        first = len(spans)
        tops = [
            Span(trace, first + 1 + level, first + level if level else 0, f"node{level}", "GET /p", at, 0)
            for level in range(depth + 1)
        ]
        spans += tops
        now = at + MS
        for name in names:
            ends = []
            for shard in range(width):
                began = now + shard * rng.randrange(MS // 4)
                ends.append(began + int((3 + rng.random()) * MS))
                client = Span(
                    trace, len(spans) + 1, tops[-1].id, tops[-1].service, "GET", began // whole * whole, 0
                )
                client.end = client.start + ends[-1] - began
                spans += [
                    client,
                    Span(
                        trace,
                        len(spans) + 2,
                        client.id,
                        name,
                        f"GET /{name}",
                        client.start + 1000,
                        client.end - 1000,
                    ),
                ]
            now = max(ends) + rng.randrange(MS // 10)
        for top in tops:
            top.start, top.end = at // whole * whole, at // whole * whole + now + 2 * MS - at
    return spans


FORMATS: dict[str, Callable[[list[Span]], str]] = {
    "otlp": otlp_lines,
    "jaeger": jaeger_json,
    "zipkin": lambda spans: json.dumps([[zipkin_span(span) for span in trace] for trace in by_trace(spans)]),
}


def after(profile: Profile) -> dict[str, tuple[str, ...]]:
    return {
        stage.name.partition(":")[2]: tuple(parent.partition(":")[2] for parent in stage.after)
        for stage in profile.stages[1:]
    }


def fit(path: Path, spans: list[Span], form: str = "otlp") -> Profile:
    return fit_profile([write(path / "a.json", FORMATS[form](spans))])


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("depth", [0, 2])
def test_calls_one_after_another_stay_so_under_a_coarse_clock(form: str, depth: int, tmp_path: Path) -> None:
    found = fit(tmp_path, requests(200, names=("a", "b", "c"), depth=depth), form)
    assert after(found) == {"a": ("p (own time)",), "b": ("a",), "c": ("b",)} or after(found)["c"] == ("b",)
    assert after(found)["b"] == ("a",)
    own = np.median(found.stages[0].latency_ms)
    assert own < 4.5, "the calls' time is not the request's own"


def test_the_time_of_services_does_not_lose_a_call_to_the_tick(tmp_path: Path) -> None:
    found = fit(tmp_path, requests(200, names=("a", "b", "c")))
    assert found.service_ms is not None
    times = dict(zip(found.service_names, np.median(found.service_ms, axis=0), strict=True))
    assert all(times[name] > 2.9 for name in ("a", "b", "c"))


def test_servers_of_a_coarse_clock_without_clients_keep_their_time(tmp_path: Path) -> None:
    spans = [span for span in requests(200, names=("a", "b")) if span.name != "GET"]
    for span in spans:
        if span.service in {"a", "b"}:
            span.parent -= 1
            span.start, span.end = span.start - 1000, span.end + 1000
    for trace in by_trace(spans):
        for span in trace[1:]:
            span.parent = trace[0].id
    found = fit(tmp_path, spans)
    assert found.service_ms is not None
    times = dict(zip(found.service_names, np.median(found.service_ms, axis=0), strict=True))
    assert times["a"] > 2.9
    assert after(found)["b"] == ("a",)


def test_calls_of_one_name_one_after_another_are_no_fan_out(tmp_path: Path) -> None:
    found = fit(tmp_path, requests(200, names=("a", "a", "a")))
    assert [stage.calls_ms.shape[1] for stage in found.stages] == [1, 1, 1, 1]
    assert list(after(found).values())[1:] == [("a",), ("a#2",)]


def test_a_fan_out_stays_one_under_a_coarse_clock(tmp_path: Path) -> None:
    found = fit(tmp_path, requests(200, names=("a", "b"), width=4))
    assert [stage.calls_ms.shape[1] for stage in found.stages] == [1, 4, 4]
    assert after(found)["b"] == ("a",)


def test_calls_side_by_side_stay_so_under_a_coarse_clock(tmp_path: Path) -> None:
    spans = requests(200, names=("a",), width=2)
    for place, span in enumerate(spans):
        if span.service == "a" and place % 5 == 4:
            span.service, span.name = "b", "GET /b"
    found = fit(tmp_path, spans)
    assert after(found)["a"] == after(found)["b"]


def test_a_fine_clock_has_no_tick(tmp_path: Path) -> None:
    """Overlaps of half a millisecond count where starts are exact."""
    spans = requests(200, names=("a", "b"), tick=1)
    for span in spans:
        if "b" in (span.service, span.name[-1:]):
            span.start -= MS // 2
    for trace in by_trace(spans):
        trace[3].start = trace[4].start - 1000
    assert after(fit(tmp_path, spans))["b"] != ("a",)


def test_the_case_of_a_coarse_clock() -> None:
    profile = fit_profile([field_file("F08")])
    own, a, b = profile.stages
    assert (a.after, b.after) == ((own.name,), (a.name,))
    assert np.median(own.latency_ms) == pytest.approx(4.0, abs=0.5)
