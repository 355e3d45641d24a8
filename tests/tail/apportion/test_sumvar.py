"""SumVar against exhaustive search, its invariants, and its baselines."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, strategies as st

from kwiken.base.arrays import Floats
from kwiken.base.errors import InputError
from kwiken.tail.apportion.sum_of_variances import equal_budget, sumvar, uniform_fraction
from kwiken.tail.curves.curve import lower_hull, reissue_curve


@dataclass(frozen=True)
class Hulled:
    fraction: Floats
    hull: Floats

    def at(self, r: float) -> float:
        return float(np.interp(r, self.fraction, self.hull))


def hulled(heights: list[float]) -> Hulled:
    x = np.linspace(0, 1, len(heights))
    return Hulled(x, lower_hull(x, np.array(heights))[0])


CURVES = st.lists(st.lists(st.floats(0, 100), min_size=2, max_size=6).map(hulled), min_size=1, max_size=4)


def normalised(costs: list[float], names: list[str]) -> dict[str, float]:
    return {name: cost / sum(costs) for name, cost in zip(names, costs, strict=True)}


def problem(curves: list[Hulled], costs: list[float]) -> tuple[dict[str, Hulled], dict[str, float]]:
    named = {f"s{i}": curve for i, curve in enumerate(curves)}
    return named, normalised((costs * len(named))[: len(named)], list(named))


@given(CURVES, st.lists(st.floats(0.01, 10), min_size=4, max_size=4), st.floats(0, 1))
def test_stays_within_budget_and_bounds(curves: list[Hulled], costs: list[float], budget: float) -> None:
    named, shares = problem(curves, costs)
    for spread in (sumvar, equal_budget, uniform_fraction):
        result = spread(named, shares, budget)
        assert result.spent <= budget * (1 + 1e-9)
        assert all(0 <= r <= 1 for r in result.fractions.values())
        assert result.spent == pytest.approx(sum(shares[n] * r for n, r in result.fractions.items()))
        for name, gain in result.gains.items():
            fall = named[name].at(0) - named[name].at(result.fractions[name])
            assert gain == pytest.approx(fall, abs=1e-6)


@given(CURVES, st.lists(st.floats(0.05, 10), min_size=4, max_size=4), st.floats(0.01, 1))
def test_is_optimal_up_to_one_chunk_per_stage(
    curves: list[Hulled], costs: list[float], budget: float
) -> None:
    named, shares = problem(curves, costs)
    names = list(named)
    result = sumvar(named, shares, budget)
    best = 0.0
    steps = 8
    for split in itertools.product(range(steps + 1), repeat=len(names)):
        if sum(split) > steps:
            continue
        given_r = [min(1.0, budget * k / steps / shares[n]) for k, n in zip(split, names, strict=True)]
        best = max(best, sum(named[n].at(0) - named[n].at(r) for n, r in zip(names, given_r, strict=True)))
    chunk = budget / (3 * len(names))
    slack = sum(
        max(named[n].at(r) - named[n].at(min(1.0, r + chunk / shares[n])) for r in np.linspace(0, 1, 101))
        for n in names
    )
    assert sum(result.gains.values()) >= best - slack - 1e-6


@given(CURVES, st.lists(st.floats(0.05, 10), min_size=4, max_size=4), st.floats(0.01, 0.5))
def test_more_budget_never_buys_less(curves: list[Hulled], costs: list[float], budget: float) -> None:
    named, shares = problem(curves, costs)
    less, more = sumvar(named, shares, budget), sumvar(named, shares, budget * 2)
    chunk = 2 * budget / (3 * len(named))
    slack = max(named[n].at(0) - named[n].at(min(1.0, chunk / shares[n])) for n in named)
    assert sum(more.gains.values()) >= sum(less.gains.values()) - slack - 1e-6


def test_identical_stages_get_the_same() -> None:
    curve = reissue_curve(np.random.default_rng(0).lognormal(0, 1, 2000))
    result = sumvar(dict.fromkeys("abcdefgh", curve), dict.fromkeys("abcdefgh", 1 / 8), 0.05)
    chunk = 0.05 / (3 * 8) * 8
    rates = list(result.fractions.values())
    assert max(rates) - min(rates) <= chunk * (1 + 1e-9)
    assert result.spent == pytest.approx(0.05)


def test_scaling_all_costs_with_the_budget_changes_nothing() -> None:
    curves = {n: reissue_curve(np.random.default_rng(i).lognormal(0, 1, 500)) for i, n in enumerate("abc")}
    one = sumvar(curves, {"a": 0.2, "b": 0.3, "c": 0.5}, 0.05)
    many = sumvar(curves, {"a": 2, "b": 3, "c": 5}, 0.5)
    assert one.fractions == pytest.approx(many.fractions)


def test_a_stage_without_variance_gets_nothing() -> None:
    curves = {"still": reissue_curve(np.full(100, 5.0)), "lively": reissue_curve(np.arange(100.0))}
    result = sumvar(curves, {"still": 0.5, "lively": 0.5}, 0.1)
    assert result.fractions["still"] == 0
    assert result.fractions["lively"] == pytest.approx(0.2)
    assert result.marginal["still"] == 0
    assert result.marginal["lively"] > 0


def test_of_two_like_stages_the_cheap_one_gets_more() -> None:
    curve = reissue_curve(np.random.default_rng(1).lognormal(0, 1, 2000))
    result = sumvar({"cheap": curve, "dear": curve}, {"cheap": 0.1, "dear": 0.9}, 0.05)
    assert result.fractions["cheap"] >= result.fractions["dear"]


def test_a_time_out_atom_does_not_starve_a_stage() -> None:
    rng = np.random.default_rng(2)
    capped = np.minimum(rng.lognormal(1, 1, 10_000), np.exp(1 + 1.88))
    assert 0.02 < (capped == capped.max()).mean() < 0.04
    curves = {"capped": reissue_curve(capped), "calm": reissue_curve(rng.lognormal(0, 0.3, 10_000))}
    assert sumvar(curves, {"capped": 0.5, "calm": 0.5}, 0.01).fractions["capped"] > 0.01


def test_budget_that_buys_everything_stops_at_one() -> None:
    curves = {n: reissue_curve(np.random.default_rng(i).exponential(1, 200)) for i, n in enumerate("ab")}
    result = sumvar(curves, {"a": 0.5, "b": 0.5}, 1.0)
    assert result.fractions == {"a": 1.0, "b": 1.0}
    assert result.spent == pytest.approx(1.0)


def test_no_budget_or_no_stage_gives_nothing() -> None:
    curve = reissue_curve(np.arange(10.0))
    assert sumvar({"a": curve}, {"a": 1.0}, 0.0).fractions == {"a": 0.0}
    assert sumvar({}, {}, 0.1).fractions == {}
    assert equal_budget({}, {}, 0.1).spent == 0
    assert uniform_fraction({}, {}, 0.1).spent == 0


def test_weights_shift_the_budget() -> None:
    curve = reissue_curve(np.random.default_rng(3).lognormal(0, 1, 2000))
    curves, costs = {"a": curve, "b": curve}, {"a": 0.5, "b": 0.5}
    result = sumvar(curves, costs, 0.05, weights={"b": 5.0})
    assert result.fractions["b"] > 2 * result.fractions["a"]


def test_the_path_records_every_step() -> None:
    curves = {n: reissue_curve(np.random.default_rng(i).exponential(1, 500)) for i, n in enumerate("abc")}
    result = sumvar(curves, dict.fromkeys("abc", 1 / 3), 0.06)
    spent = [step[2] for step in result.path]
    assert spent == sorted(spent)
    assert spent[-1] == pytest.approx(result.spent)
    assert {name: r for name, r, _ in result.path} == {n: r for n, r in result.fractions.items() if r}


def test_equal_budget_hands_on_what_a_cheap_stage_cannot_use() -> None:
    curve = reissue_curve(np.arange(100.0))
    result = equal_budget({"tiny": curve, "large": curve}, {"tiny": 0.01, "large": 0.99}, 0.1)
    assert result.fractions["tiny"] == 1.0
    assert result.fractions["large"] == pytest.approx(0.09 / 0.99)
    assert result.spent == pytest.approx(0.1)


def test_uniform_fraction_is_the_same_everywhere() -> None:
    curve = reissue_curve(np.arange(100.0))
    result = uniform_fraction({"a": curve, "b": curve}, {"a": 0.2, "b": 0.3}, 0.1)
    assert result.fractions == {"a": pytest.approx(0.2), "b": pytest.approx(0.2)}


@pytest.mark.parametrize("budget", [-0.1, math.nan, math.inf])
def test_refuses_a_bad_budget(budget: float) -> None:
    with pytest.raises(InputError, match="budget"):
        sumvar({"a": reissue_curve(np.arange(9.0))}, {"a": 1.0}, budget)


@pytest.mark.parametrize("costs", [{}, {"a": 0.0}, {"a": -1.0}, {"a": math.nan}])
def test_refuses_a_bad_cost_and_names_the_stage(costs: dict[str, float]) -> None:
    with pytest.raises(InputError, match="'a'"):
        sumvar({"a": reissue_curve(np.arange(9.0))}, costs, 0.1)
