"""Latencies of the requests that ran with one plan."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from msgspec import structs

from kwiken.otel.trace import read_forest, requests_with_plan
from kwiken.otel.write import RequestRecord, Sample
from tests.cli.demo.test_demo_meanwhile import write
from tests.otel.fit.test_fit_guesses import one

PLAN = "0123456789ab"


def request(number: int, took_ms: float, **changes: object) -> RequestRecord:
    return structs.replace(one(number, {"a": (took_ms, 1.0)}), **{"plan": PLAN, **changes})


def test_only_answered_requests_with_the_plan_count_in_order_of_time(tmp_path: Path) -> None:
    requests = [
        request(3, 30.0),
        request(0, 10.0),
        request(1, 500.0, plan=None),
        request(2, 500.0, plan="another"),
        request(4, 500.0, control=True),
        request(5, 500.0, error="broken"),
        request(6, 20.0),
    ]
    found = requests_with_plan(read_forest([write(tmp_path, requests)]), PLAN)
    np.testing.assert_allclose(found.latency_ms, [10.0, 30.0, 20.0])
    np.testing.assert_array_equal(found.weight, [1.0, 1.0, 1.0])


def test_a_sampled_request_stands_for_others(tmp_path: Path) -> None:
    requests = [request(0, 10.0, sample=Sample("drawn", 0.05)), request(1, 90.0, sample=Sample("slow", 1.0))]
    found = requests_with_plan(read_forest([write(tmp_path, requests)]), PLAN)
    np.testing.assert_allclose(found.weight, [20.0, 1.0])


def test_a_plan_that_no_request_ran_with_gives_nothing(tmp_path: Path) -> None:
    assert (
        len(requests_with_plan(read_forest([write(tmp_path, [request(0, 10.0)])]), "f" * 12).latency_ms) == 0
    )
