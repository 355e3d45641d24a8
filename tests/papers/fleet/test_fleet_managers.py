"""Managers of simulated fleets after placement: corrections, moves, what is accepted, what is given back."""

from __future__ import annotations

import numpy as np
import pytest

from papers.worlds.fleet.simulator.manager import DETECTION_S
from papers.worlds.fleet.simulator.scenario import PhaseStep, Scenario
from tests.papers.fleet.test_fleet_simulator import batch, cluster, played, service


def cores_at(scenario: Scenario, moment_s: float, base: float = 1.0) -> float:
    """Cores that replicas have at a moment, under a manager that believes in a base performance."""
    rate = service("s", 1.0, 1.0).phases[0].truth
    told = type(rate)(**{**{name: getattr(rate, name) for name in rate.__dataclass_fields__}, "base": base})
    found = played(scenario, "quasar", follows=True, chooses_sizes=True, told=told)
    moments, cores, _ = found.series()
    return float(cores[np.searchsorted(moments, moment_s)] * found.capacity)


def test_a_prediction_that_promised_too_much_is_corrected_by_what_is_observed() -> None:
    scenario = Scenario("optimist", cluster(3), (service("s", 2.0, 400.0),))
    assert cores_at(scenario, 10.0, base=2.0) == pytest.approx(1.0)
    assert cores_at(scenario, 2 * DETECTION_S, base=2.0) == pytest.approx(2.0)


def test_a_workload_at_nine_tenths_of_its_need_is_acted_on() -> None:
    scenario = Scenario("short", cluster(3), (service("s", 1.1, 400.0),))
    assert cores_at(scenario, 10.0, base=1.2) == pytest.approx(1.0)
    assert cores_at(scenario, 2 * DETECTION_S, base=1.2) == pytest.approx(2.0)


def test_nine_tenths_of_the_need_are_not_accepted_where_an_empty_cluster_gives_more() -> None:
    jobs = (batch("a", 0.0, 20.0), batch("b", 1.0, 20.0, need=1.1, most=2))
    found = played(Scenario("busy", cluster(2), jobs), "quasar", chooses_sizes=True)
    assert found.started_s.tolist() == [0.0, 20.0]


def test_what_a_fall_of_load_leaves_idle_is_given_back_after_a_minute() -> None:
    scenario = Scenario("fall", cluster(2), (service("s", 2.0, 400.0, (PhaseStep(100.0, 0.5),)),))
    assert cores_at(scenario, 156.0) == pytest.approx(2.0)
    assert cores_at(scenario, 164.0) == pytest.approx(1.0)


def test_a_workload_does_not_move_where_nothing_is_gained() -> None:
    jobs = (batch("first", 0.0, 5.0), batch("vain", 0.0, 1000.0, need=2.0))
    found = played(Scenario("alike", cluster(2), jobs), follows=True)
    assert found.decisions > 2  # it is acted on, since it gets half of what it needs
    assert found.moves.tolist() == [0, 0]
