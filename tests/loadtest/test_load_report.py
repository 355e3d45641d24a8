"""Load report: percentiles, failures, warm-up, lateness and windows."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from kwiken.loadtest.results.outcome import DROPPED, RequestOutcome
from kwiken.loadtest.results.report import LoadReport, ReportCollector, ladder

NAN = float("nan")


def ok(at: float, latency: float, lag: float = 0.1) -> RequestOutcome:
    return RequestOutcome(at, lag, latency, 200, None, "1" * 32, 10)


def failed(at: float, latency: float = 1.0, status: int = 503) -> RequestOutcome:
    return RequestOutcome(at, 0.1, latency, status, f"HTTP {status}" if status else "timeout", "1" * 32, 0)


def dropped(at: float) -> RequestOutcome:
    return RequestOutcome(at, NAN, NAN, 0, DROPPED, "", 0)


def report(*outcomes: RequestOutcome, duration: float = 10.0, warmup: float = 0.0) -> LoadReport:
    collector = ReportCollector()
    for outcome in outcomes:
        collector.add(outcome)
    return collector.report(duration_s=duration, warmup_s=warmup, late_ms=5.0)


def test_percentiles_are_values_that_occurred() -> None:
    values = np.arange(1, 1001, dtype=float)
    points = ladder(np.random.default_rng(1).permutation(values))
    assert points == {
        "p50_ms": 500.0, "p75_ms": 750.0, "p90_ms": 900.0, "p95_ms": 950.0, "p99_ms": 990.0, "p999_ms": 999.0,
        "mean_ms": 500.5, "min_ms": 1.0, "max_ms": 1000.0,
    }  # fmt: skip


def test_an_empty_run_has_no_percentiles() -> None:
    empty = report().to_json()
    assert set(empty["latency"].values()) == {None}
    assert empty["requests"] == {
        "intended": 0,
        "ok": 0,
        "failed": 0,
        "dropped": 0,
        "partial": 0,
        "late": 0,
    }
    json.dumps(empty, allow_nan=False)


def test_partial_answers_are_counted_with_their_utility() -> None:
    answers = [ok(0.1 * i, 10.0) for i in range(8)]
    answers[3].utility = 0.5
    answers[5].utility = 0.9
    run = report(*answers, failed(9, 1.0), dropped(9.5))
    assert (run.requests["ok"], run.requests["partial"]) == (8, 2)
    assert run.utility == pytest.approx((6 + 0.5 + 0.9) / 8, abs=1e-6)
    assert sum(window["partial"] for window in run.windows) == 2
    assert report(failed(1, 1.0)).utility is None


def test_failures_count_as_endless_and_not_as_fast() -> None:
    # 90 answers at 10 ms, 10 failures at once: a fast failure must not make the tail look good.
    run = report(*(ok(0.1 * i, 10.0) for i in range(90)), *(failed(9 + 0.01 * i, 0.5) for i in range(8)),
                 failed(9.5, 3000, 0), dropped(9.6))  # fmt: skip
    assert run.latency["p999_ms"] == 10.0
    assert run.latency_with_failures["p90_ms"] == 10.0
    assert run.latency_with_failures["p95_ms"] is None
    assert run.latency_with_failures["max_ms"] is None
    assert run.requests == {
        "intended": 100,
        "ok": 90,
        "failed": 9,
        "dropped": 1,
        "partial": 0,
        "late": 0,
    }
    assert run.status == {"200": 90, "503": 8}
    assert run.errors == {"HTTP 503": 8, "timeout": 1, "dropped": 1}


def test_the_warm_up_is_cut_by_intended_start() -> None:
    run = report(ok(0.0, 1000), ok(1.999, 900), ok(2.0, 7), ok(5, 8), warmup=2.0)
    assert run.warmup_requests == 2
    assert run.requests["intended"] == 2
    assert run.latency["max_ms"] == 8
    assert run.rate == {"intended": 0.25, "ok": 0.25}
    assert run.windows[0]["start_s"] == 2.0


def test_late_starts_are_counted_and_drops_are_not_late() -> None:
    run = report(ok(0, 1, lag=5.0), ok(1, 1, lag=5.1), ok(2, 1, lag=100), dropped(3))
    assert run.requests["late"] == 2
    assert run.start_lag["max_ms"] == 100


def test_odd_errors_cannot_fill_the_memory() -> None:
    outcomes = [RequestOutcome(0.001 * i, 0.1, 1.0, 0, f"strange {i}", "", 0) for i in range(500)]
    run = report(*outcomes)
    assert len(run.errors) == 51
    assert run.errors["other"] == 450
    assert sum(run.errors.values()) == 500


@given(
    rows=st.lists(
        st.tuples(st.floats(0, 100, exclude_max=True), st.sampled_from(["ok", "failed", "dropped"])),
        max_size=80,
    ),
    duration=st.floats(100, 50_000),
    warmup=st.floats(0, 50),
)
def test_windows_hold_every_request_once(
    rows: list[tuple[float, str]], duration: float, warmup: float
) -> None:
    make = {"ok": lambda at: ok(at, 5.0), "failed": failed, "dropped": dropped}
    run = report(*(make[kind](at) for at, kind in rows), duration=duration, warmup=warmup)
    for name in ("intended", "ok", "failed", "dropped", "partial", "late"):
        assert sum(window[name] for window in run.windows) == run.requests[name]
    assert run.requests["intended"] == sum(at >= warmup for at, _ in rows)
    assert run.requests["intended"] + run.warmup_requests == len(rows)
    assert sum(window["seconds"] for window in run.windows) == pytest.approx(duration - warmup, abs=0.1)
    assert len(run.windows) <= 121
    for window in run.windows:
        assert window["intended"] == window["ok"] + window["failed"] + window["dropped"]
    json.dumps(run.to_json(), allow_nan=False)


@given(st.lists(st.floats(0.001, 1e6), min_size=1, max_size=200))
def test_ladders_climb(values: list[float]) -> None:
    points = ladder(np.asarray(values))
    steps = [
        points[name]
        for name in ("min_ms", "p50_ms", "p75_ms", "p90_ms", "p95_ms", "p99_ms", "p999_ms", "max_ms")
    ]
    numbers = [step for step in steps if step is not None]
    assert numbers == sorted(numbers)
    assert len(numbers) == len(steps)


def test_an_interruption_during_the_warm_up_is_no_division_by_zero() -> None:
    run = report(ok(0.1, 1), duration=0.5, warmup=2.0)
    assert run.rate == {"intended": 0.0, "ok": 0.0}
    assert run.windows == []
    assert math.isfinite(run.duration_s)
