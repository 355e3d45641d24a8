"""Quality codes: the source's anchors, exact arithmetic, and the order of matches."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from papers.worlds.quality import (
    Shortfall,
    encode,
    falling_order,
    largest_code,
    match_quality,
    offered_quality,
    pressure_scores,
    quality_share,
)

SCORES = st.lists(st.integers(0, 99), min_size=10, max_size=10)


def test_the_example_of_the_source() -> None:
    assert encode([84, 31]) == 8431
    assert quality_share(8431, 2) == pytest.approx(8431 / 9999)
    assert encode([99] * 10) == largest_code(10) == 10**20 - 1
    assert encode([0] * 10) == 0


def test_the_tenth_digit_counts() -> None:
    """In floats of 64 bits the two are one number."""
    low, high = [90] * 9 + [1], [90] * 9 + [2]
    order = range(10)
    assert encode(low, order) < encode(high, order)
    assert float(encode(low, order)) == float(encode(high, order))


@given(SCORES, SCORES)
def test_codes_keep_the_order_of_digits(one: list[int], other: list[int]) -> None:
    one, other = sorted(one, reverse=True), sorted(other, reverse=True)
    assert (encode(one) > encode(other)) == (one > other)
    assert (encode(one) == encode(other)) == (one == other)


@given(SCORES, SCORES)
def test_enough_is_offered_where_the_pressure_stays_below_the_tolerance(
    caused: list[int], pressure: list[int]
) -> None:
    """In the order of the job, tolerance being 99 less what it causes (specification 6.2)."""
    order = falling_order(caused)
    met = [pressure[resource] for resource in order] <= [99 - caused[resource] for resource in order]
    assert (offered_quality(pressure, order) >= encode(caused, order)) == met


@given(st.integers(0, 10**20 - 1), st.integers(0, 10**20 - 1), st.sampled_from(Shortfall))
def test_every_unit_with_enough_ranks_before_every_one_without(
    offered: int, required: int, shortfall: Shortfall
) -> None:
    found = match_quality(offered, required, 10, shortfall)
    assert 0 <= found <= largest_code(10)
    assert (found >= required) if offered >= required else (found <= required)
    assert match_quality(required, required, 10, shortfall) == largest_code(10)


@given(st.tuples(st.integers(0, 9999), st.integers(0, 9999)), st.integers(0, 9999))
def test_monotone_matches_rise_below_the_demand_and_fall_above(
    offers: tuple[int, int], required: int
) -> None:
    low, high = sorted(offers)
    worse, better = match_quality(low, required, 2), match_quality(high, required, 2)
    if high < required:
        assert worse <= better
    if low >= required:
        assert worse >= better


def test_the_printed_branch_is_inverted() -> None:
    assert match_quality(30, 60, 1, Shortfall.PRINTED) == 30
    assert match_quality(0, 60, 1, Shortfall.PRINTED) == 60
    assert match_quality(59, 60, 1, Shortfall.PRINTED) == 1


def test_shares_become_scores() -> None:
    assert pressure_scores([-0.1, 0.0, 0.5, 1.0, 7.0]) == (0, 0, 50, 99, 99)


def test_ties_keep_the_order_of_the_resources() -> None:
    assert falling_order([5, 9, 5, 9]) == (1, 3, 0, 2)
