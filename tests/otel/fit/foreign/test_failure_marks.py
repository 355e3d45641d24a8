"""Failures by the marks of any convention, and their retries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kwiken.model.profile.profile import Profile
from kwiken.otel.fit.fit import fit_profile
from tests.support.otel.field import FORMS, Trace, filed, requests
from tests.support.otel.field_data import field_file

FAILURES: list[dict[str, Any]] = [
    {"http__status_code": "503"},
    {"http__status_code": 500},
    {"http__response__status_code": 503},
    {"http__response__status_code": 429},
    {"rpc__grpc__status_code": 14},
    {"rpc__grpc__status_code": "UNAVAILABLE"},
    {"rpc__response__status_code": "DEADLINE_EXCEEDED"},
    {"grpc__status_code": "14"},
    {"otel__status_code": "ERROR"},
    {"error__type": "java.net.SocketTimeoutException"},
    {"error__type": "503"},
    {"error": "timeout"},
    {"http__status_code": "503 Service Unavailable"},
    {"rpc__connect_rpc__error_code": "unavailable"},
    {"rpc__jsonrpc__error_code": -32603},
    {"grpc__status_code": "StatusCode.UNAVAILABLE"},
    {"grpc__code": "Unavailable"},
    {"db__response__status_code": "ORA-17002"},
    {"db__response__status_code": "503"},
    {"outcome": "SERVER_ERROR", "status": "503"},
    {"response_flags": "UF,URX"},
    {"response_flags": "UT", "http__status_code": "0"},
]
ANSWERS: list[dict[str, Any]] = [
    {"http__status_code": 503, "otel__status_code": "OK"},
    {"http__status_code": "500", "error": False},
    {"http__response__status_code": 404},
    {"rpc__grpc__status_code": 5},
    {"rpc__grpc__status_code": 0},
    {"error__type": "404"},
    {"response_flags": "-"},
    {"response_flags": "DI"},
    {"http__status_code": "n/a"},
    {"rpc__jsonrpc__error_code": -32602},
    {"db__response__status_code": "00000"},
    {"db__response__status_code": "23505"},
    {"outcome": "CLIENT_ERROR", "status": "404"},
]


def tried(trace: Trace, above: Any, start: float, marks: dict[str, Any], share: int = 20) -> float:
    """A call of `inv`; one of every `share` fails after 40 ms, and is tried again 5 ms later; its end."""
    quick = 10 + trace.rng.random()
    if trace.number % share == 0:
        trace.call(above, "HTTP GET", "inv", "GET /inv", start, start + 40, **marks)
        start += 45
    trace.call(above, "HTTP GET", "inv", "GET /inv", start, start + quick, http__status_code=200)
    return start + quick


def shop(trace: Trace, marks: dict[str, Any], *, deep: bool = False) -> None:
    root = trace.span(None, "web", "GET /p", 0, 0, "server")
    spans = [root]
    if deep:
        spans += trace.call(root, "HTTP GET", "mid", "GET /m", 1, 2)
    end = tried(trace, spans[-1], 3, marks)
    if deep:
        trace.call(spans[-1], "HTTP GET", "ads", "GET /ads", 3, 6)
    for place, span in enumerate(spans):
        span.end = root.start + round((end + 4 - place) * 1_000_000)


def check_retried(profile: Profile) -> None:
    assert [stage.match.service for stage in profile.stages if stage.match.service == "inv"] == ["inv"]
    inv = profile.stage("inv:inv").latency_ms
    assert profile.counts["calls_tried_again"] == 20
    assert (inv > 50).sum() == 20
    assert inv.max() < 57


def test_a_status_that_failed_is_tried_again() -> None:
    profile = fit_profile([field_file("F33_retry_by_status")])
    assert [stage.name for stage in profile.stages] == ["web (own time)", "inv:inv"]
    assert np.percentile(profile.stages[1].latency_ms, 99) == pytest.approx(55.6, abs=0.05)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("marks", FAILURES, ids=str)
def test_any_mark_of_failure_makes_a_retry(form: str, marks: dict[str, Any], tmp_path: Path) -> None:
    spans = requests(lambda trace: shop(trace, marks))
    check_retried(fit_profile([filed(tmp_path, spans, form)]))


def test_deep_in_a_trace(tmp_path: Path) -> None:
    spans = requests(lambda trace: shop(trace, {"http__status_code": "503"}, deep=True))
    check_retried(fit_profile([filed(tmp_path, spans, "jaeger")]))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("marks", ANSWERS, ids=str)
def test_answers_and_what_is_said_to_be_ok_are_no_failures(
    form: str, marks: dict[str, Any], tmp_path: Path
) -> None:
    spans = requests(lambda trace: shop(trace, marks))
    profile = fit_profile([filed(tmp_path, spans, form)])
    assert [stage.name for stage in profile.stages] == ["web (own time)", "inv:inv", "inv:inv#2"]
    assert "calls_tried_again" not in profile.counts


def test_the_status_of_otlp_overrules_marks(tmp_path: Path) -> None:
    spans = requests(lambda trace: shop(trace, {"http__status_code": 503}))
    path = filed(tmp_path, spans, "otlp")
    path.write_text(path.read_text().replace('"status": {}', '"status": {"code": "STATUS_CODE_OK"}'))
    assert "calls_tried_again" not in fit_profile([path]).counts


def test_requests_that_failed_by_their_status_are_set_aside(tmp_path: Path) -> None:
    def make(trace: Trace) -> None:
        status = 502 if trace.number % 10 == 0 else 200
        root = trace.span(None, "web", "GET /p", 0, 20, "server", http__response__status_code=status)
        trace.call(root, "HTTP GET", "inv", "GET /inv", 1, 12)

    profile = fit_profile([filed(tmp_path, requests(make), "otlp")])
    assert profile.counts["requests_failed"] == 40
    assert profile.requests == 360
