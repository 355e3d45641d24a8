"""Rate within a latency: anchors of the source, and queues of any variation simulated at that rate."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from kwiken.allocator.workloads import UNKNOWN_VARIATION, rate_within

CALLS = 400_000


def limit(capacity_per_s: float, p99_ms: float, variation: float, servers: float = 1.0) -> float:
    return float(rate_within(np.array([[capacity_per_s]]), np.array([[servers]]), p99_ms, variation)[0, 0])


@pytest.mark.parametrize(
    ("capacity_per_s", "p99_ms", "rate_per_s"),
    [(100e3, 0.2, 76_974), (2e3, 30.0, 1846), (200.0, 100.0, 154)],
)
def test_exponential_work_gives_the_rates_of_the_source(
    capacity_per_s: float, p99_ms: float, rate_per_s: float
) -> None:
    assert limit(capacity_per_s, p99_ms, UNKNOWN_VARIATION) == pytest.approx(rate_per_s, rel=1e-4, abs=1)


def test_constant_work_leaves_less_time_for_waiting_by_itself() -> None:
    """A call of 1 ms may wait 9 of 10 ms; the tail of waiting then falls to 1% at `ln 100 / 2` in 9 ms."""
    assert limit(1000.0, 10.0, 0.0) == pytest.approx(1000.0 - math.log(100) / 2 / 0.009)
    assert limit(1000.0, 0.9, 0.0) == pytest.approx(1e-3)  # below the work of a call


def p99_of_queue(rate_per_s: float, work_s: np.ndarray, rng: np.random.Generator) -> float:
    """p99 of the time from arrival to end in a queue of one server, milliseconds, by Lindley's recursion."""
    gaps = rng.exponential(1 / rate_per_s, len(work_s))
    steps = np.concatenate([[0.0], np.cumsum(work_s[:-1] - gaps[1:])])
    waits = steps - np.minimum.accumulate(np.minimum(steps, 0.0))
    return 1e3 * float(np.quantile((waits + work_s)[len(work_s) // 10 :], 0.99))


@pytest.mark.parametrize("variation", [0.0, 0.3, 0.7, 1.0])
@pytest.mark.parametrize("latency_over_work", [8.0, 15.0, 40.0])
def test_a_queue_at_that_rate_keeps_the_latency_and_uses_most_of_it(
    variation: float, latency_over_work: float
) -> None:
    rng = np.random.default_rng(7)
    work_s = 0.01 * (rng.gamma(1 / variation**2, variation**2, CALLS) if variation else np.ones(CALLS))
    p99_ms = 10.0 * latency_over_work
    found = p99_of_queue(limit(100.0, p99_ms, variation), work_s, rng)
    assert 0.75 * p99_ms <= found <= 1.1 * p99_ms


@given(
    st.floats(1.0, 1e5),
    st.floats(0.01, 1e5),
    st.floats(0, 100),
    st.floats(0, 100),
    st.floats(1.0, 64.0),
)
def test_more_variation_or_less_time_never_allows_a_higher_rate(
    capacity_per_s: float, p99_ms: float, first: float, second: float, servers: float
) -> None:
    low, high = sorted((first, second))
    rate = limit(capacity_per_s, p99_ms, low, servers)
    assert 0 < rate <= capacity_per_s
    assert limit(capacity_per_s, p99_ms / 2, low, servers) <= rate * (1 + 1e-9)
    if low >= 1:  # below, the constant part of the work counts as well
        assert limit(capacity_per_s, p99_ms, high, servers) <= rate * (1 + 1e-9)


def test_a_latency_below_the_work_itself_allows_nearly_no_rate() -> None:
    assert limit(100.0, 9.0, 0.0) == pytest.approx(1e-4)
