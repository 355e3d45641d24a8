"""Decisions of a run: one submission a job, hints that are ignored when a majority is lost, plans made again."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from kwiken.apps.batch_run.decisions import RunDecisions
from kwiken.base.errors import InputError
from kwiken.batch.racks.document import PlannedJob, RackPlan

WORKERS = {"r1": {"a1", "a2"}, "r2": {"b1", "b2"}, "r3": {"c1", "c2"}}


def plan(*jobs: tuple[str, list[str], float, float]) -> RackPlan:
    return RackPlan(
        minimise="mean",
        racks=["r1", "r2", "r3"],
        objective_s=1.0,
        jobs=[
            PlannedJob(
                name=name,
                racks=racks,
                further_rack="r3",
                priority=place,
                arrival_s=at,
                start_s=at,
                took_s=took,
            )
            for place, (name, racks, at, took) in enumerate(jobs)
        ],
    )


def test_jobs_go_to_their_racks_when_they_arrive() -> None:
    run = RunDecisions(plan(("x", ["r1"], 0, 5), ("y", ["r2", "r3"], 7, 5)), WORKERS, ["extra"])
    first = run.due(0.0)
    assert [(one.job, one.workers) for one in first] == [("x", ("a1", "a2")), ("extra", ())]
    assert run.next_due_s() == 7
    assert not run.due(6.9)
    assert [one.workers for one in run.due(7.0)] == [("b1", "b2", "c1", "c2")]
    assert run.left == 3


def test_a_lost_majority_sends_a_job_anywhere_and_a_minority_does_not() -> None:
    run = RunDecisions(plan(("x", ["r1"], 0, 5), ("y", ["r1", "r2"], 0, 5)), WORKERS)
    run.due(0.0)
    assert not run.now_alive({"a1", "b1", "b2", "c1", "c2"})
    lost = run.now_alive({"b1", "b2", "c1", "c2"})
    assert [(one.job, one.again, one.workers) for one in lost] == [("x", True, ())]
    assert not run.now_alive({"b1", "b2", "c1", "c2"})


def test_a_late_job_moves_jobs_that_are_not_submitted() -> None:
    run = RunDecisions(
        plan(("x", ["r1"], 0, 5), ("w", ["r1"], 1, 60), ("y", ["r1"], 40, 5), ("z", ["r2"], 41, 5)), WORKERS
    )
    run.due(1.0)
    (line,) = run.job_ended("x", 30.0)
    assert "25.0 s late" in line
    assert "y to" in line
    (submission,) = run.due(40.0)
    assert submission.racks != ("r1",)
    assert not run.job_ended("y", 45.0)


def test_a_rack_without_workers_is_named() -> None:
    with pytest.raises(InputError, match="r3"):
        RunDecisions(plan(("x", ["r1"], 0, 5)), {"r1": {"a"}, "r2": {"b"}})


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000))
def test_whatever_happens_each_job_is_submitted_once_and_again_only_after_a_loss(seed: int) -> None:
    chance = np.random.default_rng(seed)
    names = [f"j{number}" for number in range(6)]
    racks = ["r1", "r2", "r3"]
    jobs = [
        (
            name,
            sorted(chance.choice(racks, int(chance.integers(1, 4)), replace=False).tolist()),
            float(chance.integers(0, 20)),
            3.0,
        )
        for name in names
    ]
    run = RunDecisions(plan(*jobs), WORKERS)
    alive = {worker for workers in WORKERS.values() for worker in workers}
    fresh: list[str] = []
    again: list[str] = []
    for now in range(60):
        fresh += [one.job for one in run.due(float(now))]
        if chance.random() < 0.1 and len(alive) > 1:
            alive.discard(str(chance.choice(sorted(alive))))
        found = run.now_alive(alive)
        again += [one.job for one in found]
        assert all(one.again and not one.racks for one in found)
        for submission in run.running.values():
            if submission.racks:
                before = sum(len(WORKERS[rack]) for rack in submission.racks)
                assert sum(len(alive & WORKERS[rack]) for rack in submission.racks) >= before / 2
        if chance.random() < 0.3 and run.running:
            run.job_ended(str(chance.choice(sorted(run.running))), float(now))
    assert sorted(fresh) == names
    assert len(again) == len(set(again))
