"""Busy times and chances of a slot: published anchors, families that are found again, and exact counts."""

from __future__ import annotations

import itertools
import math
import random
import statistics

import pytest
from hypothesis import given, settings, strategies as st

from kwiken.base.errors import InputError
from papers.worlds.waiting.lines.budgets import Slack, slack_s, waiting_budget_s
from papers.worlds.waiting.lines.busy_times import BusyTimes
from papers.worlds.waiting.lines.chances import chance_of_releases, time_for
from papers.worlds.waiting.lines.distributions import (
    BusyFamily,
    BusyTime,
    empirical,
    exponential,
    fitted,
    normal,
)
from papers.worlds.waiting.lines.quality_classes import equal_classes, quantile_classes
from papers.worlds.waiting.lines.switching import LineProspect, best_value, stopping_values

SOURCE = normal(2601.0, 390.0)


def stationary_chance(busy: BusyTime, slots: int, within_s: float, ahead: int = 0) -> float:
    """Probability that a slot is free for a job, where the ages of the busy slots are not known."""
    return chance_of_releases([busy.rest_within(within_s)] * slots, ahead + 1)


def test_the_sources_two_figures_agree() -> None:
    assert SOURCE.below(2700.0) == pytest.approx(0.60, abs=0.005)
    assert stationary_chance(SOURCE, 42, 56.0) == pytest.approx(0.60, abs=0.01)
    memoryless = exponential(2946.7)
    assert stationary_chance(memoryless, 48, 56.0) == pytest.approx(0.60, abs=0.005)


def test_ages_agree_with_the_stationary_chance_on_average() -> None:
    rng = random.Random(7)
    busy = normal(100.0, 15.0)

    def age() -> float:  # of a slot that is met at a random moment
        while True:
            length = max(1.0, rng.gauss(100.0, 15.0))
            if rng.random() * 160.0 < length:
                return rng.random() * length

    drawn = [chance_of_releases([busy.within(age(), 3.0) for _ in range(10)], 1) for _ in range(600)]
    assert statistics.fmean(drawn) == pytest.approx(stationary_chance(busy, 10, 3.0), abs=0.02)


@given(st.floats(0, 500), st.floats(0, 500))
def test_exponential_times_have_no_age(age_s: float, within_s: float) -> None:
    busy = exponential(100.0)
    assert busy.within(age_s, within_s) == pytest.approx(busy.below(within_s), abs=1e-6)
    assert busy.rest_within(within_s) == pytest.approx(busy.below(within_s), abs=1e-3)


DRAWS = {
    BusyFamily.NORMAL: lambda rng: rng.gauss(100, 10),
    BusyFamily.LOGNORMAL: lambda rng: rng.lognormvariate(4, 0.8),
    BusyFamily.EXPONENTIAL: lambda rng: rng.expovariate(0.01),
    BusyFamily.WEIBULL: lambda rng: rng.weibullvariate(100, 4.5),
    BusyFamily.GAMMA: lambda rng: rng.gammavariate(2.5, 40),
}


@pytest.mark.parametrize("family", DRAWS)
def test_a_family_is_found_again(family: BusyFamily) -> None:
    rng = random.Random(11)
    samples = [DRAWS[family](rng) for _ in range(3000)]
    found = fitted(samples)
    assert found.family is family
    assert found.mean_s == pytest.approx(statistics.fmean(samples), rel=0.05)
    for time in (20.0, 60.0, 100.0, 180.0):
        share = sum(sample <= time for sample in samples) / len(samples)
        assert found.below(time) == pytest.approx(share, abs=0.03)


@given(st.lists(st.floats(0.01, 1e5), min_size=1, max_size=30, unique=True))
def test_the_kth_smallest_of_n_samples_has_k_of_n_plus_1_below_it(samples: list[float]) -> None:
    """In whatever order they came; straight lines between them."""
    below = empirical(samples).below
    shares = [below(time) for time in sorted(samples)]
    count = len(samples)
    assert shares[:-1] == pytest.approx([rank / (count + 1) for rank in range(1, count)])
    assert shares[-1] == 1.0
    for rank, (low, high) in enumerate(itertools.pairwise(sorted(samples)), start=1):
        half = (low + high) / 2
        if low < half < high:  # between two neighbouring floats there is none
            share = (half - low) / (high - low)
            assert below(half) == pytest.approx((rank + share) / (count + 1), abs=1e-3)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(0.01, 1e5), min_size=1, max_size=80), st.lists(st.floats(0, 2e5), max_size=20))
def test_every_fit_is_a_distribution(samples: list[float], times: list[float]) -> None:
    found = fitted(samples)
    values = [found.below(time) for time in sorted(times)]
    assert all(0 <= value <= 1 for value in values)
    assert all(low <= high + 1e-9 for low, high in itertools.pairwise(values))
    assert 0 <= found.within(times[0] if times else 1.0, 10.0) <= 1


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(0, 1), max_size=8), st.integers(0, 9))
def test_counts_of_releases_are_exact(chances: list[float], needed: int) -> None:
    whole = 0.0
    for pattern in range(2 ** len(chances)):
        happened = [bool(pattern >> at & 1) for at in range(len(chances))]
        if sum(happened) >= needed:
            whole += math.prod(
                chance if it else 1 - chance for chance, it in zip(chances, happened, strict=True)
            )
    assert chance_of_releases(chances, needed) == pytest.approx(whole, abs=1e-9)


