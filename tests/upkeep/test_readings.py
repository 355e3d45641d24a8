"""Readings: rates, refusals and work of requests from the counts of one status after the other."""

from __future__ import annotations

from typing import Any

import pytest

from kwiken.cli.shared.options import load_service
from kwiken.upkeep.readings import Readings

HELLO = load_service("services.hello:hello")  # the stage `greet` has four calls a request
WORKLOADS = {"w": ("greet", {"greet-0": "w-7"})}


def figures(requests: int, shed: int = 0, *, calls: int = 0, busy_ms: float = 0.0) -> dict[str, Any]:
    recent = {"answered": 400, "rate_per_s": 40.0, "p50_ms": 1.0, "p99_ms": 9.0}
    replicas = [
        {"id": "greet-0", "latency_ms": 5.0},
        {"id": "greet-1", "latency_ms": 6.0},  # of another workload
    ]
    stage = {"recent": recent, "calls": calls, "busy_ms": busy_ms, "replicas": replicas}
    return {"recent": recent, "requests": requests, "shed": shed, "stages": {"greet": stage}}


def test_what_arrives_counts_with_what_is_turned_away() -> None:
    readings = Readings()
    first = readings.of_service("hello", figures(1000, 10), 100.0)
    assert (first.requests, first.rate_per_s, first.turned_away, first.p99_ms) == (400, 40.0, 0.0, 9.0)
    later = readings.of_service("hello", figures(1200, 110), 105.0)
    assert (later.requests, later.rate_per_s, later.turned_away) == (500, 60.0, 1 / 3)
    other = readings.of_service("other", figures(0), 105.0)
    assert other.rate_per_s == 40.0


@pytest.mark.parametrize(("requests", "shed"), [(0, 0), (1300, 5), (900, 200)])
def test_counts_that_begin_anew_tell_nothing_of_the_window(requests: int, shed: int) -> None:
    readings = Readings()
    readings.of_service("hello", figures(1000, 10), 100.0)
    found = readings.of_service("hello", figures(requests, shed), 105.0)
    assert (found.turned_away, found.rate_per_s, found.requests) == (0.0, 40.0, 400)


def test_the_work_of_a_request_is_that_of_all_its_calls() -> None:
    readings = Readings()

    def work(calls: int, busy_ms: float) -> float | None:
        told = figures(0, calls=calls, busy_ms=busy_ms)
        return readings.of_stages(HELLO, told, WORKLOADS, 0.0)["w"].work_ms

    assert work(100, 500.0) is None  # nothing came before
    assert work(140, 620.0) == 12.0  # 3 ms a call
    assert work(140, 620.0) is None
    assert work(20, 30.0) is None  # the gateway was replaced
    assert work(24, 38.0) == 8.0


def test_stages_are_told_by_workload_and_replicas_by_key() -> None:
    seen = Readings().of_stages(HELLO, figures(0), WORKLOADS, 25.0)["w"]
    assert (seen.requests, seen.rate_per_s, seen.latency_ms) == (100, 25.0, {"w-7": 5.0})
