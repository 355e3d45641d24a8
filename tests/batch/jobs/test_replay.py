"""Replays: list scheduling, task times by wave, predictions and what they are compared with."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from msgspec.structs import replace

from kwiken.base.errors import InputError
from kwiken.batch.jobs.job import BatchJob, BatchStage, ExecutorSpan, TaskTimes
from kwiken.batch.jobs.logs.reading import read_log
from kwiken.batch.jobs.replay.choice import (
    baselines_at,
    by_ernest,
    by_two_points,
    choose_model,
    smallest_in_time,
)
from kwiken.batch.jobs.replay.predictor import Predictor, runs_by_job
from kwiken.batch.jobs.replay.replayed_run import NetworkBounds, run_model
from kwiken.batch.jobs.replay.scheduling import ReplayedStage, Slots, replay
from kwiken.batch.jobs.replay.task_times import StageTaskTimes
from papers.worlds.queries.event_lines import event_log
from papers.worlds.queries.world import draw_query, run_query


def stage(
    times: list[float], after: tuple[int, ...] = (), wait: float = 0.0, later: float = 1.0
) -> ReplayedStage:
    first = np.array(times, dtype=np.float64)
    return ReplayedStage(after, wait, 0.0, StageTaskTimes(first, first * later))


def slots(n: int) -> Slots:
    return Slots.standing(np.zeros(n))


def ran(executors: int, seed: int = 3) -> BatchJob:
    query = draw_query("query", np.random.default_rng(seed))
    run = run_query(query, executors, 1, np.random.default_rng([seed, executors]))
    found = read_log(event_log(run, f"app-{executors}"), name="n", where="w")
    assert found is not None
    return found.jobs[0]


def test_worked_schedules() -> None:
    assert replay([stage([3, 2, 2])], slots(2)).total_ms == 4
    assert replay([stage([1, 1], wait=5), stage([2], (0,), wait=1)], slots(1)).total_ms == 10
    # Parallel stages share the slots: 2 + 2 tasks of 1 on two slots.
    assert replay([stage([1, 1]), stage([1, 1])], slots(2)).total_ms == 2
    # Later tasks of a stage on a slot take half as long.
    assert replay([stage([4, 4, 4], later=0.5)], slots(1)).total_ms == 8
    found = replay([stage([1]), stage([5]), stage([1], (0, 1))], slots(2))
    assert found.path() == [1, 2]
    assert found.busy_ms == 7


def test_slots_that_come_and_go() -> None:
    late = Slots(np.array([0.0, 3.0]), np.array([2.0, np.inf]))
    assert replay([stage([2, 2, 2])], late).total_ms == 7
    gone = Slots(np.array([0.0]), np.array([1.0]))
    assert replay([stage([2, 2])], gone).total_ms == 4  # the last slot is kept


@settings(max_examples=50)
@given(data=st.data())
def test_laws_of_a_schedule(data: st.DataObject) -> None:
    n = data.draw(st.integers(1, 5))
    stages = []
    for place in range(n):
        after = tuple(data.draw(st.sets(st.integers(0, place - 1), max_size=2))) if place else ()
        stages.append(
            stage(data.draw(st.lists(st.floats(0, 50), max_size=8)), after, data.draw(st.floats(0, 5)))
        )
    count = data.draw(st.integers(1, 6))
    found = replay(stages, slots(count))
    work = sum(float(one.tasks.first_ms.sum()) for one in stages)
    longest = max([0.0, *(float(time) for one in stages for time in one.tasks.first_ms)])
    waits = sum(one.wait_ms for one in stages)
    assert found.busy_ms == pytest.approx(work)
    assert max(longest, work / count) - 1e-6 <= found.total_ms <= work + waits + 1e-6
    for place, one in enumerate(stages):
        assert all(found.begun_ms[place] >= found.ended_ms[before] for before in one.after)


def test_a_run_on_its_own_resources_takes_what_it_took() -> None:
    for executors in (3, 10, 40):
        job = ran(executors)
        model = run_model(job)
        assert model.at(executors)[0] == pytest.approx(job.took_ms, rel=0.03)
        assert model.correction == pytest.approx(1, abs=0.03)


def test_growth_is_learned_from_two_sizes() -> None:
    def run(executors: int, took: int) -> BatchJob:
        tasks = 100
        spans = [ExecutorSpan() for _ in range(executors)]
        waves = -(-tasks // executors)
        launched = [took * (n // executors) for n in range(tasks)]
        times = TaskTimes(
            launched_ms=launched, took_ms=[took] * tasks, executor=[n % executors for n in range(tasks)]
        )
        only = BatchStage(name="s", n_tasks=tasks, submitted_ms=0, ended_ms=waves * took, tasks=times)
        return BatchJob(name="j", engine="spark", took_ms=waves * took, stages=[only], executors=spans)

    predictor = Predictor([run(10, 1000), run(20, 1100)])
    assert predictor.growth == pytest.approx(0.01)
    assert predictor.at(50).total_ms == pytest.approx(2 * 1400, rel=0.01)
    assert predictor.at(20).total_ms == 5500
    assert Predictor([run(10, 1000)]).growth is None
    assert Predictor([run(10, 1000), run(20, 900)]).growth == 0  # a fall is not carried on


def test_intervals_hold_the_expected_time_and_widen() -> None:
    for predictor in (Predictor([ran(10)]), Predictor([ran(10), ran(40)])):
        widths = []
        for executors in (40, 80, 160):
            found = predictor.at(executors)
            assert found.low_ms < found.total_ms < found.high_ms
            widths.append((found.high_ms - found.low_ms) / found.total_ms)
        assert widths[-1] >= widths[0]


def test_other_input_links_and_slots() -> None:
    job = ran(10)
    predictor = Predictor([job])
    base = predictor.at(10).total_ms
    assert predictor.at(10, input_bytes=3.0 * job.bytes.read).total_ms > 1.3 * base
    slow = NetworkBounds(machines=2, bytes_per_s=1e4, racks=1, core_bytes_per_s=1e4)
    assert predictor.at(10, network=slow).total_ms > base
    assert predictor.at(10, slots_per_executor=4).total_ms < base
    across = NetworkBounds(machines=4, bytes_per_s=1e9, racks=2, core_bytes_per_s=1e6)
    assert across.least_ms(8e6) == pytest.approx(1000)
    with pytest.raises(InputError, match="input_bytes"):
        predictor.at(10, input_bytes=0)
    with pytest.raises(InputError, match="executors"):
        predictor.at(0)
    with pytest.raises(InputError, match="executors"):
        predictor.at(10**7)


def test_what_has_no_task_times_is_refused() -> None:
    with pytest.raises(InputError, match="no task"):
        Predictor([BatchJob(name="s", engine="spark", stages=[BatchStage(name="map", n_tasks=1)])])


def test_runs_of_one_job_are_told_by_name_and_stages() -> None:
    other = ran(10, seed=4)
    assert [len(group) for group in runs_by_job([ran(10), other, ran(40)])] == [2, 1]


def test_baselines() -> None:
    job = ran(10)
    found = baselines_at(Predictor([job]), [10, 20])
    assert set(found) == {"waves", "constant"}
    assert found["constant"] == [job.took_ms] * 2
    assert found["waves"][1] <= found["waves"][0]
    assert by_ernest([5, 10], [100.0, 60.0], [10])[0] == pytest.approx(60)
    assert {"ernest", "two points"} < set(baselines_at(Predictor([job, ran(40)]), [20]))
    assert by_two_points([4, 8, 8], [100.0, 50.0, 70.0], [2, 4, 8]).tolist() == [180.0, 100.0, 60.0]


def test_a_stage_behind_busy_slots_does_not_wait_for_the_driver() -> None:
    """Two stages of one slot's work each: the second was submitted at once, and its log says so only late."""

    def of(name: str, launched: list[int], took: list[int], submitted: int, wait: int) -> BatchStage:
        return BatchStage(
            name=name,
            n_tasks=len(took),
            wait_ms=wait,
            submitted_ms=submitted,
            tasks=TaskTimes(launched_ms=launched, took_ms=took, executor=[0] * len(took)),
        )

    job = replace(
        ran(10),
        stages=[of("first", [0, 1000], [1000, 1000], 0, 0), of("second", [2000], [500], 2000, 2000)],
        executors=[ExecutorSpan(from_ms=0, slots=1)],
        took_ms=2500,
    )
    assert [stage.wait_ms for stage in run_model(job).stages] == [0.0, 0.0]
    idle = replace(job, stages=[of("first", [0], [1000], 0, 0), of("second", [2000], [500], 2000, 2000)])
    assert [stage.wait_ms for stage in run_model(idle).stages] == [0.0, 1000.0]


