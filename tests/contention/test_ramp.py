"""Ramps: knees are found on a simulated machine, noise alone is none, and the state machine refuses misuse."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwiken.contention import Ramp, Scores, SimulatedResource, Window, simulate_ramp

STEP = 0.1


def ramped(resource: SimulatedResource, seed: int = 0, qos: float = 0.95) -> tuple[Scores, int]:
    return simulate_ramp(resource, Ramp(qos=qos), np.random.default_rng(seed))


def without_noise(demand: float, headroom: float, sensitivity: float) -> SimulatedResource:
    return SimulatedResource(demand, headroom, sensitivity, noise=0.0)


@given(demand=st.floats(0, 0.9), spare=st.floats(0, 0.9), sensitivity=st.floats(0.5, 5))
def test_the_knee_is_found_within_one_level(demand: float, spare: float, sensitivity: float) -> None:
    resource = without_noise(demand, demand + spare, sensitivity)
    scores, _ = ramped(resource)
    assert resource.tolerated - STEP - 1e-9 <= scores.tolerated <= resource.tolerated + 1e-9
    assert resource.caused - STEP - 1e-9 <= scores.caused <= resource.caused + 1e-9


def test_a_workload_that_does_not_care_tolerates_all_and_causes_nothing() -> None:
    scores, windows = ramped(without_noise(0.0, 1.0, 0.0))
    assert scores == Scores(1.0, 0.0)
    assert windows == 2 + 10 * 5  # two windows first, then five a level


def test_the_lowest_level_may_be_too_much() -> None:
    scores, _ = ramped(without_noise(0.95, 0.5, 10.0))
    assert scores.tolerated == 0.0


@given(demand=st.lists(st.floats(0, 1), min_size=2, max_size=2).map(sorted))
def test_more_demand_causes_no_less(demand: list[float]) -> None:
    low, high = (ramped(without_noise(each, 2.0, 1.0))[0].caused for each in demand)
    assert low <= high


@given(demand=st.floats(0, 0.9), spare=st.floats(0, 0.9), sensitivity=st.floats(0.5, 5))
def test_a_laxer_quality_of_service_tolerates_no_less(
    demand: float, spare: float, sensitivity: float
) -> None:
    resource = without_noise(demand, demand + spare, sensitivity)
    assert ramped(resource, qos=0.90)[0].tolerated >= ramped(resource)[0].tolerated


def test_noise_alone_is_rarely_a_knee() -> None:
    found = [ramped(SimulatedResource(0.0, 1.0, 0.0, noise=0.03), seed)[0] for seed in range(100)]
    assert sum(scores.tolerated < 1.0 for scores in found) <= 5
    assert sum(scores.caused > 0.0 for scores in found) <= 5


def test_knees_are_found_in_noise() -> None:
    resource = SimulatedResource(0.3, 0.8, 2.0, noise=0.02)  # true: 0.526 and 0.247
    found = [ramped(resource, seed)[0] for seed in range(50)]
    assert np.mean([abs(scores.tolerated - resource.tolerated) for scores in found]) < STEP
    assert np.mean([abs(scores.caused - resource.caused) for scores in found]) < STEP


def test_a_machine_that_slows_down_for_all_has_no_knee() -> None:
    ramp = Ramp()
    speed = 1.0
    while (step := ramp.next) is not None:
        speed *= 0.985  # by half over the ramp
        ramp.record(
            None if step.window is Window.KERNEL else 100 * speed,
            None if step.window is Window.WORKLOAD else 5 * speed,
        )
    assert ramp.scores == Scores(1.0, 0.0)


def test_a_ramp_ends_early_once_both_knees_are_found() -> None:
    _, windows = ramped(without_noise(0.9, 0.9, 5.0))
    assert windows < 2 + 10 * 5


@pytest.mark.parametrize(
    ("performance", "speed"), [(None, None), (float("nan"), None), (-1.0, 2.0), (float("inf"), 1.0)]
)
def test_what_is_no_measurement_is_refused(performance: float | None, speed: float | None) -> None:
    ramp = Ramp()
    with pytest.raises(ValueError, match=r"workload alone at level 0: .* is no measurement"):
        ramp.record(performance, speed)
    assert ramp.next is not None  # the window is still to be measured


def test_a_finished_ramp_takes_nothing() -> None:
    ramp = Ramp((1.0,))
    while ramp.next is not None:
        ramp.record(1.0, 1.0)
    with pytest.raises(ValueError, match="at its end"):
        ramp.record(1.0, 1.0)


@pytest.mark.parametrize("levels", [(), (0.0, 0.5), (0.5, 0.4), (0.5, 1.2), (0.5, 0.5)])
def test_wrong_levels_are_refused(levels: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="levels must rise"):
        Ramp(levels)
