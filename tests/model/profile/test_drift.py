"""Drift test and decay: changed stages are named, steady ones are not, and old requests are thinned."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.signal import lfilter

from kwiken.base.arrays import Floats
from kwiken.base.errors import InputError
from kwiken.model.plan.plan import Budgets
from kwiken.model.profile.change_over_time import IN_HISTOGRAMS, drift
from kwiken.model.profile.codec import profile_from_json, profile_to_json
from kwiken.model.profile.notes import StagesChanged
from kwiken.model.profile.profile import Profile, StageProfile
from kwiken.model.profile.weighting import decayed
from kwiken.tail.planning.planner import study_plan
from kwiken.tail.planning.study import PlanSettings

StageOf = Callable[..., StageProfile]
ProfileOf = Callable[..., Profile]


def bursty(rng: np.random.Generator, requests: int) -> Floats:
    """Latencies that are correlated with those close in time."""
    found: Floats = np.exp(lfilter([np.sqrt(1 - 0.9**2)], [1, -0.9], rng.normal(size=requests)))
    return found


def steady(rng: np.random.Generator, requests: int) -> Floats:
    return rng.lognormal(0, 1, requests)


@pytest.mark.parametrize("distribution", [steady, bursty])
def test_what_did_not_change_is_seldom_named(
    distribution: Callable[..., Floats], stage_of: StageOf, profile_of: ProfileOf
) -> None:
    named = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        named += len(drift(profile_of(*(stage_of(f"s{i}", distribution(rng, 2000)) for i in range(8))))) > 0
    assert named <= 9, "one in twenty is meant"


def test_what_changed_is_named_with_both_shares(stage_of: StageOf, profile_of: ProfileOf) -> None:
    rng = np.random.default_rng(1)
    calls = {f"s{i}": steady(rng, 6000) for i in range(8)}
    calls["s3"][3000:] *= 1.5
    profile = profile_of(*(stage_of(name, each) for name, each in calls.items()))
    (found,) = drift(profile)
    assert found.stage == "s3"
    assert found.after_ms == np.quantile(calls["s3"], 0.95, method="inverted_cdf")
    assert found.earlier == pytest.approx((calls["s3"][:3000] > found.after_ms).mean())
    assert found.later > 1.5 * found.earlier
    assert found.p_value < 0.05
    shuffled = np.random.default_rng(2).permutation(6000)
    turned = replace(
        profile,
        stages=tuple(replace(s, calls_ms=s.calls_ms[shuffled]) for s in profile.stages),
        started_s=profile.started_s[shuffled],
    )
    assert drift(turned) == drift(profile), "by time, whatever the order of the rows"


def test_times_that_were_drawn_at_random_tell_of_no_change(stage_of: StageOf, profile_of: ProfileOf) -> None:
    rng = np.random.default_rng(2)
    latencies = np.concatenate([steady(rng, 2000), 2 * steady(rng, 2000)])
    profile = profile_of(stage_of("a", latencies))
    assert drift(profile)
    assert drift(replace(profile, counts={**profile.counts, IN_HISTOGRAMS: 500})) == ()


def test_a_plan_says_so(stage_of: StageOf, profile_of: ProfileOf) -> None:
    rng = np.random.default_rng(1)
    calls = steady(rng, 4000)
    calls[2000:] *= 2
    study = study_plan(
        profile_of(stage_of("a", calls)),
        PlanSettings(budgets=Budgets(reissue=0.02), created="2026-01-01T00:00:00Z"),
    )
    (found,) = study.drift
    policy = study.plan.stages["a"].reissue
    assert policy is not None
    assert found.after_ms == pytest.approx(policy.after_ms, rel=1e-6)
    assert StagesChanged(study.drift) in study.notes


def test_a_plans_time_out_says_what_is_late(stage_of: StageOf, profile_of: ProfileOf) -> None:
    """Only the calls between 5 and 6 ms change, which no percentile near the end would show."""
    rng = np.random.default_rng(1)
    calls = rng.uniform(0, 10, 6000)
    later = (np.arange(6000) >= 3000) & (calls < 2)
    calls[later] += 4
    profile = profile_of(stage_of("a", calls))
    assert drift(profile) == ()
    (found,) = drift(profile, after_ms={"a": 5.0})
    assert (found.stage, found.after_ms) == ("a", 5.0)


def test_a_small_change_gives_no_note(stage_of: StageOf, profile_of: ProfileOf) -> None:
    calls = np.tile(np.arange(1.0, 1001.0), 200)
    calls[100_000:] += 5
    assert drift(profile_of(stage_of("a", calls))) == ()


def test_calls_cancelled_before_they_were_late_are_left_out(stage_of: StageOf, profile_of: ProfileOf) -> None:
    rng = np.random.default_rng(1)
    calls = steady(rng, 4000)
    cut = (np.arange(4000) >= 2000) & (rng.random(4000) < 0.5)
    calls[cut] = np.minimum(calls[cut], 0.01)
    assert drift(profile_of(stage_of("a", calls, censored=cut)), after_ms={"a": 3.0}) == ()
    assert len(drift(profile_of(stage_of("a", calls)), after_ms={"a": 3.0})) == 1


@pytest.mark.parametrize("after", [None, {"a": float(np.exp(1.645))}])
def test_copies_that_end_late_calls_are_no_change(
    after: dict[str, float] | None, stage_of: StageOf, profile_of: ProfileOf
) -> None:
    """From the middle on a plan sends copies at the 90th percentile and cancels the calls that lose."""
    named = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        calls, copy_ends = steady(rng, 4000), np.exp(1.2816) + steady(rng, 4000)
        cut = (np.arange(4000) >= 2000) & (calls > np.exp(1.2816)) & (copy_ends < calls)
        seen = stage_of("a", np.where(cut, copy_ends, calls), censored=cut)
        named += len(drift(profile_of(seen), after_ms=after))
    assert named <= 6, "one in twenty is meant"


def test_too_few_requests_give_no_verdict(stage_of: StageOf, profile_of: ProfileOf) -> None:
    assert drift(profile_of(stage_of("a", [1.0, 2.0, 3.0, 50.0]))) == ()
    assert drift(profile_of(stage_of("a", np.full(100, np.nan)))) == ()
    assert drift(profile_of(stage_of("a", np.full(4000, 1.0)))) == ()


@given(st.integers(0, 2**32), st.integers(1, 400), st.floats(0.01, 100))
def test_a_request_weighs_half_after_a_half_life(seed: int, requests: int, half_life: float) -> None:
    from tests.support.models.profile_fixtures import _profile_of, _stage_of

    rng = np.random.default_rng(seed)
    profile = replace(
        _profile_of(_stage_of("a", rng.exponential(1, requests))), started_s=rng.uniform(0, 100, requests)
    )
    found = decayed(profile, half_life)
    assert (np.diff(found.started_s) >= 0).all()
    assert found.started_s[-1] == profile.started_s.max()
    age = profile.started_s.max() - profile.started_s
    for span in (half_life, 3 * half_life, 1000.0):
        weight = np.exp2(-age[age <= span] / half_life).sum()
        kept = (profile.started_s.max() - found.started_s <= span).sum()
        assert abs(kept - weight) <= 1 + 1e-6
    assert found.counts.get("requests_decayed", 0) == requests - found.requests
    rows = {each: i for i, each in enumerate(profile.started_s.tolist())}
    back = [rows[each] for each in found.started_s.tolist()]
    np.testing.assert_array_equal(found.stages[0].calls_ms, profile.stages[0].calls_ms[back])


def test_no_decay_over_a_time_that_is_short_beside_the_half_life(
    stage_of: StageOf, profile_of: ProfileOf
) -> None:
    profile = profile_of(stage_of("a", np.arange(1.0, 50.0)))
    assert decayed(profile, 1e9).digest == profile.digest
    for bad in (0.0, -1.0, np.inf, np.nan):
        with pytest.raises(InputError, match="half-life: must be a finite number of seconds above 0"):
            decayed(profile, bad)


def test_what_changed_is_forgotten(stage_of: StageOf, profile_of: ProfileOf) -> None:
    rng = np.random.default_rng(1)
    calls = steady(rng, 6000)
    calls[3000:] *= 1.5
    found = decayed(profile_of(stage_of("a", calls)), 3.0)
    assert np.median(found.stages[0].calls_ms) == pytest.approx(1.5, rel=0.15)
    assert profile_from_json(profile_to_json(found)).digest == found.digest
