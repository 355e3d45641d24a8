"""Outlook of a load: steady loads promise no rise, rises are seen, and what is expected is bounded."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st

from kwiken.allocator.adaptation.load_outlook import LoadOutlook, OutlookSettings
from kwiken.allocator.adaptation.watch import WINDOW_S

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


def test_a_line_that_doubles_in_four_minutes_goes_on_for_half_a_minute() -> None:
    counts = [100_000] * 10 + [100_000 + 2000 * step for step in range(1, 15)]
    now, slope = (counts[-1] + 1000) / WINDOW_S, 2000 / WINDOW_S**2
    assert outlook_of(counts).expected_per_s(30.0) == pytest.approx(now + slope * 30.0, rel=0.02)


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


def plainly(windows: Sequence[tuple[float, float]], ahead_s: float, chosen: OutlookSettings) -> float:
    """The load to expect, one hypothesis after another.

    A change begins at one of two moments in each window. Its factor over a window is the mean at four moments.
    """
    count = len(windows)
    if count < 3:
        return 0.0

    def mean(factor: Callable[[float], float], window: int) -> float:
        return sum(factor(window * 5.0 + (place + 0.5) * 1.25) for place in range(4)) / 4

    moments = [2.5 * number for number in range(1, 2 * count)]
    doubled = (10.0, 15.0, 22.0, 33.0, 50.0, 75.0, 110.0, 170.0, 250.0)
    steps = (0.05, 0.15, 0.3, 0.45, 0.6, 0.75, 0.87, 1.15, 1.3, 1.5, 1.75, 2.0, 2.5, 3.5, 6.0, 20.0)
    above = [step for step in steps if step > 1]
    rises = [
        (lambda at, m=m, d=d: 1 + max(0.0, at - m) / d, 1 + (5.0 * count - m) / d, 1 / d)
        for d in doubled
        for m in moments
    ]
    levels = [(lambda at, m=m, s=s: s if at > m else 1.0, s, 0.0) for s in steps for m in moments]
    bursts = [(lambda at, m=m, s=s: s if m < at <= m + 5 else 1.0, 1.0, 0.0) for s in above for m in moments]
    hypotheses = [(lambda at: 1.0, 1.0, 0.0, 1 - chosen.change)]
    for kind in (rises, levels, bursts):
        hypotheses += [(*one, chosen.change / 3 / len(kind)) for one in kind]

    ages = [sum(lasted for _, lasted in windows[place + 1 :]) for place in range(count)]
    weights = [0.5 ** (age / chosen.half_life_s) for age in ages]
    total = sum(weight * arrived for weight, (arrived, _) in zip(weights, windows, strict=True))
    if not total:
        return 0.0
    squares = []
    for (before, before_s), (after, after_s) in pairwise(windows):
        expected = (before + after) / (before_s + after_s) * (1 / before_s + 1 / after_s)
        if expected:
            squares.append((after / after_s - before / before_s) ** 2 / expected)
    typical = float(np.median(squares)) / 0.455 if squares else 1.0
    over = max(1.0, (len(squares) * typical + 10.0) / (len(squares) + 10.0))

    found = []
    for factor, now, slope, prior in hypotheses:
        means = [mean(factor, window) for window in range(count)]
        first = total / sum(w * s * f for w, (_, s), f in zip(weights, windows, means, strict=True))
        fit = sum(w * n * math.log(first * f) for w, (n, _), f in zip(weights, windows, means, strict=True))
        found.append((first * (now + slope * ahead_s), first * now, fit / over + math.log(prior)))
    best = max(score for _, _, score in found)
    shares = [math.exp(score - best) for _, _, score in found]
    present = sum(share * now for share, (_, now, _) in zip(shares, found, strict=True)) / sum(shares)
    below, expected = 0.0, 0.0
    for share, (ahead, _, _) in sorted(zip(shares, found, strict=True), key=lambda one: one[1][0]):
        below, expected = below + share / sum(shares), float(ahead)
        if below >= chosen.quantile:
            break
    return float(min(expected, (1 + ahead_s / 120.0) * present))


MEAN = OutlookSettings(change=0.4, quantile=0.99)  # the quantile is above the mean
FAST, CAREFUL = OutlookSettings(change=0.4, quantile=0.6, half_life_s=20.0), OutlookSettings()


@settings(max_examples=25)
@example([(0, 5.0), (0, 5.0), (0, 5.0), (40, 5.0), (45, 5.0)], 13.0, CAREFUL)
@example(
    [(100, 5.0), (100, 5.0), (100, 5.0), (1050, 5.0)], 13.0, CAREFUL
)  # the largest step, half a window ago
@example([(1, 5.0), (0, 5.0), (0, 5.0), (0, 5.0)], 13.0, CAREFUL)
@example([(3, 1.0), (1, 0.5), (4, 0.1), (1, 1.0)], 13.0, CAREFUL)
@example([(count, 5.0) for count in (3, 1, 4, 1, 0, 5)], 13.0, CAREFUL)
@example([(count, 5.0) for count in (1, 0, 0, 1, 0, 0)], 0.0, MEAN)  # all hypotheses are likely
@example([(count, 5.0) for count in (100, 100, 100, 100, 104, 104, 104, 104)], 0.0, MEAN)  # hardly any noise
@example([(10_000 + 200 * max(0, at - 2), 5.0) for at in range(9)], 30.0, CAREFUL)  # a slow rise
@example(
    [(10_000 + 200 * max(0, at - 2), 5.0) for at in range(9)], 30.0, OutlookSettings(quantile=1 - 2**-53)
)
@given(
    st.lists(st.tuples(st.integers(0, 5000), st.sampled_from([5.0, 5.0, 5.0, 4.0, 7.5])), max_size=9),
    st.sampled_from([0.0, 13.0, 60.0]),
    st.sampled_from([CAREFUL, FAST]),
)
def test_what_is_expected_is_what_hypotheses_one_by_one_say(
    windows: list[tuple[int, float]], ahead_s: float, chosen: OutlookSettings
) -> None:
    outlook = LoadOutlook(chosen)
    for arrived, lasted_s in windows:
        outlook.observe(arrived, lasted_s)
    assert outlook.expected_per_s(ahead_s) == pytest.approx(plainly(windows, ahead_s, chosen), rel=1e-6)


def test_beliefs_before_anything_is_seen() -> None:
    assert OutlookSettings() == OutlookSettings(change=0.1, quantile=0.8, half_life_s=60.0)


def test_two_minutes_of_windows_are_remembered() -> None:
    recent = [100 + 10 * (place % 3) for place in range(24)]
    short, long = outlook_of(recent), outlook_of([7, 9000, 3, *recent])
    assert long.expected_per_s(AHEAD_S) == short.expected_per_s(AHEAD_S)
    assert outlook_of(recent[1:]).expected_per_s(AHEAD_S) != short.expected_per_s(AHEAD_S)
