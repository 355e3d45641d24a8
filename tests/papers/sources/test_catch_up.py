"""Catch-up by threads and by priority."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra.numpy import arrays

from kwiken.base.arrays import Floats
from kwiken.base.errors import InputError
from papers.kwiken.late_requests.timeline import ExtraThreads, prioritise, speed_up

times = arrays(np.float64, 6, elements=st.floats(0, 1000))


@given(times, times, st.floats(0, 2000))
def test_threads_never_slow_down_and_burn_what_they_say(start: Floats, work: Floats, late: float) -> None:
    elapsed_ms, extra = speed_up(start, work, late, ExtraThreads(threads=3, speedup=2.0))
    assert (elapsed_ms <= work + 1e-9).all()
    assert (elapsed_ms >= work / 2 - 1e-9).all()
    # three threads at double speed: half of what is left is saved, and half as much again is burnt
    assert np.allclose(extra, work - elapsed_ms)


def test_nothing_is_spent_where_no_request_is_late() -> None:
    start, work = np.array([0.0, 50.0]), np.array([10.0, 20.0])
    elapsed_ms, extra = speed_up(start, work, math.inf, ExtraThreads())
    assert np.array_equal(elapsed_ms, work)
    assert not extra.any()


def test_work_is_sped_up_from_the_moment_the_request_is_late() -> None:
    elapsed_ms, extra = speed_up(np.array([0.0, 30.0]), np.array([40.0, 40.0]), 20.0, ExtraThreads())
    assert elapsed_ms.tolist() == [30.0, 20.0]
    assert extra.tolist() == [10.0, 20.0]


def test_the_saving_is_bounded_by_half_of_what_is_left_at_the_threshold() -> None:
    rng = np.random.default_rng(1)
    first, second = rng.lognormal(3, 0.8, (2, 20_000))
    base = np.percentile(first + second, 99)
    for late in (20.0, 60.0, 120.0):
        elapsed_ms, _ = speed_up(np.zeros_like(first), first, late, ExtraThreads())
        whole = elapsed_ms + speed_up(elapsed_ms, second, late, ExtraThreads())[0]
        assert 1 - np.percentile(whole, 99) / base <= (1 - late / base) / 2 + 1e-9


def test_priority_protects_late_transfers_only() -> None:
    elapsed_ms, high = prioritise(
        np.array([5.0, 25.0, 25.0]), np.array([90.0, 90.0, 2.0]), 20.0, protected_ms=6.0
    )
    assert elapsed_ms.tolist() == [90.0, 6.0, 2.0]
    assert high.tolist() == [0.0, 1.0, 1.0]


@pytest.mark.parametrize("speedup", [0.5, 4.0, math.nan])
def test_impossible_speedups_are_refused(speedup: float) -> None:
    with pytest.raises(InputError, match="speedup"):
        ExtraThreads(threads=3, speedup=speedup)
