"""Tail sampling of traces: which requests are kept, with which probability, and at what bound."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, strategies as st

from kwiken.base.errors import InputError
from kwiken.runtime.decisions.trace_sampling import (
    DRAWN_SHARE,
    MAX_EXCEPTIONAL_SHARE,
    MIN_REQUESTS_FOR_SLOW,
    KeepReason,
    Kept,
    RunningQuantile,
    TraceSampler,
)

NEVER = (1 << 64) - 1  # trace id that no draw below 1 takes


def warm(sampler: TraceSampler, *, took_s: float = 0.01) -> None:
    """Give a sampler so many latencies that it knows what is slow."""
    for _ in range(MIN_REQUESTS_FOR_SLOW):
        finish(sampler, took_s=took_s)


def finish(
    sampler: TraceSampler,
    trace_id: int = NEVER,
    *,
    took_s: float = 0.01,
    asked: bool = False,
    control: bool = False,
    failed: bool = False,
    partial: bool = False,
    noted: KeepReason | None = None,
) -> Kept | None:
    request = sampler.begin(trace_id, asked=asked, control=control)
    if noted is not None:
        sampler.note(request, noted)
    promised = request.kept
    kept = sampler.end(request, took_s, failed=failed, partial=partial)
    assert kept is not None or not promised, "replicas were told that it is kept"
    return kept


def test_every_request_is_kept_until_it_is_known_what_is_slow() -> None:
    sampler = TraceSampler()
    first = [finish(sampler) for _ in range(MIN_REQUESTS_FOR_SLOW)]
    assert set(first) == {Kept(KeepReason.FIRST, 1.0)}
    assert finish(sampler) is None
    assert (sampler.kept[KeepReason.FIRST], sampler.dropped) == (MIN_REQUESTS_FOR_SLOW, 1)


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"asked": True}, KeepReason.ASKED),
        ({"control": True}, KeepReason.CONTROL),
        ({"took_s": 0.5}, KeepReason.SLOW),
        ({"failed": True}, KeepReason.FAILED),
        ({"partial": True}, KeepReason.PARTIAL),
        ({"noted": KeepReason.COPIED}, KeepReason.COPIED),
        ({"noted": KeepReason.RETRIED, "failed": True}, KeepReason.RETRIED),
        ({"noted": KeepReason.LATE}, KeepReason.LATE),
    ],
)
def test_remarkable_requests_are_kept_for_certain(facts: dict[str, object], reason: KeepReason) -> None:
    sampler = TraceSampler()
    warm(sampler)
    assert finish(sampler, **facts) == Kept(reason, 1.0)  # type: ignore[arg-type]


@given(st.integers(0, 2**128 - 1), st.floats(0.001, 1.0))
def test_others_are_drawn_by_the_lower_half_of_the_trace_id(trace_id: int, share: float) -> None:
    sampler = TraceSampler(share)
    warm(sampler)
    kept = finish(sampler, trace_id)
    wanted = (trace_id & NEVER) >> 11 < share * 2**53
    assert kept == (Kept(KeepReason.DRAWN, share) if wanted else None)


def test_a_fault_is_drawn_from_once_it_is_more_than_the_largest_share_and_its_sums_stay_right() -> None:
    sampler, rng = TraceSampler(), random.Random(7)
    warm(sampler)
    estimated = kept_at_all = 0.0
    requests = 20_000
    for _ in range(requests):
        kept = finish(sampler, rng.getrandbits(128), failed=True)
        if kept is not None:
            kept_at_all += 1
            estimated += 1 / kept.share
    assert kept_at_all / requests < 1.3 * MAX_EXCEPTIONAL_SHARE
    assert estimated == pytest.approx(requests, rel=0.05)


def test_kept_latencies_weighted_by_their_shares_have_the_quantiles_of_all() -> None:
    """Quantiles from about 5% of the requests are within 3% of those of all."""
    rng, sampler = random.Random(3), TraceSampler()
    took = np.random.default_rng(3).lognormal(-4.0, 0.5, 200_000)
    took[::61] += 0.2  # stalls
    rows, weights, reasons = [], [], Counter[KeepReason]()
    for index, latency in enumerate(took.tolist()):
        kept = finish(sampler, rng.getrandbits(128), took_s=latency)
        if kept is not None:
            rows.append(index)
            weights.append(1 / kept.share)
            reasons[kept.reason] += 1
    assert len(rows) / len(took) < 0.06
    assert 0.004 < reasons[KeepReason.SLOW] / len(took) < 0.02
    assert sum(weights) == pytest.approx(len(took), rel=0.02)
    order = np.argsort(took[rows])
    ranks = np.cumsum(np.array(weights)[order]) / sum(weights)
    for share in (0.5, 0.9, 0.95, 0.99, 0.999):
        estimate = took[rows][order][np.searchsorted(ranks, share)]
        assert estimate == pytest.approx(float(np.quantile(took, share)), rel=0.03), share


def test_the_running_quantile_follows_a_service_that_becomes_slower_and_faster() -> None:
    quantile = RunningQuantile(0.99, least=100)
    rng = random.Random(5)
    for _ in range(99):
        quantile.add(0.01)
    assert quantile.value is None
    quantile.add(0.02)
    for most in (1.0, 4.0, 0.25):
        known: list[float] = []
        for number in range(20_000):
            quantile.add(rng.uniform(0.0, most))
            known += [quantile.value or 0.0] if number > 10_000 else []
        assert sum(known) / len(known) == pytest.approx(0.99 * most, rel=0.03)
        assert max(known) < 1.15 * min(known)


@pytest.mark.parametrize("share", [0.0, -0.1, 1.1, float("nan"), float("inf")])
def test_a_share_that_is_none_is_refused(share: float) -> None:
    with pytest.raises(InputError, match="share of traces: must be a share above 0"):
        TraceSampler(share)


def test_the_default_share_is_that_of_the_command_line() -> None:
    from kwiken.cli.live import server_options

    assert server_options.DRAWN_SHARE == DRAWN_SHARE
