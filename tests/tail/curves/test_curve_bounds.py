"""Confidence intervals of curves: coverage, shrinking with requests, and widening by bursts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from kwiken.model.profile.profile import Profile, StageProfile
from kwiken.tail.curves.confidence import curve_bounds
from kwiken.tail.curves.curve import stage_curves

StageOf = Callable[..., StageProfile]
ProfileOf = Callable[..., Profile]


def test_intervals_cover_the_truth_about_as_often_as_they_say(
    stage_of: StageOf, profile_of: ProfileOf
) -> None:
    """For Exp(1) the variance at each share is known: V(r) = 2 - r (3/2 - ln r) - (1 - r/2)²."""
    known = {0.05: 0.8246, 0.2: 0.5681, 1.0: 0.25}
    covered = []
    for seed in range(25):
        calls = np.random.default_rng(seed).exponential(1, 2000)
        profile = profile_of(stage_of("a", calls))
        bounds = curve_bounds(profile, stage_curves(profile))["a"]
        for fraction, truth in known.items():
            at = int(np.argmin(np.abs(bounds.fraction - fraction)))
            covered.append(bounds.low[at] <= truth <= bounds.high[at])
    assert 0.78 <= np.mean(covered) <= 0.99


def width(profile: Profile) -> float:
    bounds = curve_bounds(profile, stage_curves(profile))["a"]
    return float(np.log(bounds.high / bounds.low).mean())


def test_more_requests_narrow_and_bursts_widen(stage_of: StageOf, profile_of: ProfileOf) -> None:
    rng = np.random.default_rng(1)
    assert width(profile_of(stage_of("a", rng.exponential(1, 300)))) > 2 * width(
        profile_of(stage_of("a", rng.exponential(1, 10_000)))
    )
    slow = np.arange(4000) < 100
    burst = rng.exponential(1, 4000) + 30 * slow
    spread = rng.exponential(1, 4000) + 30 * rng.permutation(slow)
    assert width(profile_of(stage_of("a", burst))) > 2 * width(profile_of(stage_of("a", spread)))


def test_fan_outs_seldom_stages_and_still_stages_have_bounds(
    stage_of: StageOf, profile_of: ProfileOf
) -> None:
    rng = np.random.default_rng(2)
    once = np.where(np.arange(600) < 12, rng.exponential(1, 600), np.nan)
    profile = profile_of(
        stage_of("wide", rng.exponential(1, (600, 4))),
        stage_of("seldom", once),
        stage_of("still", np.full(600, 3.0)),
    )
    curves = stage_curves(profile)
    found = curve_bounds(profile, curves)
    for name, bounds in found.items():
        assert np.isfinite(bounds.high).all()
        assert (bounds.low <= curves[name].variance).all()
        assert (bounds.high >= curves[name].variance).all()
    assert found["still"].high.max() == pytest.approx(0)


def test_a_gain_may_be_larger_than_few_requests_show(stage_of: StageOf, profile_of: ProfileOf) -> None:
    """The slowest calls make most of a heavy tail's variance, and few requests hold too few of them."""
    rng = np.random.default_rng(3)
    skew = []
    for requests in (500, 50_000):
        profile = profile_of(stage_of("a", rng.lognormal(0, 1, requests)))
        bounds = curve_bounds(profile, stage_curves(profile))["a"]
        gain = float(np.interp(0.05, bounds.fraction, bounds.gain))
        low, high = bounds.gain_between(0.05)
        assert low < gain < high
        skew.append((high - gain) / (gain - low))
    assert skew[0] > skew[1] > 1
