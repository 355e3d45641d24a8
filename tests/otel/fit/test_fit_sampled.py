"""Fit of sampled requests: quantiles and means as those of all requests."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from kwiken.model.profile.profile import OWN_TIME
from kwiken.otel.fit.fit import fit_profile
from kwiken.otel.write.observer import make_observer
from kwiken.otel.write.records import AttemptKind, AttemptRecord, Outcome, RequestRecord, Sample, StageRecord
from kwiken.runtime.decisions.trace_sampling import TraceSampler
from tests.support.otel.span_trees import MS, T0

REQUESTS = 100_000
GAP_NS = 5 * MS
QUANTILES = (0.5, 0.9, 0.95, 0.99, 0.999)


def request(number: int, trace_id: int, stages_ms: list[float], sample: Sample | None) -> RequestRecord:
    """Request through a chain of stages, 1 ms of its own time before them; a call's CPU time is a tenth of it."""
    start = T0 + number * GAP_NS
    record = RequestRecord(trace_id, trace_id & 0xFFFFFFFF | 1, None, "shop", start, sample=sample)
    now = start + MS
    for index, took in enumerate(stages_ms):
        span = (number * 10 + 2 * index) + (1 << 40)
        end = now + round(took * MS)
        attempt = AttemptRecord(
            span + 1, 0, 0, AttemptKind.PRIMARY, f"r{number % 3}", "n", now, end, Outcome.WON, took / 10
        )
        after = (f"s{index - 1}",) if index else ()
        record.stages.append(StageRecord(span, f"s{index}", after, 1, now, end, attempts=[attempt]))
        now = end
    record.end_ns = now
    return record


def test_quantiles_of_5_percent_of_the_spans_are_within_3_percent_of_those_of_all(tmp_path: Path) -> None:
    rng, draws = random.Random(11), np.random.default_rng(11)
    stages = draws.lognormal((1.0, 1.5), (0.5, 0.4), (REQUESTS, 2))
    stages[:, 1] += np.where(draws.random(REQUESTS) < 0.02, 40.0, 0.0)  # stalls
    latency = 1.0 + stages.sum(axis=1)
    sampler, observer = TraceSampler(), make_observer("shop", traces=tmp_path)
    kept = 0
    for number, (took, parts) in enumerate(zip(latency.tolist(), stages.tolist(), strict=True)):
        trace_id = rng.getrandbits(128) or 1
        sampling = sampler.begin(trace_id, asked=False, control=False)
        verdict = sampler.end(sampling, took / 1e3, failed=False, partial=False)
        if verdict is not None:
            kept += 1
            observer.request_finished(request(number, trace_id, parts, Sample(*verdict)))
    observer.close()
    assert observer.counts().dropped == 0
    assert 0.04 < kept / REQUESTS < 0.06
    profile = fit_profile([tmp_path])
    assert profile.counts["requests_kept_of_sampled"] == kept
    assert profile.counts["requests"] == len(profile.latency_ms) == pytest.approx(REQUESTS, rel=0.05)
    for share in QUANTILES:
        exact = float(np.quantile(latency, share))
        assert float(np.quantile(profile.latency_ms, share)) == pytest.approx(exact, rel=0.03), share
    for index, stage in enumerate(profile.stages[1:]):
        assert stage.name == f"s{index}"
        for share in QUANTILES[:3]:
            exact = float(np.quantile(stages[:, index], share))
            assert float(np.quantile(stage.latency_ms, share)) == pytest.approx(exact, rel=0.03), share
        assert stage.busy_ms == pytest.approx(stages[:, index].mean() / 10, rel=0.03)
    assert profile.stages[0].name == f"shop:request{OWN_TIME}"
    assert (np.diff(profile.started_s) >= 0).all()
    span_s = REQUESTS * GAP_NS / 1e9
    halves = [(profile.started_s < T0 / 1e9 + span_s / 2).mean(), 0.5]
    assert halves[0] == pytest.approx(halves[1], abs=0.02), "repetitions are spread over time"


def test_requests_that_were_all_kept_are_not_repeated(tmp_path: Path) -> None:
    observer = make_observer("shop", traces=tmp_path)
    for number in range(300):
        sample = Sample("first", 1.0) if number % 2 else None
        observer.request_finished(request(number, number + 1, [2.0], sample))
    observer.close()
    profile = fit_profile([tmp_path])
    assert len(profile.latency_ms) == 300
    assert "requests_kept_of_sampled" not in profile.counts


@pytest.mark.parametrize("share", [0.0, -1.0, 1.5])
def test_a_share_out_of_range_is_refused(tmp_path: Path, share: float) -> None:
    from kwiken.base.errors import InputError

    observer = make_observer("shop", traces=tmp_path)
    observer.request_finished(request(0, 1, [2.0], Sample("drawn", share)))
    observer.close()
    with pytest.raises(InputError, match=r"kw\.sample\.share"):
        fit_profile([tmp_path])