def test_chances_rise_with_slots_and_fall_with_jobs_ahead() -> None:
    busy = normal(100.0, 20.0)
    few, many = stationary_chance(busy, 3, 10.0), stationary_chance(busy, 6, 10.0)
    assert busy.rest_within(10.0) <= few < many
    assert stationary_chance(busy, 6, 10.0, ahead=2) < many
    assert time_for(lambda time: stationary_chance(busy, 6, time), 0.5, 100.0) < 100.0
    assert time_for(lambda _: 0.2, 0.5, 100.0) == math.inf


def prospects(other: float) -> tuple[LineProspect, LineProspect]:
    stay = LineProspect(0.95, lambda time: -math.expm1(-0.016362 * time))
    return stay, LineProspect(other, lambda time: -math.expm1(-time / 20))


def test_the_worked_example_of_the_specification() -> None:
    stay, leave = prospects(0.85)
    assert best_value(stay, 90.0, 90.0, 900) == pytest.approx(22.87, rel=0.005)
    assert best_value(leave, 90.0, 90.0, 900) == pytest.approx(39.71, rel=0.005)
    assert best_value(stay, 3090.0, 90.0, 900) == pytest.approx(2196.4, rel=0.005)
    assert best_value(leave, 3090.0, 90.0, 900) == pytest.approx(2521.7, rel=0.005)

    def first_switch(worth: float) -> int | None:
        here, there = prospects(worth)
        return next(
            (
                waited
                for waited in range(89)
                if best_value(there, 90.0 - waited, 90.0 - waited, 900)
                > best_value(here, 90.0 - waited, 90.0 - waited, 900)
            ),
            None,
        )

    assert first_switch(0.85) == 0
    assert first_switch(0.4) == pytest.approx(52, abs=1)
    assert first_switch(0.3) is None


@settings(max_examples=40, deadline=None)
@given(st.floats(0.05, 1), st.floats(0.05, 1), st.floats(0.001, 0.2), st.floats(0.001, 0.2))
def test_optimal_stopping_is_worth_at_least_every_fixed_choice(
    here: float, there: float, slow: float, fast: float
) -> None:
    lines = [
        LineProspect(here, lambda time: -math.expm1(-slow * time)),
        LineProspect(there, lambda time: -math.expm1(-fast * time)),
    ]
    values = stopping_values(lines, 60.0, 60.0, 60)
    for at, line in enumerate(lines):
        committed = sum(
            (line.chance(step) - line.chance(step - 1)) * (60.0 - step) * line.worth for step in range(1, 61)
        )
        assert values[at][0] >= values[at][1] - 1e-9
        assert values[at][0] >= committed - 1e-9


def test_classes_have_every_quality_once() -> None:
    classes = equal_classes(10)
    assert (classes.of(100), classes.of(90), classes.of(90.1), classes.of(0), classes.of(10)) == (
        *(0, 1, 0, 9, 9),
    )
    assert [classes.of(quality) for quality in range(101)] == sorted(
        (classes.of(quality) for quality in range(101)), reverse=True
    )
    assert (classes.middle(0), classes.middle(9)) == (0.95, 0.05)
    assert equal_classes(1).of(50) == 0
    even = quantile_classes([float(value) for value in range(100)], 4)
    assert [sum(even.of(value) == number for value in range(100)) for number in range(4)] == [25] * 4
    assert quantile_classes([5.0] * 9, 4).count == 1
    for bad in (0, 101):
        with pytest.raises(InputError):
            equal_classes(bad)
    with pytest.raises(InputError):
        quantile_classes([], 3)


def test_budgets() -> None:
    assert waiting_budget_s(3000.0, 0.05, 60.0) == 90.0
    assert slack_s(3000.0, 0.05, 60.0) == 90.0
    assert slack_s(3000.0, 0.05, 60.0, Slack.PRINTED) == 3090.0
    for bad in ((0.0, 0.05, 0.0), (1.0, -1.0, 0.0), (1.0, 0.05, math.nan), (math.inf, 0.05, 0.0)):
        with pytest.raises(InputError):
            waiting_budget_s(*bad)


def test_statistics_follow_where_slots_land() -> None:
    times = BusyTimes(3)
    assert times.fit(0) is None
    assert times.landing(0, 0) == 1.0
    for number in range(40):
        times.ended(0, 10.0 + number % 5, 10.0 * number, 1)
    assert times.landing(0, 1) == pytest.approx(40 / 41)
    assert times.short_gap_s(1) == 10.0
    fit = times.fit(0)
    assert fit is not None
    assert fit.mean_s == pytest.approx(12.0, abs=0.2)
    assert empirical([1.0, 2.0]).below(3.0) == 1.0
