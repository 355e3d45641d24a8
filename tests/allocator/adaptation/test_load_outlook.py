"""Outlook of a load: steady loads promise no rise, rises are seen, and what is expected is bounded."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from kwiken.allocator.adaptation import WINDOW_S, LoadOutlook
from kwiken.allocator.adaptation.load_outlook import OutlookSettings

AHEAD_S = 13.0


def outlook_of(counts: list[int]) -> LoadOutlook:
    outlook = LoadOutlook()
    for count in counts:
        outlook.observe(count, WINDOW_S)
    return outlook


def test_nothing_seen_expects_nothing() -> None:
    assert LoadOutlook().expected_per_s(AHEAD_S) == 0.0


@pytest.mark.parametrize("rate", [10.0, 100.0, 1000.0])
def test_a_steady_load_seldom_promises_a_rise(rate: float) -> None:
    risen = windows = 0
    for seed in range(40):
        outlook = LoadOutlook()
        for count in np.random.default_rng(seed).poisson(rate * WINDOW_S, 60):
            outlook.observe(int(count), WINDOW_S)
            windows += 1
            risen += outlook.expected_per_s(AHEAD_S) > rate * (1 + 3 / math.sqrt(rate * WINDOW_S))
    assert risen <= 0.01 * windows


@pytest.mark.parametrize("rate", [10.0, 100.0, 1000.0])
def test_a_load_that_doubles_in_half_a_minute_is_seen_before_it_has(rate: float) -> None:
    seen = 0
    for seed in range(40):
        chance, outlook = np.random.default_rng(seed), LoadOutlook()
        for count in chance.poisson(rate * WINDOW_S, 8):
            outlook.observe(int(count), WINDOW_S)
        for step in range(1, 5):
            outlook.observe(int(chance.poisson(rate * WINDOW_S * (1 + step / 6))), WINDOW_S)
        seen += outlook.expected_per_s(AHEAD_S) > 1.5 * rate
    assert seen >= 32


def test_a_line_without_noise_goes_on_where_it_leads() -> None:
    counts = [5000] * 10 + [5000 + 250 * step for step in range(1, 9)]
    now, slope = (counts[-1] + 125) / WINDOW_S, 250 / WINDOW_S**2
    assert outlook_of(counts).expected_per_s(AHEAD_S) == pytest.approx(now + slope * AHEAD_S, rel=0.06)


def test_a_step_is_a_level_once_it_is_over() -> None:
    assert outlook_of([5000] * 10 + [10_000] * 8).expected_per_s(AHEAD_S) == pytest.approx(2000, rel=0.02)


def test_windows_of_no_length_are_left_out() -> None:
    outlook = outlook_of([50] * 6)
    before = outlook.expected_per_s(AHEAD_S)
    for arrived, lasted_s in ((0, 0.0), (10**9, 0.0), (10, -1.0), (math.nan, 5.0), (-1, 5.0)):
        outlook.observe(arrived, lasted_s)
    assert outlook.expected_per_s(AHEAD_S) == before


@given(
    st.lists(st.tuples(st.integers(0, 10**9), st.floats(1e-3, 1e3)), max_size=60),
    st.floats(0.0, 1e4),
)
def test_any_counts_give_a_finite_load_and_none_gives_none(
    windows: list[tuple[int, float]], ahead_s: float
) -> None:
    outlook = LoadOutlook()
    for arrived, lasted_s in windows:
        outlook.observe(arrived, lasted_s)
    expected = outlook.expected_per_s(ahead_s)
    assert math.isfinite(expected)
    assert expected >= 0
    if not any(arrived for arrived, _ in windows):
        assert expected == 0


@given(st.integers(100, 10**6), st.integers(4, 40), st.floats(0.0, 60.0))
def test_the_same_count_again_and_again_is_the_load(count: int, windows: int, ahead_s: float) -> None:
    expected = outlook_of([count] * windows).expected_per_s(ahead_s)
    assert expected == pytest.approx(count / WINDOW_S, rel=0.1)


@given(st.integers(20, 10**5), st.integers(3, 20))
def test_a_burst_of_one_window_is_no_rise(count: int, windows: int) -> None:
    counts = [count] * 10 + [2 * count] + [count] * windows
    assert outlook_of(counts).expected_per_s(AHEAD_S) <= 1.15 * count / WINDOW_S


def test_a_higher_quantile_never_expects_less() -> None:
    chance = np.random.default_rng(3)
    outlooks = [LoadOutlook(OutlookSettings(quantile=one)) for one in (0.3, 0.5, 0.7, 0.9)]
    for step in range(40):
        count = int(chance.poisson(100 * (1 + max(0, step - 20) / 10)))
        for outlook in outlooks:
            outlook.observe(count, WINDOW_S)
        found = [outlook.expected_per_s(AHEAD_S) for outlook in outlooks]
        assert found == sorted(found)
