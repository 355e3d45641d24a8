"""Empirical distributions of calls: quantiles, draws, and the Kaplan-Meier estimate of cancelled calls."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, strategies as st

from kwiken.model.profile.distribution import EmpiricalDistribution, kaplan_meier
from kwiken.model.profile.profile import Profile, StageProfile, complete_calls

StageOf = Callable[..., StageProfile]
ProfileOf = Callable[..., Profile]


def test_product_limit_by_hand() -> None:
    # Six calls, cut at 3 and 6: S(1) = 5/6, S(2) = 4/6, S(4) = 4/6 * 2/3, S(5) = 4/6 * 1/3.
    times = np.array([1.0, 2, 3, 4, 5, 6])
    cut = np.array([False, False, True, False, False, True])
    distribution = kaplan_meier(times, cut)
    assert distribution.values.tolist() == [1, 2, 4, 5, 6]
    assert np.allclose(distribution.mass, [1 / 6, 1 / 6, 4 / 18, 4 / 18, 4 / 18])


def test_a_call_that_ends_where_another_is_cut_comes_first() -> None:
    distribution = kaplan_meier(np.array([2.0, 2.0]), np.array([True, False]))
    assert distribution.values.tolist() == [2, 2]
    assert np.allclose(distribution.mass, [0.5, 0.5])


@given(st.lists(st.tuples(st.floats(0, 100), st.booleans()), min_size=1, max_size=50))
def test_weights_sum_to_one(calls: list[tuple[float, bool]]) -> None:
    distribution = kaplan_meier(np.array([c[0] for c in calls]), np.array([c[1] for c in calls]))
    assert distribution.mass.sum() == pytest.approx(1)
    assert distribution.mass.min() > 0
    assert distribution.cdf[-1] == 1
    assert (np.diff(distribution.values) >= 0).all()


def test_without_censoring_the_distribution_is_the_sample(stage_of: StageOf) -> None:
    x = np.random.default_rng(0).exponential(1, 500)
    distribution = stage_of("a", x).distribution
    assert distribution.weights is None
    assert np.array_equal(distribution.values, np.sort(x))
    assert np.allclose(kaplan_meier(x, np.zeros(500, dtype=bool)).mass, 1 / 500)


def test_cancelled_calls_do_not_pull_the_tail_down(stage_of: StageOf) -> None:
    # Copies sent at p90 cancel the slow calls: the winners alone would suggest a maximum near p95.
    rng = np.random.default_rng(1)
    true = rng.lognormal(0, 1, 200_000)
    age = np.quantile(true, 0.9)
    end = age + rng.lognormal(0, 1, 200_000)
    cut = true > end
    seen = np.minimum(true, end)
    stage = stage_of("a", seen, censored=cut)
    distribution = stage.distribution
    for share in (0.5, 0.95, 0.99):
        assert distribution.quantile(np.array([share]))[0] == pytest.approx(np.quantile(true, share), rel=0.1)
    winners = np.quantile(seen[~cut], 0.99)
    assert winners < 0.9 * np.quantile(true, 0.99)
    filled = complete_calls(stage, distribution, np.random.default_rng(2))[:, 0]
    assert (filled[cut] >= seen[cut]).all()
    assert np.array_equal(filled[~cut], seen[~cut])
    assert np.quantile(filled, 0.99) == pytest.approx(np.quantile(true, 0.99), rel=0.1)


def test_calls_cut_beyond_every_end_stay_at_their_bound(stage_of: StageOf) -> None:
    stage = stage_of("a", [1.0, 2.0, 9.0], censored=np.array([False, False, True]))
    filled = complete_calls(stage, stage.distribution, np.random.default_rng(0))
    assert filled[:, 0].tolist() == [1, 2, 9]


def test_draws_follow_the_weights() -> None:
    distribution = EmpiricalDistribution(np.array([1.0, 5.0]), np.array([0.9, 0.1]))
    draws = distribution.draw(np.random.default_rng(3), 50_000)
    assert (draws == 5).mean() == pytest.approx(0.1, abs=0.01)
    assert set(draws.tolist()) == {1.0, 5.0}


def test_weighted_time_outs_agree_with_repeated_values() -> None:
    rng = np.random.default_rng(4)
    values, counts = np.sort(rng.exponential(1, 50)), rng.integers(1, 6, 50)
    repeated = EmpiricalDistribution(np.repeat(values, counts))
    weighted = EmpiricalDistribution(values, counts / counts.sum())
    wanted = np.array([0.0, 0.01, 0.05, 0.2, 0.5, 0.9, 1.0])
    a, b = repeated.time_outs(wanted), weighted.time_outs(wanted)
    assert np.array_equal(a.after_ms, b.after_ms)
    for outs in (a, b):
        assert np.allclose(outs.fraction, repeated.tail(outs.after_ms))
        assert (outs.fraction <= wanted + 1e-9).all()


LATENCIES = {
    "tied": st.lists(st.sampled_from([1.0, 2.0, 3.0, 40.0]), min_size=1, max_size=200),
    "bucketed": st.lists(st.floats(0, 100).map(lambda ms: 5.0 * round(ms / 5)), min_size=1, max_size=200),
    "constant": st.lists(st.just(7.0), min_size=1, max_size=50),
    "mixed": st.lists(st.one_of(st.just(10.0), st.floats(0, 1000)), min_size=1, max_size=200),
}


@pytest.mark.parametrize("kind", LATENCIES)
@given(data=st.data())
def test_time_outs_copy_at_most_the_share_and_no_earlier_age_would(kind: str, data: st.DataObject) -> None:
    calls = np.sort(data.draw(LATENCIES[kind]))
    wanted = data.draw(st.floats(0, 1))
    outs = EmpiricalDistribution(calls).time_outs(np.array([wanted]))
    late = float((calls > outs.after_ms[0]).mean())
    assert late == pytest.approx(outs.fraction[0])
    assert late <= wanted + 1e-9
    earlier = calls[calls < min(outs.after_ms[0], calls[-1])]
    assert not len(earlier) or float((calls > earlier[-1]).mean()) > wanted - 1e-9


def test_missing_calls_are_in_no_pool(stage_of: StageOf) -> None:
    distribution = stage_of("a", np.array([[1.0, np.nan], [np.nan, np.nan], [3.0, 2.0]])).distribution
    assert distribution.values.tolist() == [1, 2, 3]
