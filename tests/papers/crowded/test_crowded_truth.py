"""Truth of the crowded world: independence of the schedulers' model, anchors of the law, memory and processor."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from kwiken.base.errors import InputError
from papers.worlds.crowded.truth.draw import CrowdedWorld, drawn_world
from papers.worlds.crowded.truth.law import left, processor_left
from papers.worlds.crowded.truth.measured_speeds import MACHINE_TYPES, PERMILLE
from papers.worlds.crowded.truth.nodes import NOWHERE, CrowdedNodes
from papers.worlds.crowded.truth.programs import LOSS_OF_SCORE, RESOURCES, STEEPNESS
from papers.worlds.crowded.truth.rules import Law, Rules

ROOT = Path(__file__).resolve().parents[3]
ALLOWED = ("kwiken.base", "papers.worlds.crowded.truth")


def world(seed: int = 3, **rules: object) -> CrowdedWorld:
    return drawn_world("crowded-full", seed, Rules(**rules))  # type: ignore[arg-type]


def test_the_truth_imports_neither_the_allocator_nor_a_simulated_fleet() -> None:
    for path in (ROOT / "papers/worlds/crowded/truth").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("kwiken"):
                assert (node.module or "").startswith(ALLOWED), f"{path.name} imports {node.module}"


def test_the_fleets_and_the_allocator_do_not_import_the_crowded_world() -> None:
    for folder in ("papers/worlds/fleet", "kwiken/allocator"):
        for path in (ROOT / folder).rglob("*.py"):
            assert "lab.crowded" not in path.read_text(encoding="utf-8"), path


def test_measured_speeds_are_whole_and_relative_to_the_best_type() -> None:
    assert {len(row) for row in PERMILLE} == {len(MACHINE_TYPES)}
    assert {max(row) for row in PERMILLE} == {1000}
    assert min(min(row) for row in PERMILLE) > 0


def row(value: float) -> np.ndarray:
    return np.full((1, len(RESOURCES)), value)


def test_half_of_the_largest_loss_is_lost_at_the_half_pressure() -> None:
    max_loss = row(0.0)
    max_loss[0, 0] = 0.4
    kept = left(Law.PRODUCT, row(0.6), max_loss, row(0.6), row(1.0))
    assert kept[0] == pytest.approx(1 - 0.2)


def test_losses_of_several_resources_multiply_and_add_up_to_less_than_their_sum() -> None:
    max_loss = row(0.0)
    max_loss[0, :2] = 0.4
    kept = left(Law.PRODUCT, row(0.6), max_loss, row(0.6), row(1.0))
    assert kept[0] == pytest.approx(0.8 * 0.8)
    assert 1 - kept[0] < 0.2 + 0.2
    assert left(Law.WORST, row(0.6), max_loss, row(0.6), row(1.0))[0] == pytest.approx(0.8)


@given(st.floats(0, 5), st.floats(0, 5))
def test_more_pressure_never_helps(one: float, other: float) -> None:
    low, high = sorted((one, other))
    for law in Law:
        kept = [left(law, row(p), row(0.5), row(0.6), row(0.4))[0] for p in (low, high)]
        assert kept[1] <= kept[0] + 1e-12
        assert 0 < kept[1] <= 1


def test_the_tolerated_pressure_costs_five_percent() -> None:
    programs = world().programs
    for program, resource in ((0, 3), (1, 4), (2, 6)):
        t, m, h = (each[program, resource] for each in (programs.tolerated, programs.max_loss, programs.half))
        steep = STEEPNESS[resource]
        loss = m * t**steep / (t**steep + h**steep)
        assert loss == pytest.approx(LOSS_OF_SCORE) if t < 1 else loss <= LOSS_OF_SCORE + 1e-9


def test_a_processor_is_shared_only_where_more_is_wanted_than_there_is() -> None:
    assert processor_left(np.array([4.0, 8.0, 16.0]), np.array([8.0] * 3), 0.98).tolist() == pytest.approx(
        [1.0, 1.0, 0.49]
    )


def test_a_neighbour_presses_only_while_it_runs_and_leaves_nothing_behind() -> None:
    drawn = world()
    nodes = CrowdedNodes(drawn, np.zeros(1, dtype=np.int64))
    nodes.put(0, 0)
    nodes.running[0] = True
    nodes.settle(0)
    alone = nodes.speed[0]
    assert alone == pytest.approx(np.exp(drawn.programs.log_speed[drawn.jobs.program[0], 0]))
    nodes.put(1, 0)
    nodes.settle(0)
    assert nodes.speed[0] == alone
    nodes.running[1] = True
    nodes.settle(0)
    assert nodes.speed[0] < alone
    assert nodes.take(1) == 0
    assert nodes.node[1] == NOWHERE
    nodes.settle(0)
    assert nodes.speed[0] == alone


def test_the_job_with_the_most_memory_is_killed_where_memory_runs_out() -> None:
    drawn = world()
    nodes = CrowdedNodes(drawn, np.zeros(1, dtype=np.int64))
    nodes.put(0, 0)
    nodes.put(1, 0)
    whole = float(drawn.machines.memory_gb[0])
    nodes.memory_gb[[0, 1]] = 0.4 * whole, 0.6 * whole
    assert nodes.most_memory(0) is None
    nodes.memory_gb[1] = 0.7 * whole
    assert nodes.most_memory(0) == 1
    spared = CrowdedNodes(world(kills=False), np.zeros(1, dtype=np.int64))
    spared.put(0, 0)
    spared.memory_gb[0] = 2 * whole
    assert spared.most_memory(0) is None


def test_jobs_reserve_the_load_of_the_cores() -> None:
    drawn = world()
    programs, jobs = drawn.programs, drawn.jobs
    typical_s = jobs.alone_s / np.exp(np.median(programs.log_speed, axis=1))[jobs.program]
    cores = 8 * float(drawn.machines.cores.sum())
    offered = float(programs.cores[jobs.program] @ typical_s) / float(jobs.arrival_s[-1])
    assert offered / cores == pytest.approx(1.0, rel=0.2)


def test_times_that_fall_and_unknown_loads_are_refused() -> None:
    with pytest.raises(InputError, match="must not fall"):
        drawn_world("crowded-half", 0, None, np.array([1.0, 0.5]))
    with pytest.raises(InputError, match="'empty'"):
        drawn_world("empty", 0)
