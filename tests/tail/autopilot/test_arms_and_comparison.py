"""Counts of arms, and the comparison of two of them with its bound on the chance of a wrong verdict."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from kwiken.tail.autopilot.arms import ArmCounts, bucket_of
from kwiken.tail.autopilot.comparison import (
    BETTER,
    ERROR,
    ERROR_OF_LOOK,
    LOOKS,
    MAX_LOOKS,
    OPEN,
    WORSE,
    compare,
    look_points,
    requests_to_take_back,
    requests_to_tell,
)

CELLS = st.dictionaries(st.integers(-200, 100), st.integers(0, 500), max_size=20)
ARMS = st.builds(ArmCounts, cells=CELLS, failed=st.integers(0, 20))


def counted(latency_ms: np.ndarray, failed: int = 0) -> ArmCounts:
    cells: dict[int, int] = {}
    for value in latency_ms.tolist():
        bucket = bucket_of(value)
        cells[bucket] = cells.get(bucket, 0) + 1
    return ArmCounts(cells=cells, failed=failed)


def drawn(seed: int, requests: int, slow: float = 0.02, times: float = 1.0) -> ArmCounts:
    rng = np.random.default_rng(seed)
    latency = rng.lognormal(3.0, 0.4, requests)
    latency += (rng.random(requests) < slow) * rng.exponential(200.0, requests)
    return counted(times * latency)


@given(st.floats(0.01, 1e6))
def test_a_bucket_holds_its_latency(latency_ms: float) -> None:
    bucket = bucket_of(latency_ms)
    low, high = (1000 * 2 ** (edge / 16) for edge in (bucket, bucket + 1))
    assert low * (1 - 1e-12) < latency_ms <= high * (1 + 1e-12)


def test_quantiles_are_right_to_the_width_of_a_bucket() -> None:
    latency = np.random.default_rng(1).lognormal(3, 1, 20_000)
    arm = counted(latency)
    for share in (0.5, 0.9, 0.99):
        assert arm.quantile_ms(share) == pytest.approx(np.quantile(latency, share), rel=0.05)
    assert arm.share_beyond(float(np.quantile(latency, 0.99))) == pytest.approx(0.01, rel=0.15)


def test_failures_are_slower_than_any_answer() -> None:
    arm = counted(np.full(97, 10.0), failed=3)
    assert arm.quantile_ms(0.5) == pytest.approx(10.0, rel=0.05)
    assert arm.quantile_ms(0.99) == math.inf
    assert arm.beyond(bucket_of(10.0)) == 3


@given(ARMS, ARMS)
def test_what_came_since_is_what_was_added(before: ArmCounts, more: ArmCounts) -> None:
    found = before.plus(more).since(before)
    assert found.requests == more.requests
    assert found.failed == more.failed


def test_counts_that_fell_began_anew() -> None:
    now = ArmCounts(cells={3: 4}, failed=0)
    assert now.since(ArmCounts(cells={3: 9})) is now
    assert now.since(ArmCounts(failed=1)) is now


def test_arms_of_one_kind_are_hardly_ever_told_apart() -> None:
    verdicts = [
        compare(drawn(2 * seed, 2000), drawn(2 * seed + 1, 2000), error=ERROR).verdict for seed in range(300)
    ]
    assert verdicts.count(BETTER) + verdicts.count(WORSE) <= 2 * ERROR * 300 + 15


def test_requests_that_are_slow_together_do_not_deceive() -> None:
    """Bursts that slow hundreds of requests hit both arms: which ones they hit in each is drawn request by request."""
    rng = np.random.default_rng(5)
    wrong = 0
    for _ in range(300):
        slow = np.repeat(rng.random(20) < 0.1, 200)  # of 20 stretches of time, each slow as a whole
        latency = np.where(slow, 500.0, 10.0)
        tried = rng.random(len(latency)) < 0.5
        wrong += compare(counted(latency[tried]), counted(latency[~tried]), error=ERROR).verdict != OPEN
    assert wrong <= 2 * ERROR * 300 + 15


@pytest.mark.parametrize(("times", "verdict"), [(0.5, BETTER), (2.0, WORSE)])
def test_a_large_change_is_told(times: float, verdict: str) -> None:
    found = compare(drawn(1, 20_000, times=times), drawn(2, 20_000))
    assert found.verdict == verdict
    assert (found.cut > 0) == (verdict == BETTER)


def test_a_plan_whose_requests_fail_is_worse() -> None:
    tried = ArmCounts(cells=drawn(1, 1000).cells, failed=40)
    assert compare(tried, drawn(2, 9000)).verdict == WORSE


@given(ARMS, ARMS)
def test_no_counts_break_the_comparison(tried: ArmCounts, other: ArmCounts) -> None:
    found = compare(tried, other)
    assert found.verdict in {BETTER, WORSE, OPEN}
    assert 0 <= found.tried_beyond <= 1
    assert 0 <= found.other_beyond <= 1
    if not tried.requests or not other.requests:
        assert found.verdict == OPEN


@given(st.integers(1, 10**6))
def test_looks_are_few_and_end_with_the_limit(limit: int) -> None:
    points = look_points(limit)
    assert points[-1] == limit
    assert list(points) == sorted(set(points))
    assert len(points) <= LOOKS
    assert pytest.approx(ERROR) == MAX_LOOKS * ERROR_OF_LOOK


def test_the_stated_number_of_requests_tells_a_change_of_ten_percent() -> None:
    """Power by simulation beside the 80% that the number is computed for."""
    rng = np.random.default_rng(3)
    body = rng.lognormal(3.0, 0.4, 400_000)
    reference = counted(body)
    needed = round(requests_to_tell(reference, share=0.5))
    told = 0
    for _ in range(60):
        tried, other = (rng.choice(body, needed // 2) for _ in range(2))
        told += compare(counted(1.1 * tried), counted(other)).verdict == WORSE
    assert 0.65 <= told / 60 <= 0.99


def test_fewer_requests_tell_a_larger_change() -> None:
    reference = drawn(1, 50_000)
    numbers = [requests_to_tell(reference, share=0.5, change=change) for change in (0.05, 0.1, 0.5)]
    assert numbers == sorted(numbers, reverse=True)
    assert requests_to_tell(reference, share=0.05) > requests_to_tell(reference, share=0.5)
    assert requests_to_tell(ArmCounts(), share=0.5) == math.inf


def test_twice_as_many_slow_requests_are_told_in_the_stated_number() -> None:
    rng = np.random.default_rng(9)
    needed = round(requests_to_take_back(share=0.5))
    told = 0
    for _ in range(100):
        counts = [np.where(rng.random(needed // 2) < share, 500.0, 10.0) for share in (0.02, 0.01)]
        told += compare(counted(counts[0]), counted(counts[1])).verdict == WORSE
    assert 60 <= told <= 99
