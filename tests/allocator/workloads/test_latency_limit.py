"""Spare capacity for a latency: the source's rates, bounds, and simulated lines of several replicas."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
from hypothesis import example, given, strategies as st
from scipy.stats import gamma

from kwiken.allocator.workloads.latency_limit import UNKNOWN_VARIATION, spare_within
from tests.support.allocation.replica_lines import gamma_work, p99_of_lines


def spare(call_s: float, rate_per_s: float, p99_ms: float, variation: float) -> float:
    return float(spare_within(np.array([[call_s]]), rate_per_s, p99_ms, variation)[0, 0])


@pytest.mark.parametrize(
    ("capacity_per_s", "p99_ms", "rate_per_s"), [(100e3, 0.2, 76_974), (2e3, 30.0, 1846), (200.0, 100.0, 154)]
)
def test_one_replica_of_exponential_work_needs_a_little_more_than_by_the_source(
    capacity_per_s: float, p99_ms: float, rate_per_s: float
) -> None:
    """The source's queue has one server; a call that is stuck behind a long one is what is added."""
    by_source = capacity_per_s - rate_per_s
    found = spare(1 / capacity_per_s, rate_per_s, p99_ms, UNKNOWN_VARIATION)
    assert by_source * (1 - 1e-3) <= found <= 1.1 * by_source


def test_constant_work_may_wait_for_what_the_call_leaves() -> None:
    """At 90 calls a second 1% of the calls wait longer than `ln(100 rho) / 2 d`."""
    found = spare(0.001, 90.0, 10.0, 0.0)
    used = 90.0 / (90.0 + found)
    assert 2 * found * 0.009 == pytest.approx(math.log(100 * used), rel=1e-8)


@pytest.mark.parametrize("p99_ms", [10.0, 1e3])
def test_a_capacity_is_looked_for_up_to_a_million_calls_within_the_latency(p99_ms: float) -> None:
    """At a high rate nearly all capacity is in use, and `ln 100 = 2 d t` leaves one call in a hundred."""
    latency_s = p99_ms / 1e3
    for calls, enough in ((0.9e6, True), (1.1e6, False)):
        left_s = latency_s * math.log(100) / (2 * calls)
        found = spare(latency_s - left_s, 1e15, p99_ms, 0.0)
        assert found == (pytest.approx(calls / latency_s, rel=1e-4) if enough else math.inf)
    assert spare(latency_s, 1.0, p99_ms, 0.0) == math.inf  # nothing is left


@pytest.mark.parametrize("p99_ms", [10.0, 1e3])
def test_a_millionth_of_a_call_within_the_latency_is_spare_at_the_lowest_rate(p99_ms: float) -> None:
    assert spare(p99_ms / 2e3, 1e-12, p99_ms, 0.0) == pytest.approx(1e-6 / (p99_ms / 1e3))


@pytest.mark.parametrize(("variation", "constant"), [(0.9e-3, True), (1e-3, False), (1.1e-3, False)])
def test_work_that_varies_by_less_than_a_thousandth_is_constant(variation: float, constant: bool) -> None:
    """The latency leaves a thousandth of the work, which otherwise one call in a hundred exceeds."""
    assert (spare(0.01, 1.0, 10.01, variation) < math.inf) is constant


@pytest.mark.parametrize("variation", [0.0, 0.5, 1.0])
def test_a_latency_below_the_work_itself_is_kept_by_no_capacity(variation: float) -> None:
    assert spare(0.01, 1.0, 9.9, variation) == math.inf
    assert spare(0.01, 1.0, 80.0, variation) < math.inf


@given(st.floats(1e-4, 0.1), st.floats(0.1, 1e4), st.floats(1.0, 1e4), st.floats(0, 3), st.floats(1.0, 4.0))
def test_slower_calls_a_higher_rate_and_less_time_never_need_less(
    call_s: float, rate_per_s: float, p99_ms: float, variation: float, factor: float
) -> None:
    found = spare(call_s, rate_per_s, p99_ms, variation)
    assert found > 0
    more = 1 + 1e-6
    assert spare(factor * call_s, rate_per_s, p99_ms, variation) * more >= found
    assert spare(call_s, factor * rate_per_s, p99_ms, variation) * more >= found
    assert spare(call_s, rate_per_s, p99_ms / factor, variation) * more >= found


@given(st.lists(st.floats(1e-3, 1.0), min_size=1, max_size=6))
@example([1.0, 0.75])  # a wait of exactly the 0.99 quantile
def test_each_time_of_a_call_has_its_own_answer(calls_s: list[float]) -> None:
    found = spare_within(np.array([calls_s]), 10.0, 2e3, 0.5)
    assert found.shape == (1, len(calls_s))
    alone = [spare(one, 10.0, 2e3, 0.5) for one in calls_s]
    assert found[0].tolist() == pytest.approx(alone)


@pytest.mark.parametrize("speeds", [[1.0], [1.0, 1.0], [1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 0.5], [2.0, 1.0]])
@pytest.mark.parametrize(("variation", "times"), [(0.0, 5.0), (0.3, 6.0), (0.5, 8.0), (1.0, 8.0)])
def test_replicas_that_share_the_load_keep_the_latency_and_use_most_of_it(
    speeds: list[float], variation: float, times: float
) -> None:
    """Times are in calls of a replica of speed 1."""
    slowest, p99_ms, rate_per_s = 1 / min(speeds), 1e3 * times, sum(speeds) / 2
    for _ in range(60):  # the rate at which the capacity is just enough
        left_per_s = sum(speeds) - spare(slowest, rate_per_s, p99_ms, variation)
        rate_per_s = (rate_per_s + max(0.01, left_per_s)) / 2
    least = 0.75 if min(speeds) == max(speeds) else 0.5  # the slowest replica gets the fewest calls
    assert (
        least * p99_ms
        <= p99_of_lines(speeds, rate_per_s, functools.partial(gamma_work, variation))
        <= 1.15 * p99_ms
    )


@pytest.mark.parametrize("variation", [0.5, 1.0])
def test_a_latency_that_just_99_of_100_calls_keep_by_themselves_is_kept(variation: float) -> None:
    """No call may wait then, up to rounding, so there is much to spare, though not all that is looked for."""
    shape = 1 / variation**2
    longest = (1 + 0.25 * variation**2) * float(gamma.ppf(0.99, shape)) / shape  # in calls
    found = spare_within(np.array([[0.01, 0.02], [0.01, 0.01]]), 10.0, 10.0 * longest, variation)
    assert (found[[0, 1, 1], [0, 0, 1]] < 0.1e6 / (0.01 * longest)).all()
    assert found[0, 1] == math.inf
