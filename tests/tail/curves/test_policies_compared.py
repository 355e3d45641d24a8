"""Reissue policies at equal cost: published anchors, and invariants of every policy."""

from __future__ import annotations

import numpy as np
import pytest

from kwiken.base.arrays import Floats
from kwiken.base.errors import InputError
from kwiken.model.profile.distribution import EmpiricalDistribution
from papers.kwiken.policies_compared import compare_policies, faster_of_two, staggered


def distributions() -> dict[str, Floats]:
    rng = np.random.default_rng(0)
    n = 100_000
    even = (np.arange(n) + 0.5) / n
    slow = rng.lognormal(0, 0.3, n) * np.where(rng.random(n) < 0.02, 20.0, 1.0)
    return {"log-normal": rng.lognormal(0, 1, n), "slow mode": slow, "exponential": -np.log1p(-even)}


@pytest.mark.parametrize(
    ("distribution", "fraction", "single", "double", "immediate"),
    [
        ("log-normal", 0.05, 0.483, 0.556, 0.964),
        ("slow mode", 0.05, 0.032, 0.021, 0.954),
        ("exponential", 0.2, 0.568, 0.643, 0.890),
    ],
)
def test_anchors_at_equal_cost(
    distribution: str, fraction: float, single: float, double: float, immediate: float
) -> None:
    found = {
        name: float(values[0])
        for name, values in compare_policies(distributions()[distribution], [fraction]).items()
    }
    assert found["single"] == pytest.approx(single, abs=0.03)
    assert found["double"] == pytest.approx(double, abs=0.03)
    assert found["immediate"] == pytest.approx(immediate, abs=0.03)


def test_more_freedom_is_never_worse() -> None:
    for calls in distributions().values():
        found = compare_policies(calls[:20_000], [0.005, 0.01, 0.05, 0.2])
        assert (found["single_r"] <= found["single"] + 1e-9).all()
        assert (found["single_r"] <= found["immediate"] + 0.002).all()
        assert (found["double_r"] <= found["single_r"] + 1e-9).all()


def test_a_coin_saves_tiny_budgets_from_a_rare_slow_mode() -> None:
    found = compare_policies(distributions()["slow mode"], [0.01])
    assert float(found["single"][0]) == pytest.approx(0.717, abs=0.03)
    assert float(found["single_r"][0]) == pytest.approx(0.528, abs=0.03)


def test_distributions_of_two_copies_match_sampling() -> None:
    rng = np.random.default_rng(1)
    distribution = EmpiricalDistribution.of(rng.exponential(3, 2000))
    first, second = distribution.draw(rng, 200_000), distribution.draw(rng, 200_000)
    for either, drawn in (
        (faster_of_two(distribution), np.minimum(first, second)),
        (staggered(distribution, 2.0), np.minimum(first, 2.0 + second)),
    ):
        assert either.mass.sum() == pytest.approx(1)
        assert (either.mass >= -1e-12).all()
        assert either.mass @ either.values == pytest.approx(drawn.mean(), rel=0.01)
        assert np.interp(2.5, either.values, either.cdf) == pytest.approx((drawn <= 2.5).mean(), abs=0.01)


@pytest.mark.parametrize("bad", [[], [0.0], [1.5], [float("nan")]])
def test_refuses_costs_that_are_no_shares(bad: list[float]) -> None:
    with pytest.raises(InputError):
        compare_policies(np.arange(1.0, 50.0), bad)


def test_refuses_calls_that_do_not_vary() -> None:
    with pytest.raises(InputError):
        compare_policies(np.full(50, 3.0), [0.05])
