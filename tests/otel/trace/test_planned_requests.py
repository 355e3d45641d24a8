"""Latencies of the requests that ran with one plan."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from msgspec import structs

from kwiken.otel.trace.load import read_forest
from kwiken.otel.trace.planned_requests import requests_with_plan
from kwiken.otel.write.records import AttemptKind, RequestRecord, Sample
from tests.apps.demo.test_demo_meanwhile import write
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


def test_copies_count_by_stage_and_by_what_a_request_stands_for(tmp_path: Path) -> None:
    def with_copies(number: int, copies: int, **changes: object) -> RequestRecord:
        found = request(number, 10.0, **changes)
        (stage,) = found.stages
        (first,) = stage.attempts
        more = [
            structs.replace(first, span_id=first.span_id + 100 + n, attempt=1 + n, kind=AttemptKind.REISSUE)
            for n in range(copies)
        ]
        late = structs.replace(
            first, span_id=first.span_id + 99, attempt=9, kind=AttemptKind.REISSUE, catch_up=True
        )
        stages = [structs.replace(stage, attempts=[first, *more, late])]
        return structs.replace(found, stages=stages)

    requests = [
        with_copies(0, 1, sample=Sample("drawn", 0.25)),
        with_copies(1, 2, sample=Sample("slow", 1.0)),
        with_copies(2, 7, plan="another"),
    ]
    found = requests_with_plan(read_forest([write(tmp_path, requests)]), PLAN)
    assert found.copies == pytest.approx({"a": (4 * 1 + 1 * 2) / 5})


def test_a_plan_that_no_request_ran_with_gives_nothing(tmp_path: Path) -> None:
    assert (
        len(requests_with_plan(read_forest([write(tmp_path, [request(0, 10.0)])]), "f" * 12).latency_ms) == 0
    )
