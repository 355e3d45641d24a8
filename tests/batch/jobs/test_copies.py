"""Copies of tasks: what they cost and take off, and how a budget is apportioned."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, strategies as st

from kwiken.batch.jobs.copies.apportion import apportion_copies, copy_job, no_copies, policies_of, raised
from kwiken.batch.jobs.copies.comparison import (
    DOUBLED,
    EQUAL,
    HINDSIGHT,
    NONE,
    SHARED,
    SPECULATION,
    compare_copies,
)
from kwiken.batch.jobs.copies.hindsight import DrawnJob, copies_in_hindsight
from kwiken.batch.jobs.copies.policy import CopyPolicy, drawn, replay_doubled, replay_with_copies
from kwiken.batch.jobs.logs.reading import read_log
from kwiken.batch.jobs.replay.replayed_run import RunModel, run_model
from kwiken.batch.jobs.replay.scheduling import ReplayedStage, Slots
from kwiken.batch.jobs.replay.task_times import StageTaskTimes
from tests.support.data.batch import spark_lines as spark


def stage(times: list[float], after: tuple[int, ...] = ()) -> ReplayedStage:
    values = np.array(times, dtype=np.float64)
    return ReplayedStage(after, 0.0, 0.0, StageTaskTimes(values, values))


def same(times: list[float]) -> StageTaskTimes:
    values = np.array(times, dtype=np.float64)
    return StageTaskTimes(values, values)


def slots(n: int) -> Slots:
    return Slots.standing(np.zeros(n))


def test_a_copy_ends_a_long_task() -> None:
    plan = CopyPolicy(np.array([2.0]), np.zeros(1))
    found = replay_with_copies([stage([1, 1, 9])], [same([1, 1, 1])], slots(3), plan)
    assert (found.total_ms, found.copy_ms, found.task_ms, found.copied) == (3, 1, 11, 1)


def test_a_copy_that_is_slower_ends_with_its_task() -> None:
    plan = CopyPolicy(np.array([2.0]), np.zeros(1))
    found = replay_with_copies([stage([1, 9])], [same([1, 99])], slots(2), plan)
    assert (found.total_ms, found.copy_ms) == (9, 7)


def test_copies_wait_until_no_task_waits_and_enough_have_ended() -> None:
    early = CopyPolicy(np.array([0.0]), np.zeros(1))
    # The third task starts at 1, so copies start then.
    assert replay_with_copies([stage([1, 9, 1])], [same([1, 1, 1])], slots(2), early).total_ms == 2
    late = CopyPolicy(np.array([0.0]), np.array([2 / 3]))
    found = replay_with_copies([stage([1, 9, 1])], [same([1, 1, 1])], slots(2), late)
    assert (found.total_ms, found.copied) == (3, 1)


def test_slots_are_free_when_the_copy_ends() -> None:
    plan = CopyPolicy(np.array([2.0, np.inf]), np.zeros(2))
    stages = [stage([9]), stage([1], (0,))]
    assert replay_with_copies(stages, [same([1]), same([1])], slots(1), plan).total_ms == 4
    assert replay_with_copies(stages, [same([1]), same([1])], slots(1), CopyPolicy.none(2)).total_ms == 10


def test_doubling_runs_every_task_twice() -> None:
    found = replay_doubled([stage([4, 6])], [same([5, 2])], slots(2))
    assert (found.total_ms, found.copy_ms, found.copied) == (4, 6, 2)


def test_draws_keep_the_times_of_a_stage() -> None:
    rng = np.random.default_rng(1)
    stages, copies = drawn([stage([1, 2, 3])], rng)
    assert set(stages[0].tasks.first_ms) | set(copies[0].first_ms) <= {1, 2, 3}


def test_a_budget_goes_to_the_stage_that_the_end_waits_for() -> None:
    slow, quick = stage([10.0] * 19 + [100.0]), stage([1.0] * 19 + [5.0])
    job = copy_job([slow, quick], slots(40), np.random.default_rng(2))
    none = no_copies([job])
    raises = apportion_copies([job], 0.2 * job.task_ms, none)
    (policy,) = policies_of([job], raised(none, raises))
    assert np.isfinite(policy.after_ms[0])
    assert np.isinf(policy.after_ms[1])
    assert apportion_copies([job], 0.0, none) == []


def test_raises_go_on_from_what_is_chosen() -> None:
    job = copy_job([stage([10.0] * 19 + [100.0])], slots(40), np.random.default_rng(2))
    none = no_copies([job])
    little = apportion_copies([job], 0.05 * job.task_ms, none)
    begun = raised(none, little)
    more = apportion_copies([job], 0.5 * job.task_ms, begun)
    steps = [one.rule for one in (*little, *more)]
    assert steps == sorted(set(steps))
    assert raised(begun, more)[0][0] == steps[-1]


def test_stages_beside_each_other_are_raised_in_turn() -> None:
    """A stage that the end does not wait for pays once the one beside it is shorter."""
    one, other = stage([10.0] * 19 + [100.0]), stage([10.0] * 19 + [70.0])
    job = copy_job([one, other], slots(80), np.random.default_rng(2))
    none = no_copies([job])
    (policy,) = policies_of([job], raised(none, apportion_copies([job], 0.3 * job.task_ms, none)))
    assert np.isfinite(policy.after_ms).all()


def drawn_job(stages: list[ReplayedStage], n: int, seed: int = 1) -> DrawnJob:
    return DrawnJob.of(stages, slots(n), np.random.default_rng(seed))


def test_hindsight_copies_the_task_that_ends_last() -> None:
    job = replace(
        drawn_job([stage([1, 1, 9])], 3),
        stages=[stage([1, 1, 9])],
        copies=[same([1, 1, 2])],
        starts_ms=[np.zeros(3)],
        took_ms=[np.array([1.0, 1, 9])],
        copy_ms=[np.array([1.0, 1, 2])],
    )
    (found,) = copies_in_hindsight([job], 0.5)
    assert (found.total_ms, found.copy_ms, found.copied) == (2, 2, 1)
    (nothing,) = copies_in_hindsight([job], 0.0)
    assert (nothing.total_ms, nothing.copied) == (9, 0)


@given(
    times=st.lists(st.floats(1, 100), min_size=1, max_size=12),
    n=st.integers(1, 5),
    budget=st.floats(0, 1),
    seed=st.integers(0, 99),
)
def test_hindsight_keeps_its_budget(times: list[float], n: int, budget: float, seed: int) -> None:
    jobs = [drawn_job([stage(times), stage(times[::-1], (0,))], n, seed), drawn_job([stage(times)], n, seed)]
    found = copies_in_hindsight(jobs, budget)
    spent = sum(run.copy_ms for run in found)
    assert spent <= budget * sum(job.plain.busy_ms for job in jobs) * (1 + 1e-9)


def test_hindsight_of_a_job_without_tasks() -> None:
    (found,) = copies_in_hindsight([drawn_job([stage([])], 2)], 0.5)
    assert (found.total_ms, found.copied) == (0, 0)
    assert copies_in_hindsight([drawn_job([], 2)], 0.5)[0].total_ms == 0


def test_each_job_may_have_a_budget_of_its_own() -> None:
    models = [model(), model()]
    found = compare_copies(models, 0.1, seed=4, each=True)
    assert all(result.cost < 0.13 for result in found.results[SHARED])
    assert len(found.multiples) == 2
    assert found.taken_off(HINDSIGHT, 0) > found.taken_off(SHARED, 0) - 0.02


def model() -> RunModel:
    times = [1000] * 19 + [15_000]
    lines = [spark.start(), *(spark.executor(str(n)) for n in range(20)), spark.submitted(0, 20, 0)]
    lines += [spark.task(0, 0, took, str(n)) for n, took in enumerate(times)]
    lines += [spark.completed(0, 20, 0, 15_000), spark.end(15_000)]
    found = read_log(lines, name="n", where="w")
    assert found is not None
    return run_model(found.jobs[0])


def test_the_rules_beside_each_other() -> None:
    found = compare_copies([model()], 0.1, seed=4)
    assert set(found.results) == {SHARED, EQUAL, SPECULATION, DOUBLED, NONE, HINDSIGHT}
    assert found.taken_off(NONE, 0) == 0
    assert 0.5 < found.share_of_doubling(SHARED) <= 1.01
    assert found.results[SHARED][0].cost < 0.13  # on fresh draws
    assert found.results[DOUBLED][0].cost > 0.4
    assert found.share_of_doubling(SHARED) > found.share_of_doubling(EQUAL) - 0.05


@pytest.mark.parametrize("budget", [0.0, 1.0])
def test_no_budget_and_a_whole_one(budget: float) -> None:
    found = compare_copies([model()], budget, seed=4)
    assert (found.taken_off(SHARED, 0) > 0) == (budget > 0)
    assert compare_copies([model()], budget, seed=4).results == found.results
