"""Tails and calibration of errors, compared with loops over single errors and with distributions of SciPy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.stats import norm, t as student

from kwiken.allocator.workloads.completion.tails import (
    MAX_NARROWING,
    MIN_NARROWING,
    NORMAL_TAILS,
    ErrorTails,
    calibration,
    fitted_tails,
)
from kwiken.base.arrays import Floats, Ints

HALF = float(norm.ppf(0.95))  # width of a 90% interval to one side, in deviations


def independent(beyond: list[list[float]], groups: list[int]) -> float:
    """Number of independent entries whose mean varies as much as the means of the groups tell."""
    entries = sum(len(row) for row in beyond)
    mean = sum(map(sum, beyond)) / entries
    excess = dict.fromkeys(groups, 0.0)
    for row, group in zip(beyond, groups, strict=True):
        excess[group] += sum(one - mean for one in row)
    count = len(excess)
    variance = sum(one**2 for one in excess.values()) / entries**2 * count / (count - 1)
    found = mean * (1 - mean) / variance if variance else math.inf
    return min(max(found, count), entries)


def size_of_errors(missed: Floats, deviation: Floats, groups: Ints, share: float) -> float:
    """Size of errors, in deviations, below which a share of new errors is expected."""
    sizes: list[list[float]] = (np.abs(missed) / deviation).tolist()
    ordered = sorted(one for row in sizes for one in row)

    def read(part: float) -> float:
        place = part * (len(ordered) - 1)
        low = min(math.floor(place), len(ordered) - 2)
        return ordered[low] + (place - low) * (ordered[low + 1] - ordered[low])

    bound = read(share)
    count = independent([[float(one > bound) for one in row] for row in sizes], groups.tolist())
    return read(min((share * (count + 1) - 1) / (count - 1), 1.0))


def errors(seed: int, *, shape: str = "normal") -> tuple[Floats, Floats, Ints]:
    """Errors of 40 rows in 13 groups, partly common to a group, with their deviations."""
    rng = np.random.default_rng(seed)
    groups = rng.permutation(np.arange(40) % 13)
    together = rng.normal(size=(13, 1))[groups] * rng.random()
    deviation = rng.choice([0.125, 0.25, 0.5], (40, 4))  # so that ratios are exact
    sizes = {
        "normal": together + rng.normal(size=(40, 4)),
        "heavy": together + rng.standard_t(2.5, (40, 4)),
        "mostly small": rng.normal(size=(40, 4)) * np.where(rng.random((40, 4)) < 0.75, 1e-3, 1.0),
        "two sizes": rng.choice([1.0, 1.25], (40, 4)),
    }[shape]
    return sizes * deviation, deviation, groups * 7


@pytest.mark.parametrize("shape", ["normal", "heavy", "mostly small", "two sizes"])
@pytest.mark.parametrize("seed", range(4))
def test_intervals_cover_the_shares_that_errors_in_groups_tell(seed: int, shape: str) -> None:
    missed, deviation, groups = errors(seed, shape=shape)
    inner, unit, *outer = (
        size_of_errors(missed, deviation, groups, share) for share in (0.68, 0.9, 0.95, 0.99)
    )
    assert calibration(missed, deviation, groups) == pytest.approx(unit / HALF)
    freedoms = [2.0, 2.5, 3.0, 4.0, 5.0, 7.0, 10.0, 20.0, math.inf]
    quantiles = [norm.ppf if math.isinf(one) else student(one).ppf for one in freedoms]

    def apart(place: int) -> float:
        ppf = quantiles[place]
        told = [ppf((1 + share) / 2) / ppf(0.95) for share in (0.95, 0.99)]
        return sum(abs(math.log(one) - math.log(size / unit)) for one, size in zip(told, outer, strict=True))

    best = min(range(len(freedoms)), key=apart)
    expected = math.log(inner / unit) / math.log(quantiles[best](0.84) / quantiles[best](0.95))
    found = fitted_tails(missed, deviation, groups)
    assert found.freedom == freedoms[best]
    assert found.narrowing == pytest.approx(min(max(expected, MIN_NARROWING), MAX_NARROWING))
    if shape in {"mostly small", "two sizes"}:  # no exponent in between
        assert found.narrowing == (MAX_NARROWING if shape == "mostly small" else MIN_NARROWING)


@given(st.integers(0, 1000), st.sampled_from(["normal", "heavy"]), st.floats(0.5, 2.0))
def test_only_ratios_of_errors_to_deviations_count(seed: int, shape: str, factor: float) -> None:
    missed, deviation, groups = errors(seed, shape=shape)
    order = np.random.default_rng(seed).permutation(len(missed))
    columns = np.random.default_rng(seed).permutation(missed.shape[1])
    turned = missed[order][:, columns], deviation[order][:, columns]
    scale, tails = calibration(missed, deviation, groups), fitted_tails(missed, deviation, groups)
    assert calibration(*turned, -groups[order]) == pytest.approx(scale)
    assert calibration(-factor * missed, factor * deviation, groups) == pytest.approx(scale)
    assert calibration(missed, factor * deviation, groups) == pytest.approx(scale / factor)
    again = fitted_tails(factor * turned[0], turned[1], groups[order])
    assert again.freedom == tails.freedom
    assert again.narrowing == pytest.approx(tails.narrowing)


@pytest.mark.parametrize("freedom", [1.0, 3.0, math.inf])
@pytest.mark.parametrize("narrowing", [0.3, 0.5, 1.0, 2.0, 3.0])
def test_quantiles_are_bent_inside_the_90_percent_interval_alone(freedom: float, narrowing: float) -> None:
    tails, heavy = ErrorTails(freedom, narrowing), norm if math.isinf(freedom) else student(freedom)
    for probability in (0.51, 0.6, 0.9, 0.949, 0.951, 0.97, 0.995):
        straight = heavy.ppf(probability) / heavy.ppf(0.95)
        expected = HALF * (straight**narrowing if probability < 0.95 else straight)
        assert tails.deviations_at(probability) == pytest.approx(expected)
        assert tails.deviations_at(1 - probability) == pytest.approx(-expected)
        assert tails.probability_below(expected) == pytest.approx(probability)
    assert tails.probability_below(0.0) == 0.5


@pytest.mark.parametrize("fields", [{"freedom": 0.999}, {"narrowing": 0.299}, {"narrowing": 3.001}])
def test_tails_just_out_of_range_are_refused(fields: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(fields))} must be"):
        ErrorTails(**fields)


def test_tails_are_normal_by_default() -> None:
    assert ErrorTails() == NORMAL_TAILS
    for probability in (0.2, 0.7, 0.99):
        assert NORMAL_TAILS.deviations_at(probability) == pytest.approx(norm.ppf(probability))


def test_errors_mostly_of_size_zero_have_normal_tails() -> None:
    missed = np.zeros((40, 1))
    missed[:8] = 1.0  # so that 68 of 100 are 0, and 90 are not
    ones, groups = np.ones_like(missed), np.arange(40)
    assert calibration(missed, ones, groups) == pytest.approx(1 / HALF)
    assert fitted_tails(missed, ones, groups) == NORMAL_TAILS


def test_a_quantile_of_few_errors_is_read_at_a_larger_share() -> None:
    """Of 19 errors, 0 to 18 deviations, 90% of new ones are below place 18 of 20, the eighteenth error."""
    missed = np.arange(19.0)[:, None]
    assert calibration(missed, np.ones_like(missed), np.arange(19)) == pytest.approx(17.0 / HALF)
    # In groups of which each has one error of every kind, all of them tell the share: place 36.9 of 41.
    pairs = np.array([np.arange(20.0), np.arange(20.0) + 0.5])
    assert calibration(pairs, np.ones_like(pairs), np.arange(2)) == pytest.approx(0.5 * 35.9 / HALF)


def test_an_error_at_the_quantile_itself_is_not_beyond_it() -> None:
    """Of 21 errors, 90 of 100 are up to the nineteenth: the two beyond are of one of seven groups.

    They vary as much as 9.5 independent errors; three beyond would vary as much as 6, fewer than the groups.
    """
    missed, groups = np.arange(21.0)[:, None], np.arange(21) // 3
    mean = 2 / 21
    spread = ((2 - 3 * mean) ** 2 + 6 * (3 * mean) ** 2) / 21**2 * 7 / 6
    count = mean * (1 - mean) / spread
    place = 20 * (0.9 * (count + 1) - 1) / (count - 1)
    assert calibration(missed, np.ones_like(missed), groups) == pytest.approx(place / HALF)
