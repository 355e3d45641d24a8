"""Estimates of copies that were not sent, from our own traces."""

from __future__ import annotations

import tempfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from kwiken.model.profile.distribution import EmpiricalDistribution
from kwiken.model.profile.profile import Profile
from kwiken.otel.fit.fit import fit_profile
from kwiken.otel.write.observer import ServerSpans, make_observer
from kwiken.otel.write.records import AttemptKind, AttemptRecord, Outcome, RequestRecord, StageRecord
from kwiken.tail.curves.copy_correlation import copy_correlation
from tests.otel.fit.test_fit_own import learn
from tests.support.otel.span_trees import MS, T0


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


def fit_with_replicas(
    requests: list[RequestRecord], lag_ms: list[float], *, ahead_ms: float = 0.0
) -> Profile:
    """Learn from the gateway's spans and from server spans that end so long before the gateway read them."""
    with tempfile.TemporaryDirectory() as name:
        gateway = make_observer("shop", traces=Path(name))
        replica = ServerSpans("shop", "a", "r9", "n", traces=Path(name))
        for request, lag in zip(requests, lag_ms, strict=True):
            gateway.request_finished(request)
            attempt = request.stages[0].attempts[-1]
            end = attempt.end_ns - round((lag + 0.5 - ahead_ms) * MS)
            parent = SimpleNamespace(trace_id=request.trace_id, span_id=attempt.span_id, sampled=True)
            call = SimpleNamespace(parent=parent, shard=0, start_ns=end - MS, end_ns=end, busy_ms=None)
            call.error = call.exception = call.began_ns = call.attempt = call.first_item_ns = None
            replica.call_finished(call)
        gateway.close()
        replica.close()
        return fit_profile([name])


@pytest.mark.parametrize("ahead_ms", [0.0, 7.0, -5000.0])
def test_answers_that_lay_at_the_gateway_are_told_from_slow_replicas(ahead_ms: float) -> None:
    lag = [4.0 if i % 10 == 0 else 0.0 for i in range(120)]
    requests = [one(i, {"a": (5.0 + wait, 4.5)}) for i, wait in enumerate(lag)]
    for request in requests:
        request.stages[0].attempts[0].replica = "r9"
    stage = fit_with_replicas(requests, lag, ahead_ms=ahead_ms).stage("a")
    assert stage.lag_ms is not None
    np.testing.assert_allclose(stage.lag_ms[:, 0], lag, atol=1e-3)
    np.testing.assert_allclose(stage.without_lag().calls_ms, 5.0, atol=1e-3)
    assert stage.guesses_ms is not None
    np.testing.assert_allclose(stage.guesses_ms, 5.0, atol=1e-3)


def test_a_cancelled_call_lasted_until_the_winners_answer_arrived() -> None:
    lag = [4.0 if i % 10 == 0 else 0.0 for i in range(120)]
    requests = [one(i, {"a": (5.0 + wait, 4.5)}, lost=True) for i, wait in enumerate(lag)]
    stage = fit_with_replicas(requests, lag).stage("a")
    assert stage.censored.all()
    np.testing.assert_allclose(stage.without_lag().calls_ms, 5.0, atol=5e-3)
    assert stage.pairs_ms is not None
    np.testing.assert_allclose(stage.pairs_ms, 5.0, atol=5e-3)
    assert stage.pairs_cut is not None
    assert stage.pairs_cut[:, 0].all()


def test_without_spans_of_replicas_no_lag_is_known() -> None:
    assert learn([one(i, {"a": (5.0, 4.5)}) for i in range(20)]).stage("a").lag_ms is None
