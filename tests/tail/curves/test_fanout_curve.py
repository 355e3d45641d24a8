"""Moments of a fan-out's slowest call, against enumeration and sampling."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, strategies as st

from kwiken.base.arrays import Floats
from kwiken.model.profile.distribution import EmpiricalDistribution
from kwiken.tail.curves.curve import reissue_curve
from kwiken.tail.curves.fan_out import RankedCalls, slowest_moments


def outcomes(
    row: Floats, distribution: Floats, age: float, probability: float
) -> Iterator[tuple[float, float]]:
    """Every (probability, slowest call) of one request: each late call has no copy, or one of the distribution's."""
    options = []
    for call in row[~np.isnan(row)]:
        if call <= age:
            options.append([(1.0, call)])
            continue
        raced = [(probability / len(distribution), min(call, age + copy)) for copy in distribution]
        options.append([(1 - probability, call), *raced])
    for combination in itertools.product(*options):
        yield float(np.prod([p for p, _ in combination])), max((z for _, z in combination), default=0.0)


def enumerated(calls: Floats, distribution: Floats, age: float, probability: float) -> tuple[float, float]:
    pairs = [pair for row in calls for pair in outcomes(row, distribution, age, probability)]
    return sum(p * z for p, z in pairs) / len(calls), sum(p * z * z for p, z in pairs) / len(calls)


CALLS = st.lists(
    st.lists(st.one_of(st.integers(0, 9).map(float), st.just(float("nan"))), min_size=3, max_size=3),
    min_size=1,
    max_size=4,
)


@given(CALLS, st.lists(st.integers(0, 9).map(float), min_size=1, max_size=4), st.integers(0, 9))
@pytest.mark.parametrize("probability", [1.0, 0.3])
def test_moments_are_exact(
    probability: float, calls: list[list[float]], copies: list[float], age: int
) -> None:
    matrix, distribution = np.array(calls), np.sort(np.array(copies))
    if np.isnan(matrix).all():
        matrix[0, 0] = 1.0
    mean, square = slowest_moments(
        RankedCalls.of(matrix),
        EmpiricalDistribution(distribution),
        np.array([float(age)]),
        probability=probability,
    )
    want_mean, want_square = enumerated(matrix, distribution, float(age), probability)
    assert mean[0] == pytest.approx(want_mean, rel=1e-9, abs=1e-12)
    assert square[0] == pytest.approx(want_square, rel=1e-9, abs=1e-12)


def test_a_weighted_distribution_of_copies_is_exact() -> None:
    calls = np.array([[5.0, 7.0], [2.0, 9.0]])
    plain = EmpiricalDistribution(np.array([1.0, 1.0, 1.0, 4.0]))
    weighted = EmpiricalDistribution(np.array([1.0, 4.0]), np.array([0.75, 0.25]))
    ages = np.array([0.0, 2.0, 6.0, np.inf])
    for a, b in zip(
        slowest_moments(RankedCalls.of(calls), plain, ages),
        slowest_moments(RankedCalls.of(calls), weighted, ages),
        strict=True,
    ):
        assert np.allclose(a, b)


def test_agrees_with_sampling_at_width_eight() -> None:
    rng = np.random.default_rng(0)
    # Shards share their request's size, so rows are far from independent.
    calls = rng.lognormal(0, 0.8, (500, 8)) * rng.lognormal(0, 0.5, (500, 1))
    curve = reissue_curve(calls)
    for i in (3, 9, 15, 23):
        age = curve.after_ms[i]
        copies = rng.choice(calls.ravel(), (400, *calls.shape))
        raced = np.where(calls > age, np.minimum(calls, age + copies), calls).max(axis=2)
        assert curve.mean_ms[i] == pytest.approx(raced.mean(), rel=0.01)
        assert curve.variance[i] == pytest.approx(raced.var(), rel=0.03)


