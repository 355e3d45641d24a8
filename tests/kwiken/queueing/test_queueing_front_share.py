"""How much of the work in front comes with the time: by how much more a longer stretch costs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kwiken import Profile, SpanMatch, StageProfile, part_of
from kwiken._profile import Floats
from kwiken.queueing._front import FEWEST, MOST, MOST_USED, STRETCH, share_of_time, work_ms

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


@pytest.mark.parametrize("share", [0.1, 0.2, 0.4])
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
    def test_by_the_work_of_a_stage_with_replicas(self) -> None:
        rng = np.random.default_rng(12)
        ended_s = ends(rng)
        profile = profile_of(ended_s, work(rng, ended_s, 0.3))
        served = replace(profile.stages[0], name="served", reissuable=True)
        own = replace(profile.stages[0], worked_ms=None)
        assert share_of_time(replace(profile, stages=(own, served))) == 0.0

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


LIVES = {
    "evenly": np.linspace(0.0, 1.0, 6),
    "half when it comes, half at its end": np.array([0.0, 1.0]),
    "when it comes": np.array([0.0]),
    "mostly early": np.array([0.1, 0.1, 0.1, 0.9]),
}


def overlapping(under_way: float, when: Floats, share: float, seed: int) -> Profile:
    """Requests that many of are under way, each worked on at some parts of its life, and as time goes by."""
    rng = np.random.default_rng(seed)
    started_s = ends(rng)
    lived_s = under_way * GAP_S * rng.lognormal(-0.125, 0.5, REQUESTS)
    ended_s = started_s + lived_s
    moments = np.minimum(started_s[:, None] + when * lived_s[:, None], ended_s[:, None])
    pieces = np.broadcast_to(
        EACH_MS * (1 - share) * rng.lognormal(-0.125, 0.5, REQUESTS)[:, None] / len(when), moments.shape
    )
    ticks = np.arange(started_s[0], ended_s.max(), GAP_S / 5)
    moment = np.concatenate((moments.ravel(), ticks))
    piece = np.concatenate((pieces.ravel(), np.full(len(ticks), EACH_MS * share / 5)))
    order = np.argsort(moment, kind="stable")
    done = np.concatenate(([0.0], np.cumsum(piece[order])))
    by_end = np.argsort(ended_s, kind="stable")
    until = done[np.searchsorted(moment[order], ended_s[by_end], side="right")]
    worked_ms = np.empty(REQUESTS)
    worked_ms[by_end] = np.diff(until, prepend=np.nan)
    return profile_of(ended_s, worked_ms, lived_s * 1e3)


class TestOthersThatAreUnderWay:
    """What is burnt between two ends is for them too, and more of them start in a longer time."""

    @pytest.mark.parametrize("under_way", [0.5, 3.0, 20.0])
    @pytest.mark.parametrize("when", LIVES.values(), ids=LIVES)
    def test_are_not_taken_for_the_time(self, under_way: float, when: Floats) -> None:
        found = [share_of_time(overlapping(under_way, when, 0.0, seed)) for seed in range(6)]
        assert sum(share > 0 for share in found) <= 1  # one in forty is, by two standard errors
        assert max(found) < 0.1

    @pytest.mark.parametrize("under_way", [0.5, 3.0, 20.0])
    @pytest.mark.parametrize("when", LIVES.values(), ids=LIVES)
    def test_hide_nothing(self, under_way: float, when: Floats) -> None:
        found = [share_of_time(overlapping(under_way, when, 0.3, seed)) for seed in range(3)]
        assert np.mean(found) == pytest.approx(0.3, abs=0.04)


def test_of_a_busy_front_nobody_knows() -> None:
    """It makes stretches long by the work of their requests."""
    rng = np.random.default_rng(10)
    ended_s = ends(rng)
    worked_ms = work(rng, ended_s, 0.3)
    slower = MOST_USED * GAP_S * 1e3 / EACH_MS
    assert share_of_time(profile_of(ended_s, worked_ms * slower * 0.95)) == pytest.approx(0.3, abs=0.03)
    assert share_of_time(profile_of(ended_s, worked_ms * slower * 1.05)) == 0.0


class TestMeanWork:
    def of(self, profile: Profile) -> float:
        return work_ms(profile.stages[0], profile.started_s + profile.latency_ms / 1e3)

    def test_is_that_of_the_requests_that_are_there(self) -> None:
        profile = profile_of(np.arange(4.0), np.array([np.nan, 2.0, 4.0, 9.0]))
        assert self.of(profile) == 5.0
        assert self.of(part_of(profile, np.array([0, 1, 2]))) == 3.0

    def test_else_it_is_what_was_measured_of_all(self) -> None:
        profile = profile_of(np.arange(4.0), np.array([np.nan, 2.0, 4.0, 9.0]))
        for rows in ([0], []):
            assert self.of(part_of(profile, np.array(rows, np.int64))) == 7.0
        assert self.of(profile_of(np.arange(4.0), None)) == 7.0
        assert work_ms(replace(profile.stages[0], worked_ms=None, busy_ms=None), np.arange(4.0)) == 0.0

    def test_is_without_the_first_after_a_pause(self) -> None:
        """It bears what the front did while nobody came."""
        rng = np.random.default_rng(11)
        ended_s = ends(rng)
        ended_s[1_000:] += 900.0
        worked_ms = np.full(REQUESTS, 2.0)
        worked_ms[1_000] = 5_000.0
        mixed = rng.permutation(REQUESTS)
        assert self.of(part_of(profile_of(ended_s, worked_ms), mixed)) == pytest.approx(2.0)
