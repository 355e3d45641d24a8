"""Managers that are compared: which of them watch, which choose sizes, and what a second measurement tells."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kwiken.allocator.workloads.profile import Size
from kwiken.allocator.workloads.workload import Measure, Target, Workload
from papers.worlds.fleet.application_world import applications
from papers.worlds.fleet.behaviour import Knowledge
from papers.worlds.fleet.managers import CONTESTANTS, simulate
from papers.worlds.fleet.platforms import LOCAL, Platform, cluster_of
from papers.worlds.fleet.simulator.outcome import FleetOutcome
from papers.worlds.fleet.simulator.scenario import FOREVER, Job, Phase, PhaseStep, Scenario, UserReservation
from papers.worlds.fleet.simulator.simulation import FleetSimulation
from papers.worlds.fleet.world import World, behaviour_of

# Paragon places what users reserve, Quasar chooses sizes; both watch their workloads, the others do not.
CHOOSE = {"quasar, all known", "quasar", "quasar, without adaptation", "thrifty"}
WATCH = {
    "paragon, all known",
    "paragon, chosen entries",
    "paragon",
    "paragon, with margin",
    "paragon-statistical",
    "quasar, all known",
    "quasar",
    "thrifty",
}
SIZES, CLASS = (Size(1.0, 1.0), Size(2.0, 1.0)), Platform("plain", 2, 8, 2.0, 2.0, 4.0, 4)


def world_of_one_service() -> World:
    """A service on four nodes of two cores: one core is enough at first, and four are too few from 100 s on.

    All but the scores has one or two columns, which managers measure everywhere. The user reserves four cores.
    """
    drawn = behaviour_of(np.random.default_rng(1), 21, (CLASS,), one_size=True)
    twice = np.tile(np.log([1.0, 2.0]), (21, 1))
    behaviour = replace(drawn, replicas=np.array([1, 2]), up=twice, out=twice, het=np.zeros((21, 1)))
    truth = behaviour.profile(0, "s", Measure.RATE, SIZES, (CLASS.name,))
    target = Target(p99_ms=50, rate_per_s=0.6)
    workload = Workload(name="s", memory_gb=1.0, target=target, max_replicas=2)
    phases = (Phase(truth, FOREVER, 0.6),)
    job = Job(workload, 0.0, phases, 200.0, (PhaseStep(100.0, 8.0),), UserReservation(SIZES[1], 2))
    scenario = Scenario("one", cluster_of((CLASS,)), (job,))
    return World(scenario, behaviour.part(0, 1), behaviour.part(1, 21), ((0,),), (SIZES,), 7)


WORLD = world_of_one_service()


def cores_between(found: FleetOutcome, from_s: float, until_s: float) -> float:
    return found.shares(from_s, until_s)[0] * found.capacity


@pytest.mark.parametrize("name", CONTESTANTS)
def test_a_manager_chooses_sizes_and_watches_as_its_source_says(name: str) -> None:
    found = simulate(WORLD, name)
    first = 1.0 if name in CHOOSE else 4.0
    assert cores_between(found, 0.0, 114.9) == pytest.approx(first)
    # Quasar's detection takes three samples, one each 5 s.
    assert cores_between(found, 115.1, 129.0) == pytest.approx(4.0 if name in WATCH else first)
    assert (found.decisions > 1) == (name in WATCH)


def test_every_manager_that_watches_or_chooses_is_one_of_the_contestants() -> None:
    assert {*CONTESTANTS} >= WATCH | CHOOSE


def test_a_second_measurement_takes_four_entries() -> None:
    world = applications("some", 4, LOCAL, np.arange(30.0), known=20, median_s=200.0)
    contestant = CONTESTANTS["paragon"]
    first = world.profiles(Knowledge.PUBLISHED, 2)
    finished = [
        FleetSimulation(world.scenario, first, contestant.manager("paragon", 4), again)
        .run()
        .finished_s.tolist()
        for again in (world.profiles(Knowledge.PUBLISHED, 4), first)
    ]
    assert finished[0] != finished[1]
    assert simulate(world, "paragon").finished_s.tolist() == finished[0]