def test_width_one_is_the_single_call() -> None:
    x = np.random.default_rng(1).lognormal(0, 1, 1000)
    flat, column = reissue_curve(x), reissue_curve(x[:, None])
    padded = reissue_curve(np.stack([x, np.full(1000, np.nan)], axis=1))
    for other in (column, padded):
        assert np.allclose(flat.variance, other.variance, rtol=1e-12)
        assert np.allclose(flat.fraction, other.fraction)


def test_without_reissue_it_is_the_variance_of_the_slowest_shard() -> None:
    calls = np.random.default_rng(2).exponential(1, (2000, 16))
    curve = reissue_curve(calls)
    assert curve.mean_ms[0] == pytest.approx(calls.max(axis=1).mean())
    assert curve.variance[0] == pytest.approx(calls.max(axis=1).var())


def test_fraction_counts_shard_calls_not_requests() -> None:
    calls = np.random.default_rng(3).exponential(1, (1000, 10))
    policy = reissue_curve(calls).policy(0.05)
    assert policy is not None
    assert (calls > policy.after_ms).mean() == pytest.approx(0.05)
    assert (calls > policy.after_ms).any(axis=1).mean() > 0.3


def test_reissuing_more_never_lengthens_the_mean() -> None:
    calls = np.random.default_rng(4).lognormal(0, 1, (500, 20))
    assert (np.diff(reissue_curve(calls).mean_ms) < 1e-12).all()


def test_large_fan_outs_are_bounded_and_still_right(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    calls = rng.lognormal(0, 0.5, (3000, 40))
    exact = reissue_curve(calls)
    monkeypatch.setattr("kwiken.tail.curves.fan_out.MAX_CALLS", 60_000)
    monkeypatch.setattr("kwiken.tail.curves.fan_out.MAX_VALUES", 4000)
    ranked = RankedCalls.of(calls)
    assert sum(len(column) for column in ranked.columns) <= 60_000
    rough = reissue_curve(calls)
    assert np.allclose(rough.variance / exact.variance, 1, atol=0.15)
    assert np.allclose(rough.mean_ms / exact.mean_ms, 1, atol=0.01)


def test_thinned_pool_keeps_mean_weight_and_the_slow_end() -> None:
    values = np.sort(np.random.default_rng(6).lognormal(0, 1, 10_000))
    thin = EmpiricalDistribution(values).thinned(1000)
    assert len(thin) <= 1001
    assert thin.weights is not None
    assert thin.weights.sum() == pytest.approx(1)
    assert thin.values @ thin.weights == pytest.approx(values.mean())
    assert np.array_equal(thin.values[-500:], values[-500:])
    assert (np.diff(thin.values) >= 0).all()


@pytest.mark.parametrize("age", [0.0, 2.0, 6.0])
def test_ranks_that_hardly_any_copies_reach_are_left_out_without_a_trace(age: float) -> None:
    """400 shards, of which only the first hundred or so ranks count; the whole sum by the distribution of the max."""
    rng = np.random.default_rng(5)
    calls = rng.exponential(1.0, (16, 400))
    distribution = EmpiricalDistribution.of(calls)
    ends = np.unique(np.concatenate((calls.ravel(), age + distribution.values)))
    upto = np.ones(len(ends))
    mean = square = 0.0
    passed = 1.0 - distribution.tail(ends - age + 1e-9)  # share of copies over by then, whatever was rounded
    for row in calls:
        late = (row[None, :] > ends[:, None]).sum(axis=1)
        upto = np.where((ends < age) & (late > 0), 0.0, passed**late)
        step = np.diff(upto, prepend=0.0)
        mean += float((step * ends).sum()) / len(calls)
        square += float((step * ends * ends).sum()) / len(calls)
    found = slowest_moments(RankedCalls.of(calls), distribution, np.array([age]))
    assert found[0][0] == pytest.approx(mean, rel=1e-12)
    assert found[1][0] == pytest.approx(square, rel=1e-12)
