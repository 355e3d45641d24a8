"""Weighting of sampled profiles."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, strategies as st

from kwiken.base.errors import InputError
from kwiken.model.profile.profile import Profile
from kwiken.model.profile.weighting import MAX_WEIGHTED_REQUESTS, weighted
from tests.support.models.profiles import small_profile


def profile_of(count: int) -> Profile:
    return dataclasses.replace(small_profile(count), latency_ms=np.arange(1.0, count + 1))


@given(st.lists(st.floats(0.01, 1.0), min_size=1, max_size=50))
def test_every_row_is_repeated_by_the_inverse_of_its_share(shares: list[float]) -> None:
    found = weighted(profile_of(len(shares)), np.array(shares))
    times = np.bincount(found.latency_ms.astype(int) - 1, minlength=len(shares))
    assert abs(len(found.latency_ms) - sum(1 / share for share in shares)) <= 0.51
    assert (np.abs(times - 1 / np.array(shares)) < 1 + 1e-9).all()
    assert (np.diff(found.latency_ms) >= 0).all(), "the order stays"
    assert (np.diff(found.started_s) >= 0).all()


def test_rows_kept_for_certain_stay_single() -> None:
    found = weighted(profile_of(4), np.array([1.0, 0.25, 1.0, 0.5]))
    assert found.latency_ms.tolist() == [1, 2, 2, 2, 2, 3, 4, 4]


def test_more_rows_than_the_bound_are_thinned_alike() -> None:
    found = weighted(profile_of(1000), np.full(1000, 0.001))
    assert len(found.latency_ms) == MAX_WEIGHTED_REQUESTS
    assert set(np.bincount(found.latency_ms.astype(int))[1:].tolist()) == {200}


@pytest.mark.parametrize("share", [0.0, -0.5, 1.5, float("nan")])
def test_a_share_out_of_range_is_refused(share: float) -> None:
    with pytest.raises(InputError, match="share of traces"):
        weighted(profile_of(2), np.array([0.5, share]))
