"""Requests that make a call for each row: no bound is silent, and a loop is one stage."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kwiken.model.profile.codec import profile_from_json, profile_to_json
from kwiken.model.profile.profile import Profile
from kwiken.otel.fit.fit import fit_profile
from tests.support.otel.field_data import field_file
from tests.support.otel.span_trees import MS, T0, Span, by_trace, jaeger_json, otlp_lines, write, zipkin_span
from tests.support.project.commands import run

CALL_MS, PERIOD_MS = 6, 8


def loop(rows: list[int], *, side_by_side: int = 1, between: int = 0) -> list[Span]:
    """Requests with a call of `list`, then one for each of so many rows, then one of `save`."""
    spans: list[Span] = []
    for trace, number in enumerate(rows, 1):
        start, top = T0 + trace * 100_000 * MS, len(spans) + 1
        spans.append(Span(trace, top, 0, "batch", "POST /import", start, 0))
        parent = top
        for level in range(between):
            spans.append(Span(trace, len(spans) + 1, parent, f"pass{level}", "POST /import", start, 0))
            parent = len(spans)
        now = start + MS

        def call(service: str, name: str, at: int, parent: int = parent, trace: int = trace) -> None:
            client = Span(
                trace, len(spans) + 1, parent, spans[parent - 1].service, "GET", at, at + CALL_MS * MS
            )
            spans.extend(
                [client, Span(trace, len(spans) + 2, client.id, service, name, at + 1000, client.end - 1000)]
            )

        call("rows", "GET /list", now)
        now += PERIOD_MS * MS
        for _ in range(-(-number // side_by_side)):
            for shard in range(side_by_side):
                call("rows", "GET /row", now + shard * MS // 10)
            now += PERIOD_MS * MS
        call("rows", "GET /end", now)
        for span in spans[top - 1 : top + between]:
            span.end = now + PERIOD_MS * MS
    return spans


FORMATS: dict[str, Callable[[list[Span]], str]] = {
    "otlp": otlp_lines,
    "jaeger": jaeger_json,
    "zipkin": lambda spans: json.dumps([[zipkin_span(span) for span in trace] for trace in by_trace(spans)]),
}


def fit(path: Path, spans: list[Span], form: str = "otlp", like: Profile | None = None) -> Profile:
    return fit_profile([write(path / "a.json", FORMATS[form](spans))], like=like)


def the_loop(profile: Profile) -> np.ndarray[Any, Any]:
    (stage,) = (stage for stage in profile.stages if stage.match.operation == "GET /row")
    assert not stage.reissuable
    assert "a loop of calls" in stage.writes
    return stage.calls_ms[:, 0]


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("between", [0, 2])
def test_a_loop_is_one_stage(form: str, between: int, tmp_path: Path) -> None:
    profile = fit(tmp_path, loop([150, 800, 300], between=between), form)
    assert len(profile.stages) == 4
    np.testing.assert_allclose(the_loop(profile), np.array([150, 800, 300]) * CALL_MS)
    assert profile.counts["calls_in_loops"] == 1250 - 3
    assert "calls_beyond_bounds" not in profile.counts
    np.testing.assert_allclose(
        profile.stages[0].latency_ms + sum(stage.latency_ms for stage in profile.stages[1:]),
        profile.latency_ms,
    )
    assert profile_from_json(profile_to_json(profile)).digest == profile.digest


def test_a_loop_in_a_part_of_the_requests_is_one_stage_in_all(tmp_path: Path) -> None:
    rows = [3] * 60 + [500] * 3
    np.testing.assert_allclose(the_loop(fit(tmp_path, loop(rows))), np.array(rows) * CALL_MS)


def test_a_loop_of_calls_side_by_side_takes_the_time_in_which_some_call_ran(tmp_path: Path) -> None:
    found = the_loop(fit(tmp_path, loop([800, 400], side_by_side=4)))
    np.testing.assert_allclose(found, np.array([200, 100]) * (CALL_MS + 0.3))


def test_a_rare_loop_is_counted_and_leaves_the_stages_as_they_are(tmp_path: Path) -> None:
    profile = fit(tmp_path, loop([2] * 300 + [150]))
    assert profile.counts["calls_beyond_bounds"] == 50
    assert "calls_in_loops" not in profile.counts


def test_other_traces_are_fitted_into_a_loop(tmp_path: Path) -> None:
    model = fit(tmp_path, loop([150, 800, 300]))
    rows = [40, 900]
    found = fit(tmp_path, loop(rows), like=model)
    np.testing.assert_allclose(the_loop(found), np.array(rows) * CALL_MS)
    assert "calls_not_in_model" not in found.counts


def test_the_case_of_two_thousand_calls() -> None:
    profile = fit_profile([field_file("F21")])
    (row,) = profile.stages[1:]
    assert profile.counts["calls_in_loops"] == 3 * 2000 - 3
    np.testing.assert_allclose(row.calls_ms, 2000 * 6.0)
    np.testing.assert_allclose(profile.stages[0].latency_ms, profile.latency_ms - 12_000)


def test_files_of_one_trace_are_said_to_be_so(tmp_path: Path) -> None:
    for number in range(15):
        spans = loop([2])
        for span in spans:
            span.id, span.parent = span.id + 1000 * number, span.parent + 1000 * number if span.parent else 0
        write(tmp_path / f"{number}.jsonl", otlp_lines(spans))
    told = run("fit", str(tmp_path))
    assert "all 15 files state one trace id" in told.stderr
    assert "all 15 files state one trace id" in run("advise", str(tmp_path)).stderr
