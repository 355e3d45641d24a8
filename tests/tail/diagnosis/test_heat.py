"""Heat maps: every call is in its replica's and time's cell; slow replicas and periods stand out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import msgspec
import numpy as np
import pytest
from hypothesis import given, strategies as st

from kwiken.base.errors import InputError
from kwiken.model.profile.profile import Profile, StageProfile
from kwiken.tail.diagnosis.heat_map import heat_maps

StageOf = Callable[..., StageProfile]
ProfileOf = Callable[..., Profile]


@pytest.fixture
def fleet(stage_of: StageOf, profile_of: ProfileOf) -> Profile:
    """Three replicas: one always slow, and all slow in the last tenth of the time."""
    rng = np.random.default_rng(0)
    asked = rng.integers(0, 3, (6000, 1))
    late = (np.arange(6000) >= 5400)[:, None]
    calls = rng.uniform(9, 11, (6000, 1)) * np.where(asked == 1, 5.0, 1.0) * np.where(late, 8.0, 1.0)
    stage = replace(stage_of("look", calls), asked=asked, replica_names=("a", "b", "c"))
    return profile_of(stage)


def test_a_flaky_replica_is_a_slow_row_and_a_bad_moment_a_slow_column(fleet: Profile) -> None:
    (heat,) = heat_maps(fleet, columns=10)
    slow = np.array(heat.slow_ms, dtype=float)
    assert heat.replicas == ("a", "b", "c")
    assert slow.shape == (3, 10)
    assert (slow[1, :9] > 4 * slow[0, :9]).all()
    assert (slow[:, 9] > 6 * slow[:, :9].max(axis=1)).all()
    assert heat.typical_ms == pytest.approx(10.3, abs=0.5)


@given(st.integers(0, 2**32), st.integers(1, 40), st.integers(1, 60))
def test_every_cell_is_the_p95_of_its_calls(seed: int, requests: int, columns: int) -> None:
    rng = np.random.default_rng(seed)
    calls = rng.lognormal(0, 1, (requests, 2))
    calls[rng.random(calls.shape) < 0.3] = np.nan
    calls[0, 0] = 1.0
    asked = rng.integers(-1, 3, calls.shape)
    profile = _profile(calls, asked, np.sort(rng.uniform(0, 100, requests)))
    (heat,) = heat_maps(profile, columns=columns)
    edges = np.array(heat.edges_s)
    for replica, row in enumerate(heat.slow_ms):
        for column, value in enumerate(row):
            last = column == columns - 1
            during = (profile.started_s >= edges[column]) & ((profile.started_s < edges[column + 1]) | last)
            mine = calls[during[:, None] & (asked == replica) & ~np.isnan(calls)]
            if value is None:
                assert not len(mine)
            else:
                assert value == np.percentile(mine, 95, method="inverted_cdf")


def _profile(calls: np.ndarray, asked: np.ndarray, started: np.ndarray) -> Profile:
    from kwiken.model.plan.plan import SpanMatch

    stage = StageProfile(
        name="s",
        match=SpanMatch(service="t", operation="s"),
        calls_ms=calls,
        censored=np.zeros(calls.shape, dtype=np.bool_),
        asked=asked,
        replica_names=("x", "y", "z"),
    )
    return Profile(service="t", stages=(stage,), latency_ms=stage.latency_ms, started_s=started)


def test_without_names_of_replicas_a_stage_is_one_row(stage_of: StageOf, profile_of: ProfileOf) -> None:
    own = stage_of("s:r (own time)", np.ones(50), reissuable=False)
    (heat,) = heat_maps(profile_of(own, stage_of("only", np.ones(50), after=("s:r (own time)",))))
    assert (heat.stage, heat.replicas) == ("only", ("all replicas",))
    assert len(heat.slow_ms[0]) == len(heat.edges_s) - 1


def test_what_has_no_requests_or_columns_is_refused(stage_of: StageOf, profile_of: ProfileOf) -> None:
    profile = profile_of(stage_of("s", np.ones(5)))
    with pytest.raises(InputError, match="columns"):
        heat_maps(profile, columns=0)
    with pytest.raises(InputError, match="requests"):
        heat_maps(replace(profile, latency_ms=np.empty(0), started_s=np.empty(0)))


def test_rows_are_named_after_their_stage_unless_replicas_are(
    stage_of: StageOf, profile_of: ProfileOf
) -> None:
    short, other = heat_maps(profile_of(stage_of("a", np.ones(50)), stage_of("all", np.ones(50))))
    assert short.labels == ("a all replicas",)
    assert other.labels == ("all all replicas",)
    named = msgspec.structs.replace(other, stage="rank", replicas=("rank-0", "host7"))
    assert named.labels == ("rank-0", "rank host7")
