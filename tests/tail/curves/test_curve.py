"""Variance-response curve of single calls: anchors, ties, truncated and censored distributions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from kwiken.base.arrays import Floats
from kwiken.base.errors import InputError
from kwiken.model.profile.distribution import EmpiricalDistribution
from kwiken.model.service.stage import Reissue
from kwiken.tail.curves.curve import GRID, Curve, reissue_curve


def variance_at(curve: Curve, fraction: float) -> float:
    return float(np.interp(fraction, curve.fraction, curve.variance))


def policy_of(curve: Curve, fraction: float) -> Reissue:
    policy = curve.policy(fraction)
    assert policy is not None
    return policy


def textbook_point(samples: Floats, fraction: float) -> tuple[float, float]:
    """Mean and variance by the formula as it stands in the source, one sample at a time."""
    x = np.sort(samples)
    n = len(x)
    m = round(n * (1 - fraction))
    age = x[m - 1] if m else 0.0
    first, second = x[:m].sum(), (x[:m] ** 2).sum()
    for value in x[m:]:
        outcomes = np.minimum(value, age + x)
        first += outcomes.mean()
        second += (outcomes**2).mean()
    return first / n, second / n - (first / n) ** 2


@pytest.mark.parametrize(
    ("fraction", "variance"),
    [(0.01, 0.9489), (0.05, 0.8246), (0.1, 0.7172), (0.2, 0.5681), (0.5, 0.3409), (1.0, 0.25)],
)
def test_exponential_anchor(fraction: float, variance: float) -> None:
    curve = exponential_curve()
    assert variance_at(curve, fraction) == pytest.approx(variance, rel=0.01)
    mean = float(np.interp(fraction, curve.fraction, curve.mean_ms))
    assert mean == pytest.approx(1 - fraction / 2, rel=0.01)
    assert policy_of(curve, fraction).after_ms == pytest.approx(-math.log(fraction), abs=0.02)


def exponential_curve() -> Curve:
    # Samples at the distribution's own quantiles: what remains is the curve's error, not a draw's.
    n = 200_000
    return reissue_curve(-np.log1p(-(np.arange(n) + 0.5) / n))


@pytest.mark.parametrize(("sigma", "variance_ratio"), [(0.5, 0.325), (1.0, 0.115)])
def test_log_normal_anchor_when_every_call_is_doubled(sigma: float, variance_ratio: float) -> None:
    x = np.random.default_rng(1).lognormal(0, sigma, 400_000)
    curve = reissue_curve(x)
    assert curve.variance[-1] / curve.variance[0] == pytest.approx(variance_ratio, rel=0.05)
    assert curve.after_ms[-1] == 0


@pytest.mark.parametrize(("sigma", "ratio"), [(1.0, 0.483)])
def test_log_normal_anchor_at_five_percent(sigma: float, ratio: float) -> None:
    x = np.random.default_rng(2).lognormal(0, sigma, 400_000)
    curve = reissue_curve(x)
    assert variance_at(curve, 0.05) / curve.variance[0] == pytest.approx(ratio, abs=0.03)


def test_rare_slow_mode_anchor() -> None:
    rng = np.random.default_rng(3)
    x = rng.lognormal(0, 0.3, 200_000) * np.where(rng.random(200_000) < 0.02, 20.0, 1.0)
    curve = reissue_curve(x)
    assert variance_at(curve, 0.05) / curve.variance[0] == pytest.approx(0.032, abs=0.01)


@given(
    st.lists(st.floats(0, 1e4), min_size=2, max_size=40),
    st.sampled_from([r for r in GRID if r >= 0.05]),
)
def test_agrees_with_the_formula_of_the_source(samples: list[float], fraction: float) -> None:
    x = np.array(samples) + np.arange(len(samples)) * 1e-3  # hardly any ties
    curve = reissue_curve(x)
    hits = np.flatnonzero(np.isclose(curve.fraction, fraction) & (curve.coin == 1))
    for hit in hits:
        mean, variance = textbook_point(x, float(curve.fraction[hit]))
        assert curve.mean_ms[hit] == pytest.approx(mean, rel=1e-9, abs=1e-9)
        assert curve.variance[hit] == pytest.approx(variance, rel=1e-6, abs=1e-6 * (1 + mean**2))


def test_grid_points_are_hit_exactly_without_ties() -> None:
    curve = reissue_curve(np.random.default_rng(4).exponential(1, 10_000))
    assert np.allclose(curve.fraction, GRID)
    assert (curve.coin == 1).all()
    assert math.isinf(curve.after_ms[0])


def test_mean_never_rises_and_neither_does_the_hull() -> None:
    curve = reissue_curve(np.random.default_rng(5).lognormal(0, 1, 5000))
    assert (np.diff(curve.mean_ms) < 0).all()
    assert (np.diff(curve.hull) <= 1e-9).all()
    assert (curve.hull <= curve.variance).all()
    assert np.array_equal(curve.hull[curve.vertices], curve.variance[curve.vertices])


def test_a_policy_within_a_time_out_atom_spends_exactly_its_fraction() -> None:
    x = np.minimum(np.random.default_rng(6).lognormal(0, 1, 10_000), np.exp(1.88))  # 3% end at the cap
    cap = x.max()
    assert 0.02 < (x == cap).mean() < 0.04
    curve = reissue_curve(x)
    policy = policy_of(curve, 0.01)
    assert policy.after_ms < cap
    assert policy.probability * (x > policy.after_ms).mean() == pytest.approx(0.01)
    assert curve.moments(policy)[1] < curve.variance[0]
    assert curve.hull_at(0.01) < curve.variance[0]


def test_equal_calls_leave_nothing_to_gain() -> None:
    curve = reissue_curve(np.full(100, 7.0))
    assert np.allclose(curve.variance, 0)
    assert np.allclose(curve.mean_ms, 7)


def test_calls_in_whole_milliseconds_spend_what_was_asked() -> None:
    x = np.round(np.random.default_rng(7).lognormal(1, 0.5, 5000))
    curve = reissue_curve(x)
    for fraction in (0.01, 0.033, 0.2):
        policy = policy_of(curve, fraction)
        spent = policy.probability * (x > policy.after_ms).mean()
        assert spent == pytest.approx(fraction, rel=0.011)
        assert policy.fraction == pytest.approx(spent)


def test_policy_of_a_share_below_one_call_is_none() -> None:
    curve = reissue_curve(np.arange(1.0, 101.0), policies=("single",))
    assert curve.policy(0.0) is None
    assert curve.policy(0.004) is None
    assert curve.policy(0.01) == Reissue(after_ms=99.0, probability=1.0, fraction=0.01)


def test_moments_of_a_policy_match_the_curve_at_its_points() -> None:
    curve = reissue_curve(np.random.default_rng(8).exponential(5, 3000))
    for i in (0, 5, 12, 23):
        mean, variance = curve.moments(curve.policy(float(curve.fraction[i])))
        assert mean == pytest.approx(curve.mean_ms[i])
        assert variance == pytest.approx(curve.variance[i])


def test_coin_in_front_of_a_copy_matches_sampling() -> None:
    rng = np.random.default_rng(9)
    x = rng.lognormal(0, 1, 400)
    curve = reissue_curve(x)
    policy = Reissue(after_ms=float(np.quantile(x, 0.8)), probability=0.4)
    draws = np.repeat(x, 2000)
    sent = (draws > policy.after_ms) & (rng.random(draws.shape) < policy.probability)
    raced = np.where(sent, np.minimum(draws, policy.after_ms + rng.choice(x, draws.shape)), draws)
    mean, variance = curve.moments(policy)
    assert mean == pytest.approx(raced.mean(), rel=0.005)
    assert variance == pytest.approx(raced.var(), rel=0.03)


def test_requests_that_skip_the_stage_count_as_no_time() -> None:
    x = np.random.default_rng(10).exponential(1, 2000)
    x[:1000] = np.nan
    curve = reissue_curve(x)
    assert curve.mean_ms[0] == pytest.approx(np.nan_to_num(x).mean())
    assert curve.variance[0] == pytest.approx(np.nan_to_num(x).var())
    assert policy_of(curve, 0.1).after_ms == pytest.approx(np.nanquantile(x, 0.9), rel=0.05)


def test_the_distribution_of_a_copy_may_differ_from_the_calls() -> None:
    calls = np.array([1.0, 10.0])
    curve = reissue_curve(calls, EmpiricalDistribution.of(np.array([2.0, 2.0])), grid=(0.0, 1.0))
    # Every call gets a copy of 2 ms at once: 1 stays, 10 becomes 2.
    assert curve.mean_ms[-1] == pytest.approx(1.5)
    assert curve.variance[-1] == pytest.approx(0.25)


@pytest.mark.parametrize("bad", [[], [math.nan], [-1.0, 2.0], [1.0, math.inf]])
def test_refuses_what_is_no_latency(bad: list[float]) -> None:
    with pytest.raises(InputError):
        reissue_curve(np.array(bad, dtype=float))


def slow_mode() -> Floats:
    """Two calls in a hundred take twenty times as long."""
    rng = np.random.default_rng(3)
    return rng.lognormal(0, 0.3, 100_000) * np.where(rng.random(100_000) < 0.02, 20.0, 1.0)


def test_a_coin_before_a_rare_slow_mode_beats_a_time_out_within_it() -> None:
    x = slow_mode()
    single, best = reissue_curve(x, policies=("single",)), reissue_curve(x)
    assert variance_at(single, 0.01) / single.variance[0] == pytest.approx(0.717, abs=0.03)
    assert variance_at(best, 0.01) / best.variance[0] == pytest.approx(0.528, abs=0.03)
    policy = policy_of(best, 0.01)
    assert policy.probability < 0.7
    assert policy.probability * (x > policy.after_ms).mean() == pytest.approx(0.01, rel=0.01)


@given(st.lists(st.floats(0, 1e3), min_size=5, max_size=60), st.booleans())
def test_a_choice_of_policies_is_never_worse_than_one(samples: list[float], wide: bool) -> None:
    x = np.array(samples)
    x = np.column_stack((x, x[::-1])) if wide else x
    single, best = reissue_curve(x, policies=("single",)), reissue_curve(x)
    for fraction, variance in zip(best.fraction, best.variance, strict=True):
        rival = np.interp(fraction, single.fraction, single.hull)
        same = single.variance[np.isclose(single.fraction, fraction, atol=1e-12)]
        assert variance <= min(same, default=np.inf) + 1e-6 * (1 + rival)


@pytest.mark.parametrize("shards", [1, 4])
@pytest.mark.parametrize("fraction", [0.004, 0.013, 0.06])
def test_policies_between_the_points_attain_what_the_hull_promises(shards: int, fraction: float) -> None:
    rng = np.random.default_rng(12)
    x = rng.lognormal(0, 0.3, (20_000, shards)) * np.where(rng.random((20_000, shards)) < 0.02, 20.0, 1.0)
    curve = reissue_curve(x)
    policy = policy_of(curve, fraction)
    assert policy.fraction == pytest.approx(fraction, rel=0.012)
    assert policy.fraction == pytest.approx(policy.probability * (x > policy.after_ms).mean())
    assert curve.moments(policy)[1] <= 1.1 * curve.hull_at(fraction)


def test_moments_at_the_points_are_those_of_their_policies() -> None:
    curve = reissue_curve(slow_mode()[:20_000])
    assert (curve.coin[1:] < 1).any()
    for i in range(1, len(curve.fraction)):
        policy = Reissue(after_ms=float(curve.after_ms[i]), probability=float(curve.coin[i]))
        mean, variance = curve.moments(policy)
        assert mean == pytest.approx(curve.mean_ms[i])
        assert variance == pytest.approx(curve.variance[i])


def test_refuses_unknown_policies_and_correlations() -> None:
    for bad in ({"policies": ("twice",)}, {"policies": ()}, {"correlation": 1.0}, {"correlation": -0.1}):
        with pytest.raises(InputError):
            reissue_curve(np.arange(1.0, 10.0), **bad)
