"""Calls that outlast their callers: nobody waited for them, unless the caller gave up waiting."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kwiken.model.profile.profile import Profile
from kwiken.otel.fit.fit import fit_profile
from tests.support.otel.field import FORMS, Trace, blamed, filed, requests, without_kinds
from tests.support.otel.field_data import field_file


def services(profile: Profile) -> set[str]:
    return {stage.match.service for stage in profile.stages}


def page(trace: Trace, *, data_ms: float) -> None:
    """A page that waits for its data, and tells `audit` without waiting."""
    root = trace.span(None, "web", "GET /page", 0, data_ms + 10, "server")
    trace.call(root, "GET", "data", "GET /data", 1, 1 + data_ms)
    trace.call(root, "POST", "audit", "GET /audit", 3, 200 + trace.rng.random() * 50)


def data_ms(trace: Trace) -> float:
    return 40.0 if trace.number % 25 == 0 else 10.0


def test_a_call_that_outlasts_the_answer_is_no_stage_and_never_to_blame() -> None:
    profile = fit_profile([field_file("F03_fire_and_forget")])
    assert services(profile) == {"web", "data"}
    assert profile.counts["calls_not_waited_for"] == 400
    assert "spans_clipped" not in profile.counts
    assert blamed(profile) == "data"
    slow = np.sort(profile.stages[1].latency_ms)[-16:]
    np.testing.assert_allclose(slow, 40.0)


@pytest.mark.parametrize("form", FORMS)
def test_without_kinds_and_attributes_it_is_the_same(form: str, tmp_path: Path) -> None:
    spans = without_kinds(requests(lambda trace: page(trace, data_ms=data_ms(trace))))
    profile = fit_profile([filed(tmp_path, spans, form)])
    assert services(profile) == {"web", "data"}
    assert blamed(profile) == "data"


@pytest.mark.parametrize("share", [1, 5])
def test_deep_in_a_trace_and_in_a_part_of_the_requests(share: int, tmp_path: Path) -> None:
    def make(trace: Trace) -> None:
        took = data_ms(trace)
        root = trace.span(None, "edge", "GET /all", 0, took + 15, "server")
        _, mid = trace.call(root, "GET", "web", "GET /page", 1, took + 14)
        trace.call(mid, "GET", "data", "GET /data", 2, 2 + took)
        trace.call(mid, "GET", "users", "GET /users", took + 3, took + 8)
        if trace.number % share == 0:
            trace.call(mid, "GET", "audit", "GET /audit", 3, 300)

    profile = fit_profile([filed(tmp_path, requests(make), "otlp")], depth=2)
    assert services(profile) == {"web", "data", "users"}
    assert profile.counts["calls_not_waited_for"] == 400 // share
    assert blamed(profile) == "data"


def test_a_call_that_now_and_then_ends_in_time_is_set_aside_too(tmp_path: Path) -> None:
    def make(trace: Trace) -> None:
        root = trace.span(None, "web", "GET /page", 0, 20 + data_ms(trace), "server")
        trace.call(root, "GET", "data", "GET /data", 1, 1 + data_ms(trace))
        trace.call(root, "GET", "audit", "GET /audit", 2, 15 if trace.number % 4 == 0 else 250)

    profile = fit_profile([filed(tmp_path, requests(make), "jaeger")])
    assert services(profile) == {"web", "data"}
    assert profile.counts["calls_not_waited_for"] == 400


def test_servers_without_clients_spans(tmp_path: Path) -> None:
    def make(trace: Trace) -> None:
        root = trace.span(None, "web", "GET /page", 0, 10 + data_ms(trace), "server")
        trace.span(root, "data", "GET /data", 1, 1 + data_ms(trace), "server")
        trace.span(root, "audit", "GET /audit", 3, 17 + trace.rng.random() * 200, "server")

    assert services(fit_profile([filed(tmp_path, requests(make), "otlp")])) == {"web", "data"}


@pytest.mark.parametrize("ahead", [3.0, 8.0])
def test_a_clock_that_is_ahead_sets_nothing_aside(ahead: float, tmp_path: Path) -> None:
    def make(trace: Trace) -> None:
        took = 10 + 5 * trace.rng.random()
        root = trace.span(None, "web", "GET /page", 0, took + 2, "server")
        trace.span(root, "data", "GET /data", 1 + ahead, 1 + took + ahead, "server")

    profile = fit_profile([filed(tmp_path, requests(make), "otlp")])
    assert services(profile) == {"web", "data"}
    assert "calls_not_waited_for" not in profile.counts


def test_a_caller_that_gave_up_did_wait(tmp_path: Path) -> None:
    def make(trace: Trace) -> None:
        took = 500 if trace.number % 25 == 0 else 10
        root = trace.span(None, "web", "GET /page", 0, min(took + 2, 100), "server")
        trace.call(root, "GET", "data", "GET /data", 1, 1 + took)

    profile = fit_profile([filed(tmp_path, requests(make), "otlp")])
    assert services(profile) == {"web", "data"}
    assert "calls_not_waited_for" not in profile.counts
    assert blamed(profile) == "data"


def test_ends_that_a_clock_of_milliseconds_states_are_no_proof(tmp_path: Path) -> None:
    def make(trace: Trace) -> None:
        root = trace.span(None, "web", "GET /page", 0, 12, "server")
        trace.call(root, "GET", "data", "GET /data", 1, 13)

    profile = fit_profile([filed(tmp_path, requests(make), "otlp")])
    assert services(profile) == {"web", "data"}
    assert profile.counts["spans_clipped"] == 800
