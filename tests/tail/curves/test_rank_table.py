"""Rank table: equal to bisection, and curves computed with it equal to the direct formula."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from kwiken.base.arrays import Floats
from kwiken.tail.curves.curve import GRID, reissue_curve
from kwiken.tail.curves.fan_out import MAX_VALUES_PER_BUCKET, MIN_VALUES_FOR_TABLE, Ranks

COUNT = 3000
assert COUNT > MIN_VALUES_FOR_TABLE


def _distributions() -> dict[str, Floats]:
    rng = np.random.default_rng(11)
    return {
        "log-normal": rng.lognormal(3, 1, COUNT),
        "heavy": rng.pareto(1.1, COUNT),
        "uniform": rng.random(COUNT),
        "far from 0": 1e6 + rng.random(COUNT),
        "two modes": np.concatenate((rng.normal(5, 0.1, COUNT // 2), rng.normal(900, 3, COUNT // 2))),
        "a few at 0": np.concatenate((np.zeros(10), rng.lognormal(0, 2, COUNT))),
    }


LAWS = _distributions()


class TestRanks:
    @pytest.mark.parametrize("name", [name for name in LAWS if name != "two modes"])
    def test_ranks_equal_those_of_bisection(self, name: str) -> None:
        values = np.sort(LAWS[name])
        table = Ranks.of(values)
        assert table is not None
        rng = np.random.default_rng(1)
        numbers = np.concatenate(
            (values, np.nextafter(values, np.inf), rng.random(COUNT) * values[-1] * 2, [0.0, 1e300])
        )
        np.testing.assert_array_equal(table.below(numbers), values.searchsorted(numbers))

    @given(st.integers(0, 2**32 - 1), st.floats(-6, 6), st.floats(0.01, 4), st.integers(1, 6))
    def test_at_any_scale_and_with_ties(self, seed: int, scale: float, spread: float, digits: int) -> None:
        rng = np.random.default_rng(seed)
        values = np.sort(np.round(rng.lognormal(scale, spread, COUNT), digits))
        numbers = np.round(rng.lognormal(scale, spread, COUNT), digits)
        table = Ranks.of(values)
        if table is not None:
            np.testing.assert_array_equal(table.below(numbers), values.searchsorted(numbers))

    def test_none_where_bisection_is_as_good(self) -> None:
        few = np.arange(1.0, MIN_VALUES_FOR_TABLE)
        tied = np.repeat(np.arange(1.0, 200.0), MAX_VALUES_PER_BUCKET + 1)
        assert Ranks.of(few) is None
        assert Ranks.of(tied) is None
        assert Ranks.of(np.zeros(COUNT)) is None
        assert Ranks.of(np.sort(LAWS["two modes"])) is None
        assert Ranks.of(np.linspace(1.0, 1.7e308, COUNT)) is None


class TestCurves:
    @pytest.mark.parametrize("name", LAWS)
    def test_as_every_pair_of_call_and_copy_says(self, name: str) -> None:
        calls = LAWS[name][:: max(1, len(LAWS[name]) // COUNT)]
        curve = reissue_curve(calls, policies=("single",))
        for at in range(0, len(curve.fraction), 3):
            mean, square = _by_pairs(calls, float(curve.after_ms[at]), float(curve.coin[at]))
            assert curve.mean_ms[at] == pytest.approx(mean, rel=1e-12)
            variance = square - mean * mean
            assert curve.variance[at] == pytest.approx(variance, rel=1e-9, abs=1e-12 * square)

    def test_fan_outs_follow_the_distribution_of_the_slowest(self) -> None:
        rng = np.random.default_rng(5)
        calls = rng.lognormal(1, 1, (COUNT, 2))
        curve = reissue_curve(calls, policies=("single",))
        distribution = np.sort(calls.ravel())
        for at in range(1, len(curve.fraction), 7):
            age, chance = float(curve.after_ms[at]), float(curve.coin[at])
            mean, square = _slowest_of_two(calls[:200], distribution, age, chance)
            some = reissue_curve(calls[:200], curve.distribution, policies=("single",))
            got = some.races.moments(np.array([age]), chance)
            assert got[0][0] == pytest.approx(mean, rel=1e-6)
            assert got[1][0] == pytest.approx(square, rel=1e-6)

    def test_the_whole_grid_is_there(self) -> None:
        assert len(reissue_curve(LAWS["log-normal"]).fraction) == len(GRID)


def _by_pairs(calls: Floats, age: float, chance: float) -> tuple[float, float]:
    """Mean and mean square over all pairs of a call and a copy."""
    if not np.isfinite(age):
        return float(calls.mean()), float((calls**2).mean())
    one = two = 0.0
    for x in calls.tolist():
        if x <= age:
            one, two = one + x, two + x * x
            continue
        ends = np.minimum(x, age + calls)
        one += (1 - chance) * x + chance * float(ends.mean())
        two += (1 - chance) * x * x + chance * float((ends * ends).mean())
    return one / len(calls), two / len(calls)


def _slowest_of_two(calls: Floats, distribution: Floats, age: float, chance: float) -> tuple[float, float]:
    """The same for two shards, by the distribution of each one's end on the distribution's own steps."""
    one = two = 0.0
    for row in calls.tolist():
        ends = [_distribution_of_end(x, distribution, age, chance) for x in row]
        at = np.unique(np.concatenate([values for values, _ in ends]))
        cdf = np.ones(len(at))
        for values, mass in ends:
            cdf *= np.concatenate(([0.0], np.cumsum(mass)))[np.searchsorted(values, at, side="right")]
        weight = np.diff(cdf, prepend=0.0)
        one, two = one + float(weight @ at), two + float(weight @ (at * at))
    return one / len(calls), two / len(calls)


def _distribution_of_end(x: float, distribution: Floats, age: float, chance: float) -> tuple[Floats, Floats]:
    if x <= age:
        return np.array([x]), np.ones(1)
    ends = np.append(np.minimum(x, age + distribution), x)
    mass = np.append(np.full(len(distribution), chance / len(distribution)), 1 - chance)
    order = np.argsort(ends, kind="stable")
    return ends[order], mass[order]
