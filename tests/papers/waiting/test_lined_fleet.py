"""Lined fleet: everything ends, nothing is lost, a run repeats, and a head that waits blocks less with budgets."""

from __future__ import annotations

import numpy as np
import pytest

from papers.worlds.waiting.ablations import changed_world
from papers.worlds.waiting.head_of_line import borrowing_waits
from papers.worlds.waiting.managers import LINED_MANAGERS
from papers.worlds.waiting.outcome import LinedOutcome
from papers.worlds.waiting.rules import ABLATIONS
from papers.worlds.waiting.scenarios import LINED_SCENARIOS
from papers.worlds.waiting.simulation import LinedSimulation


def run(scenario: str, manager: str, seed: int = 5) -> LinedOutcome:
    return LinedSimulation(LINED_SCENARIOS[scenario].draw(seed), scenario, LINED_MANAGERS[manager]).run()


@pytest.mark.parametrize("manager", ["paragon", "least loaded", "arq", "suitable lines"])
def test_every_job_ends_once_and_after_its_arrival(manager: str) -> None:
    found = run("oversubscribed", manager)
    done = np.isfinite(found.finished_s)
    assert done.sum() + (found.kills >= 3).sum() == len(done)
    assert (found.started_s[done] >= found.arrival_s[done]).all()
    assert (found.finished_s[done] > found.started_s[done]).all()
    assert (found.performance() <= 1 + 1e-6).all()
    assert found.series[:, 1].max() <= LINED_MANAGERS[manager].oversold * found.capacity + 1e-6
    assert found.series[-1, 3] == 0


def test_who_is_not_late_keeps_the_budget_and_who_does_not_wait_is_charged_nothing() -> None:
    arq, paragon = run("oversubscribed", "arq"), run("oversubscribed", "paragon")
    kept = ~arq.late
    assert ((arq.charged_s + arq.measuring_s)[kept] < 0.05 * arq.alone_s[kept] + 1e-6).all()
    assert arq.late.any()
    assert not paragon.charged_s.any()


def test_a_run_repeats() -> None:
    assert run("low", "arq").summary() == run("low", "arq").summary()


def test_first_come_first_served_keeps_the_order() -> None:
    found = run("oversubscribed", "paragon")
    joined = found.arrival_s + found.measuring_s
    assert (np.diff(found.started_s[np.argsort(joined, kind="stable")]) >= 0).all()


def test_ablations_change_one_property() -> None:
    world = LINED_SCENARIOS["low"].draw(5)
    alike = changed_world(world, ABLATIONS["platforms alike"])
    assert not alike.truth.het.any()
    together = changed_world(world, ABLATIONS["needs go together"])
    order = np.argsort(together.truth.caused[:, 0])
    assert (np.diff(together.truth.tolerated[order, 0]) <= 0).all()
    tenth = changed_world(world, ABLATIONS["a tenth of the contention"])
    assert np.allclose(tenth.truth.caused, 0.1 * world.truth.caused)


def test_a_budget_ends_the_wait_behind_a_head_that_does_not_fit() -> None:
    for seed in range(3):
        found = borrowing_waits(seed)
        assert found["budget: mean wait of borrowers, s"] < found["strict head: mean wait of borrowers, s"]
        assert 0 < found["budget: slots in use, %"] <= 100
