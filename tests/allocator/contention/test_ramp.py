"""Ramps: levels are found on a simulated machine with their deviations, and noise alone is no loss."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from kwiken.allocator.contention.ramp import Ramp, RampWindow, Scores
from papers.ibench.parts import SimulatedResource, simulate_ramp

MAX_VISITS = 6
MAX_WINDOWS = 1 + 4 * MAX_VISITS


def ramped(resource: SimulatedResource, seed: int = 0, qos: float = 0.95) -> tuple[Scores, int]:
    return simulate_ramp(resource, Ramp(qos=qos), np.random.default_rng(seed))


def without_noise(demand: float, headroom: float, sensitivity: float) -> SimulatedResource:
    return SimulatedResource(demand, headroom, sensitivity, noise=0.0)


def population(noise: float, count: int = 150) -> tuple[np.ndarray, np.ndarray, float]:
    """(count, 2) errors of both scores, their deviations, and the mean number of windows."""
    rng = np.random.default_rng(1)
    errors, deviations, windows = [], [], 0
    for _ in range(count):
        demand, headroom = rng.uniform(0.0, 0.8), rng.uniform(0.3, 1.2)
        resource = SimulatedResource(demand, max(demand, headroom), rng.uniform(0.5, 3.0), noise)
        scores, taken = simulate_ramp(resource, Ramp(), rng)
        errors.append((scores.tolerated - resource.tolerated, scores.caused - resource.caused))
        deviations.append((scores.tolerated_deviation, scores.caused_deviation))
        windows += taken
    return np.array(errors), np.array(deviations), windows / count


@given(demand=st.floats(0, 0.9), spare=st.floats(0, 0.9), sensitivity=st.floats(0.5, 5))
def test_levels_are_found_within_their_deviations(demand: float, spare: float, sensitivity: float) -> None:
    resource = without_noise(demand, demand + spare, sensitivity)
    scores, windows = ramped(resource)
    assert abs(scores.tolerated - resource.tolerated) < 4 * scores.tolerated_deviation + 0.05
    assert abs(scores.caused - resource.caused) < 4 * scores.caused_deviation + 0.05
    assert windows <= MAX_WINDOWS


def test_a_workload_that_does_not_care_tolerates_all_and_causes_nothing_in_two_visits() -> None:
    scores, windows = ramped(without_noise(0.0, 1.0, 0.0))
    assert scores.tolerated == pytest.approx(1.0, abs=1e-6)
    assert scores.caused == pytest.approx(0.0, abs=1e-6)
    assert scores.tolerated_deviation < 0.01
    assert windows == 1 + 2 * 4


def test_the_lowest_level_may_be_too_much() -> None:
    scores, _ = ramped(without_noise(0.95, 0.5, 10.0))
    assert scores.tolerated < 0.05


@given(demand=st.lists(st.floats(0, 1), min_size=2, max_size=2).map(sorted))
def test_more_demand_causes_no_less(demand: list[float]) -> None:
    low, high = (ramped(without_noise(each, 2.0, 1.0))[0] for each in demand)
    assert low.caused <= high.caused + 2 * (low.caused_deviation + high.caused_deviation)


@given(demand=st.floats(0, 0.9), spare=st.floats(0, 0.9), sensitivity=st.floats(0.5, 5))
def test_a_laxer_quality_of_service_tolerates_no_less(
    demand: float, spare: float, sensitivity: float
) -> None:
    resource = without_noise(demand, demand + spare, sensitivity)
    lax, strict = ramped(resource, qos=0.90)[0], ramped(resource)[0]
    margin = 2 * (lax.tolerated_deviation + strict.tolerated_deviation)
    assert lax.tolerated >= strict.tolerated - margin


def test_noise_alone_is_rarely_a_loss() -> None:
    found = [ramped(SimulatedResource(0.0, 1.0, 0.0, noise=0.03), seed)[0] for seed in range(100)]
    assert sum(scores.tolerated < 0.9 for scores in found) <= 5
    assert sum(scores.caused > 0.1 for scores in found) <= 5


@pytest.mark.parametrize(("noise", "bound"), [(0.0, 0.02), (0.01, 0.025), (0.02, 0.035)])
def test_errors_are_small_and_covered_by_their_deviations(noise: float, bound: float) -> None:
    errors, deviations, windows = population(noise)
    assert np.abs(errors).mean(axis=0).max() < bound
    assert windows < MAX_WINDOWS
    # Normal intervals of 90% around scores that are clipped at 0 and 1; steps of levels are hundredths.
    covered = np.abs(errors) <= 1.645 * np.maximum(deviations, 0.01)
    assert covered.mean(axis=0).min() > 0.8


def test_more_noise_makes_scores_less_certain() -> None:
    little, much = (np.mean(population(noise, 60)[1]) for noise in (0.005, 0.05))
    assert much > 1.2 * little


def test_a_machine_that_slows_down_for_all_loses_nothing() -> None:
    ramp = Ramp()
    speed = 1.0
    while (step := ramp.next) is not None:
        speed *= 0.97  # by half over the longest ramp
        ramp.record(
            None if step.window is RampWindow.KERNEL else 100 * speed,
            None if step.window is RampWindow.WORKLOAD else 5 * speed,
        )
    assert ramp.scores.tolerated == pytest.approx(1.0, abs=0.01)
    assert ramp.scores.caused == pytest.approx(0.0, abs=0.01)


def test_a_workload_that_is_starved_still_has_scores() -> None:
    ramp = Ramp()
    while (step := ramp.next) is not None:
        both = step.window is RampWindow.BOTH
        ramp.record(0.0 if both else 100.0, 0.0 if both else 5.0)
    assert 0 <= ramp.scores.tolerated < 0.05
    assert ramp.scores.caused > 0.95


def test_a_workload_without_performance_alone_loses_nothing() -> None:
    ramp = Ramp()
    while ramp.next is not None:
        ramp.record(0.0, 5.0)
    assert ramp.scores.tolerated > 0.95


@pytest.mark.parametrize(
    ("performance", "speed"), [(None, None), (math.nan, None), (-1.0, 2.0), (math.inf, 1.0)]
)
def test_what_is_no_measurement_is_refused(performance: float | None, speed: float | None) -> None:
    ramp = Ramp()
    with pytest.raises(ValueError, match=r"workload alone at level 0: .* is no measurement"):
        ramp.record(performance, speed)
    assert ramp.next is not None  # the window is still to be measured


def test_a_finished_ramp_takes_nothing() -> None:
    ramp = Ramp(max_visits=1)
    with pytest.raises(ValueError, match="no visit has ended yet"):
        ramp.scores  # noqa: B018 - the property raises
    windows = []
    while (step := ramp.next) is not None:
        windows.append(step.window)
        ramp.record(1.0, 1.0)
    alone, both, kernel = RampWindow.WORKLOAD, RampWindow.BOTH, RampWindow.KERNEL
    assert windows == [alone, both, kernel, both, alone]
    with pytest.raises(ValueError, match="at its end"):
        ramp.record(1.0, 1.0)


@pytest.mark.parametrize("qos", [0.0, 1.0, -1.0, math.nan])
def test_a_wrong_quality_of_service_is_refused(qos: float) -> None:
    with pytest.raises(ValueError, match="qos must be above 0 and below 1"):
        Ramp(qos=qos)


def test_a_ramp_without_visits_is_refused() -> None:
    with pytest.raises(ValueError, match="max_visits must be 1 or more"):
        Ramp(max_visits=0)