def test_the_model_is_chosen_on_runs_held_out() -> None:
    one = choose_model([ran(10)])
    assert (one.model, dict(one.errors)) == ("replay", {})
    several = choose_model([ran(10), ran(20), ran(40)])
    assert several.model == "replay"
    assert several.errors["replay"] < several.errors["waves"]


def test_fewest_executors_for_a_deadline() -> None:
    assert smallest_in_time(lambda n: 100 / n, 10, 50) == 10
    assert smallest_in_time(lambda n: 100 / n, 100, 50) == 1
    assert smallest_in_time(lambda n: 100 / n, 1.9, 50) is None


@pytest.mark.slow
def test_predictions_are_nearer_than_their_rivals() -> None:
    errors: dict[str, list[float]] = {}
    for seed in range(20, 32):
        small, large = ran(10, seed), ran(20, seed)
        predictor = Predictor([small])
        rules = {name: values[0] for name, values in baselines_at(predictor, [20]).items()}
        rules["replay"] = predictor.at(20).total_ms
        for name, value in rules.items():
            errors.setdefault(name, []).append(abs(value - large.took_ms) / large.took_ms)
    mean = {name: float(np.mean(values)) for name, values in errors.items()}
    assert mean["replay"] < 0.06
    assert mean["replay"] < min(mean["waves"], mean["constant"]) / 2
