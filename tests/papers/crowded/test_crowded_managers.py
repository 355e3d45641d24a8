"""Managers in the crowded world: repeatability, conservation, looks, alarms by prediction, paired orders."""

from __future__ import annotations

import numpy as np
import pytest

from papers.worlds.crowded.comparison import ABLATED_PAIRS, CROWDED_PAIRS, OrderVerdict, crowded, paired
from papers.worlds.crowded.managers import CROWDED_MANAGERS
from papers.worlds.crowded.simulation import CrowdedSimulation
from papers.worlds.crowded.truth.draw import drawn_world
from papers.worlds.crowded.truth.rules import ABLATIONS, Rules

TIMES_S = np.arange(60.0) * 5


def test_every_manager_of_an_order_exists_and_has_both_variants() -> None:
    named = {one for pair in (*CROWDED_PAIRS, *ABLATED_PAIRS) for one in pair}
    assert named <= set(CROWDED_MANAGERS)
    placed = {name for name in CROWDED_MANAGERS if not name.endswith(", following")}
    assert {f"{name}, following" for name in placed} == set(CROWDED_MANAGERS) - placed


@pytest.mark.parametrize("name", CROWDED_MANAGERS)
def test_a_run_ends_every_job_or_gives_it_up_and_repeats(name: str) -> None:
    world = drawn_world("crowded-full", 2, None, TIMES_S)
    found, again = (CrowdedSimulation(world, CROWDED_MANAGERS[name], name).run() for _ in range(2))
    assert found.finished_s.tolist() == pytest.approx(again.finished_s.tolist(), nan_ok=True)
    done = np.isfinite(found.finished_s)
    assert (done | (found.kills >= 5)).all()
    assert (found.ran_s[done] > found.arrival_s[done]).all()
    assert (found.finished_s[done] - found.ran_s[done] >= found.alone_s[done] - 1e-6).all()
    assert 0 < found.used < 1


def test_only_those_who_classify_look_at_programs_and_only_once_before_placement() -> None:
    world = drawn_world("crowded-full", 2, None, TIMES_S)
    new = len(set(world.jobs.program[world.profiled[world.jobs.program] == 0].tolist()))
    looks = {
        name: CrowdedSimulation(world, CROWDED_MANAGERS[name], name).run().looks
        for name in ("paragon", "least loaded")
    }
    assert looks == {"paragon": new, "least loaded": 0}


def test_managers_that_do_not_follow_move_nothing() -> None:
    found = crowded("crowded-half", 1, ("paragon", "least used"), arrivals_s=TIMES_S)
    assert all(figures["moves"] == 0 for figures in found.values())


def test_an_exact_prediction_of_a_calm_world_raises_no_alarm() -> None:
    calm = Rules(noise=0.0, kills=False)
    world = drawn_world("crowded-half", 1, calm, np.arange(10.0) * 3000)  # one job at a time
    name = "all known, following"
    found = CrowdedSimulation(world, CROWDED_MANAGERS[name], name).run()
    assert found.moves.sum() == 0


def test_every_ablation_changes_one_rule_or_one_pair_of_rules() -> None:
    usual = Rules()
    for name, rules in ABLATIONS.items():
        changed = [
            field for field in Rules.__dataclass_fields__ if getattr(rules, field) != getattr(usual, field)
        ]
        assert 1 <= len(changed) <= 2, name


def test_a_tie_is_no_order() -> None:
    def runs(*leads: float) -> list[dict[str, dict[str, float]]]:
        return [{"a": {"f": 50 + lead}, "b": {"f": 50.0}} for lead in leads]

    assert paired(runs(5, 6, 7, 5, 6), "a", "b", "f").verdict is OrderVerdict.HOLDS
    assert paired(runs(5, 6, 7, 5, 6), "b", "a", "f").verdict is OrderVerdict.FAILS
    assert paired(runs(9, -8, 7, -6, 1), "a", "b", "f").verdict is OrderVerdict.TIE
    order = paired(runs(1, 2, 3), "a", "b", "f")
    assert order.lead == pytest.approx(2)
    assert (order.low + order.high) / 2 == pytest.approx(2)
