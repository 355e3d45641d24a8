"""Estimates of copies that were not sent, from our own traces."""

from __future__ import annotations

import numpy as np
import pytest

from kwiken.curves.copy_correlation import copy_correlation
from kwiken.otel.write import AttemptKind, AttemptRecord, Outcome, RequestRecord, StageRecord
from kwiken.profile import EmpiricalDistribution
from tests.otel.fit.test_fit_own import learn
from tests.support.span_trees import MS, T0


def one(number: int, calls: dict[str, tuple[float, float]], *, lost: bool = False) -> RequestRecord:
    """A request whose stages take (latency, work) milliseconds; with `lost`, all are won by copies."""
    start = T0 + number * 50 * MS
    request = RequestRecord(number + 1, 10, None, "shop", start)
    for place, (name, (took, work)) in enumerate(calls.items()):
        stage = StageRecord(20 + place, name, (), 1, start)
        end = start + int(took * MS)
        outcome = Outcome.CANCELLED if lost else Outcome.WON
        attempt = AttemptRecord(
            40 + place, 0, 0, AttemptKind.PRIMARY, f"r{number % 3}", "n", start, end, outcome, busy_ms=work
        )
        stage.attempts.append(attempt)
        if lost:
            copy = AttemptRecord(60 + place, 0, 1, AttemptKind.REISSUE, "r9", "n", start, end, Outcome.WON)
            stage.attempts.append(copy)
        stage.end_ns = end
        request.stages.append(stage)
        request.end_ns = max(request.end_ns, end)
    return request


def test_work_separates_request_size_from_replicas() -> None:
    rng = np.random.default_rng(1)
    size, wait = rng.lognormal(1, 1, (2, 800))
    calls = [{"size": (s + 0.1, s), "wait": (w + 2.0, 2.0)} for s, w in zip(size, wait, strict=True)]
    profile = learn([one(i, each) for i, each in enumerate(calls)])
    found = {}
    for stage in profile.stages[1:]:
        assert stage.guesses_ms is not None
        assert 10 <= len(stage.guesses_ms) <= 80
        assert stage.guesses_ms[:, 0].min() >= np.quantile(stage.calls_ms, 0.89)
        found[stage.name] = copy_correlation(stage, EmpiricalDistribution.of(stage.calls_ms)).rho
    assert found["size"] > 0.85
    assert found["wait"] < 0.1


def test_cancelled_or_unmeasured_calls_are_left_out() -> None:
    assert learn([one(i, {"a": (5.0, 4.0)}, lost=True) for i in range(150)]).stage("a").guesses_ms is None
    quick = learn([one(i, {"a": (5.0, 0.001)}) for i in range(150)]).stage("a")
    assert quick.guesses_ms is None
    assert quick.busy_ms == pytest.approx(0.001)
