"""How much of the work in front comes with the time: by how much more a longer stretch costs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kwiken import Profile, SpanMatch, StageProfile, part_of
from kwiken._profile import Floats
from kwiken.queueing._front import FEWEST, MOST, STRETCH, share_of_time, work_ms

REQUESTS = 6_000
EACH_MS, GAP_S = 3.0, 0.025


def profile_of(ended_s: Floats, worked_ms: Floats | None, latency_ms: Floats | None = None) -> Profile:
    """Requests that ended then, of nothing but own time."""
    took_ms = np.full(len(ended_s), 10.0) if latency_ms is None else latency_ms
    own = StageProfile(
        name="shop:request (own time)",
        match=SpanMatch(service="shop", operation="request"),
        calls_ms=took_ms[:, None],
        censored=np.zeros((len(ended_s), 1), np.bool_),
        busy_ms=7.0,
        worked_ms=worked_ms[:, None] if worked_ms is not None else None,
        reissuable=False,
    )
    return Profile(service="shop", stages=(own,), latency_ms=took_ms, started_s=ended_s - took_ms / 1e3)


def ends(rng: np.random.Generator, requests: int = REQUESTS) -> Floats:
    return np.asarray(1.7e9 + np.cumsum(rng.exponential(GAP_S, requests)))


def work(rng: np.random.Generator, ended_s: Floats, share: float) -> Floats:
    """So much of it comes with the time, and the rest with requests: who has it, chance says."""
    gaps = np.diff(ended_s, prepend=ended_s[0] - GAP_S)
    return np.asarray(EACH_MS * (share * gaps / GAP_S + (1 - share) * rng.lognormal(-0.125, 0.5, len(gaps))))


@pytest.mark.parametrize("share", [0.1, 0.2, 0.5, 0.8])
def test_it_is_what_was_put_in(share: float) -> None:
    rng = np.random.default_rng(1)
    ended_s = ends(rng)
    assert share_of_time(profile_of(ended_s, work(rng, ended_s, share))) == pytest.approx(share, abs=0.03)


@pytest.mark.parametrize("seed", range(5))
def test_it_is_none_where_all_comes_with_requests(seed: int) -> None:
    rng = np.random.default_rng(seed)
    ended_s = ends(rng)
    assert share_of_time(profile_of(ended_s, work(rng, ended_s, 0.0))) == 0.0


def test_it_goes_by_the_ends_of_requests_in_any_order() -> None:
    rng = np.random.default_rng(2)
    ended_s = ends(rng)
    profile = profile_of(ended_s, work(rng, ended_s, 0.3), rng.lognormal(3.0, 1.0, REQUESTS))
    mixed = part_of(profile, rng.permutation(REQUESTS))
    assert share_of_time(profile) == pytest.approx(0.3, abs=0.03)
    assert share_of_time(mixed) == pytest.approx(share_of_time(profile))


def test_a_gap_in_the_traces_is_no_stretch() -> None:
    """Work of the time between was borne by requests that are not there."""
    rng = np.random.default_rng(3)
    ended_s = ends(rng)
    worked_ms = work(rng, ended_s, 0.3)
    ended_s[REQUESTS // 2 :] += 600.0
    assert share_of_time(profile_of(ended_s, worked_ms)) == pytest.approx(0.3, abs=0.03)


def test_a_request_of_unknown_work_costs_its_stretch_and_no_more() -> None:
    rng = np.random.default_rng(4)
    ended_s = ends(rng)
    worked_ms = work(rng, ended_s, 0.3)
    worked_ms[::100] = np.nan
    assert share_of_time(profile_of(ended_s, worked_ms)) == pytest.approx(0.3, abs=0.03)


def test_work_that_is_all_of_the_time_leaves_some_to_requests() -> None:
    rng = np.random.default_rng(5)
    ended_s = ends(rng)
    assert share_of_time(profile_of(ended_s, work(rng, ended_s, 1.0))) == MOST


class TestNobodyKnows:
    def test_where_no_work_was_measured(self) -> None:
        ended_s = ends(np.random.default_rng(6))
        assert share_of_time(profile_of(ended_s, None)) == 0.0
        assert share_of_time(profile_of(ended_s, np.full(REQUESTS, np.nan))) == 0.0

    @pytest.mark.parametrize("worked_ms", [0.0, 1e-310])
    def test_where_nothing_was_worked(self, worked_ms: float) -> None:
        ended_s = ends(np.random.default_rng(7))
        assert share_of_time(profile_of(ended_s, np.full(REQUESTS, worked_ms))) == 0.0

    @pytest.mark.parametrize("requests", [0, 1, STRETCH, FEWEST * STRETCH])
    def test_of_few_requests(self, requests: int) -> None:
        rng = np.random.default_rng(8)
        ended_s = ends(rng, FEWEST * STRETCH)[:requests]
        worked_ms = work(rng, ended_s, 0.5) if requests else np.empty(0)
        assert share_of_time(profile_of(ended_s, worked_ms)) == 0.0

    def test_of_one_more_than_few_it_does(self) -> None:
        rng = np.random.default_rng(8)
        ended_s = ends(rng, FEWEST * STRETCH + 1)
        assert share_of_time(profile_of(ended_s, work(rng, ended_s, 0.5))) > 0

    @pytest.mark.parametrize("jitter_ms", [0.0, 0.01, 1.0])
    @pytest.mark.parametrize("seed", range(8))
    def test_where_requests_end_at_regular_intervals(self, jitter_ms: float, seed: int) -> None:
        rng = np.random.default_rng(seed)
        ended_s = 1.7e9 + np.arange(REQUESTS) * GAP_S + rng.random(REQUESTS) * jitter_ms / 1e3
        assert share_of_time(profile_of(np.asarray(ended_s), rng.exponential(EACH_MS, REQUESTS))) == 0.0

    def test_where_all_end_at_once(self) -> None:
        rng = np.random.default_rng(9)
        assert share_of_time(profile_of(np.full(REQUESTS, 1.7e9), rng.exponential(3.0, REQUESTS))) == 0.0


def test_work_is_that_of_the_requests_that_are_there() -> None:
    worked_ms = np.array([np.nan, 2.0, 4.0, 9.0])
    profile = profile_of(np.arange(4.0), worked_ms)
    assert work_ms(profile.stages[0]) == 5.0
    assert work_ms(part_of(profile, np.array([0, 1, 2])).stages[0]) == 3.0
    assert work_ms(part_of(profile, np.array([0])).stages[0]) == 7.0  # the mean of all
    assert work_ms(replace(profile.stages[0], worked_ms=None)) == 7.0
    assert work_ms(replace(profile.stages[0], worked_ms=None, busy_ms=None)) == 0.0
