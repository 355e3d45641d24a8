"""Dispatch: the dynamic policy exhaustively, quality records, estimated waits and the soft limit."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, strategies as st

from kwiken.allocator.provisioning.renting import WaitEstimator
from papers.worlds.cloud.mapping import (
    JobRoute,
    ReservedState,
    RoutedJob,
    dynamic_route,
    route,
)
from papers.worlds.cloud.simulation import BELOW_HARD, HARD_LIMIT, MIN_QUALITY, QualityRecord, SoftLimit

SOFT, SPIN_UP_S = 0.6, 20.0


def state(utilisation: float, *, fits: bool = True, wait_s: float = 0.0) -> ReservedState:
    return ReservedState(utilisation, fits, SOFT, HARD_LIMIT, wait_s, SPIN_UP_S)


@pytest.mark.parametrize(
    ("utilisation", "suits", "long_wait"),
    list(itertools.product((0.3, 0.7, 0.9), (True, False), (True, False))),
)
def test_the_dynamic_policy_in_every_case(utilisation: float, suits: bool, long_wait: bool) -> None:
    job = RoutedJob(0.5, 0.8 if suits else 0.2, 0.0)
    found = dynamic_route(job, state(utilisation, wait_s=60.0 if long_wait else 1.0))
    if utilisation < SOFT:
        expected = JobRoute.RESERVED
    elif suits:
        expected = JobRoute.ON_DEMAND
    elif utilisation < HARD_LIMIT:
        expected = JobRoute.RESERVED
    else:
        expected = JobRoute.ON_DEMAND_FULL if long_wait else JobRoute.QUEUE
    assert found is expected


@given(st.floats(0, SOFT, exclude_max=True), st.floats(0, 1), st.floats(0, 1), st.floats(0, 1e4))
def test_nothing_is_rented_below_the_soft_limit(
    utilisation: float, quality: float, offered: float, wait_s: float
) -> None:
    job = RoutedJob(quality, offered, 0.5)
    assert dynamic_route(job, state(utilisation, wait_s=wait_s)) is JobRoute.RESERVED


def test_static_policies() -> None:
    tolerant, demanding = RoutedJob(0.1, 1.0, 0.9), RoutedJob(0.95, 1.0, 0.1)
    full = state(1.0, fits=False)
    assert route("P1", demanding, state(0.1)) is JobRoute.RESERVED  # by its coin
    assert route("P1", tolerant, state(0.1)) is JobRoute.ON_DEMAND
    for policy in ("P2", "P3", "P4"):
        assert route(policy, demanding, state(0.1)) is JobRoute.RESERVED
        assert route(policy, demanding, full) is JobRoute.QUEUE
        assert route(policy, tolerant, state(0.1)) is JobRoute.ON_DEMAND
    for policy, limit in (("P5", 0.5), ("P6", 0.7), ("P7", 0.9)):
        assert route(policy, tolerant, state(limit - 0.01)) is JobRoute.RESERVED
        assert route(policy, tolerant, state(limit)) is JobRoute.ON_DEMAND
    with pytest.raises(KeyError):
        route("P9", tolerant, full)


class TestQualityRecord:
    def test_a_tenth_of_the_nodes_are_worse(self) -> None:
        record = QualityRecord({4: 0.5})
        for place in range(500):
            record.observe(4, (place % 100 + 1) / 100, 10.0)
        assert record.offered(4) == pytest.approx(0.105, abs=0.006)

    @given(st.lists(st.floats(0, 1), min_size=1, max_size=60))
    def test_more_coverage_is_no_better_quality(self, qualities: list[float]) -> None:
        record = QualityRecord({1: 0.4})
        for one in qualities:
            record.observe(1, one, 0.0)
        found = [record.offered(1, coverage) for coverage in (0.5, 0.9, 0.99)]
        assert found == sorted(found, reverse=True)

    def test_before_observations_there_is_the_prior(self) -> None:
        assert QualityRecord({16: 0.95}).offered(16) == 0.95


class TestWaits:
    def test_99_of_100_waits(self) -> None:
        waits = WaitEstimator()
        for _ in range(99):
            waits.waited(100.0, 1.4)
        waits.waited(100.0, 10.0)
        assert waits.estimate_s(100.0) == 1.4

    def test_without_waits_the_rate_of_releases_says_it(self) -> None:
        waits = WaitEstimator()
        for second in range(101):
            waits.released(float(second))
        assert waits.estimate_s(100.0) == pytest.approx(4.6, rel=0.05)  # -log(0.01) at one a second
        assert waits.estimate_s(100.0, 10) > waits.estimate_s(100.0)

    def test_without_anything_it_is_a_day(self) -> None:
        assert WaitEstimator().estimate_s(0.0) == 86_400.0

    def test_old_waits_do_not_count(self) -> None:
        waits = WaitEstimator()
        for _ in range(50):
            waits.waited(0.0, 5.0)
        assert waits.estimate_s(10_000.0) == 86_400.0


class TestSoftLimit:
    def test_a_queue_that_grows_lowers_it_and_calm_raises_it(self) -> None:
        limit = SoftLimit(20)
        before = limit.value
        after = limit.update(10.0, 50)
        assert after == pytest.approx(before - 0.05 - 0.002 * 50 / 20)
        for step in range(2, 40):
            limit.update(10.0 * step, 0)
        assert limit.value > after

    @given(st.lists(st.integers(0, 1000), min_size=1, max_size=100))
    def test_it_stays_within_its_bounds(self, queues: list[int]) -> None:
        limit = SoftLimit(10)
        for step, queued in enumerate(queues, start=1):
            assert MIN_QUALITY <= limit.update(10.0 * step, queued) <= HARD_LIMIT - BELOW_HARD
