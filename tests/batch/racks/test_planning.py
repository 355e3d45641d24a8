"""Planning on racks: the worked cases of the published heuristic, its bounds, and what the project adds."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray
from scipy.optimize import linprog

from kwiken.base.errors import InputError
from kwiken.batch.jobs.job import BatchJob, BatchStage, StageBytes
from kwiken.batch.racks.document import rack_plan
from kwiken.batch.racks.exchanges import exchange
from kwiken.batch.racks.planning import plan_racks
from kwiken.batch.racks.problem import RackProblem, problem_of
from kwiken.batch.racks.provisioning import (
    Evaluator,
    path_of,
    provision_on_path,
    widths_at,
)
from kwiken.batch.racks.response import RackHardware, rack_jobs, shuffle_over_racks
from kwiken.batch.racks.schedule import prioritise, source_order
from papers.corral.heuristic import (
    batch_bound_s,
    bound_s,
    gap,
    mean_bound_s,
    online_bound_as_printed_s,
    penalised,
    plan_as_published,
    provision_literally,
)


def shuffle_share(racks: int, oversubscription: float) -> NDArray[np.float64]:
    """Time of a shuffle on 1 to R racks, in units of the time on one rack with the whole bandwidth of the rack."""
    numbers = np.arange(1, racks + 1, dtype=np.float64)
    return np.where(numbers == 1, 1.0, (numbers - 1) * oversubscription / numbers**2)


def rack(machines: int, nic: float, oversubscription: float) -> RackHardware:
    return RackHardware(1, machines, nic, machines * nic / oversubscription)


def test_shuffles_over_racks_take_the_times_of_the_worked_example() -> None:
    core, local = shuffle_over_racks(800.0, rack(30, 10.0, 5), np.arange(1, 8))
    assert core == pytest.approx([0, 3.333, 2.963, 2.5, 2.133, 1.852, 1.633], abs=5e-4)
    assert local == pytest.approx([3.222, 0.806, 0.358, 0.201, 0.129, 0.090, 0.066], abs=5e-4)
    core, local = shuffle_over_racks(800.0, rack(30, 10.0, 1), np.array([2]))
    assert core[0] == 0
    assert local[0] == pytest.approx(800 / 60 * 59 / 60 / 10)


@given(over=st.floats(1.01, 20), machines=st.integers(2, 60), shuffled=st.floats(1, 1e12))
def test_two_racks_beat_one_only_below_an_oversubscription(
    over: float, machines: int, shuffled: float
) -> None:
    core, local = shuffle_over_racks(shuffled, rack(machines, 1e9, over), np.array([1, 2]))
    limit = 1 + 4 * (machines - 1) / machines
    if abs(over - limit) > 1e-6:
        assert (core[1] > local[0]) == (over > limit)


def drawn(jobs: int, racks: int, seed: int, span_s: float = 0.0, spread: float = 1.2) -> RackProblem:
    """Jobs with a part that spreads, a shuffle, and a fixed part."""
    chance = np.random.default_rng(seed)
    work = chance.lognormal(4, spread, jobs)
    numbers = np.arange(1, racks + 1)
    response = (
        work[:, None] / numbers
        + (work * chance.uniform(0.05, 0.8, jobs))[:, None] * shuffle_share(racks, 5.0)
        + 2.0
    )
    arrivals = chance.uniform(0, span_s, jobs) if span_s else np.zeros(jobs)
    names = tuple(f"job-{number:04}" for number in range(jobs))
    return RackProblem(names, arrivals, work * 1e8, response).sorted_by_name()


def lp_batch(problem: RackProblem) -> float:
    """The source's LP for batches, solved as it is printed."""
    jobs, racks = problem.response_s.shape
    cost = np.zeros(jobs * racks + 1)
    cost[-1] = 1.0
    rows = np.zeros((jobs + 1, jobs * racks + 1))
    for job in range(jobs):
        rows[job, job * racks : (job + 1) * racks] = problem.response_s[job]
    rows[:jobs, -1] = -1.0
    rows[jobs, :-1] = problem.work_s.ravel()
    rows[jobs, -1] = -racks
    equal = np.zeros((jobs, jobs * racks + 1))
    for job in range(jobs):
        equal[job, job * racks : (job + 1) * racks] = 1.0
    found = linprog(cost, A_ub=rows, b_ub=np.zeros(jobs + 1), A_eq=equal, b_eq=np.ones(jobs), method="highs")
    return float(found.fun)


@pytest.mark.parametrize("seed", range(8))
def test_the_bound_of_a_batch_is_the_optimum_of_the_lp(seed: int) -> None:
    problem = drawn(12, 7, seed)
    assert batch_bound_s(problem) == pytest.approx(lp_batch(problem), rel=1e-6)


def test_the_online_lp_as_printed_is_the_mean_of_the_shortest_times() -> None:
    problem = drawn(40, 9, 1, span_s=500.0)
    assert online_bound_as_printed_s(problem) == pytest.approx(
        problem.response_s.min(axis=1).mean(), abs=1e-6
    )
    assert mean_bound_s(problem) >= online_bound_as_printed_s(problem)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 30), st.integers(1, 9), st.integers(0, 1000), st.sampled_from(["makespan", "mean"]))
def test_plans_are_feasible_and_never_below_a_bound(jobs: int, racks: int, seed: int, kind: str) -> None:
    problem = drawn(jobs, racks, seed, span_s=300.0 if seed % 2 else 0.0)
    planned = plan_racks(problem, kind, exchanges=200, seed=seed)  # type: ignore[arg-type]
    schedule = planned.schedule
    assert (schedule.starts_s >= planned.problem.arrivals_s).all()
    published = plan_as_published(problem, kind)  # type: ignore[arg-type]
    assert planned.objective_s >= bound_s(problem, kind) * (1 - 1e-9)  # type: ignore[arg-type]
    assert planned.objective_s <= published.objective_s * (1 + 1e-9)
    spans: dict[int, list[tuple[float, float]]] = {}
    for job, own in enumerate(schedule.racks_of(racks)):
        assert len(own) == len(set(own)) == schedule.widths[job]
        for rack in own:
            spans.setdefault(rack, []).append((schedule.starts_s[job], schedule.ends_s[job]))
    for found in spans.values():
        for (_, end), (start, _) in itertools.pairwise(sorted(found)):
            assert start >= end - 1e-9


@pytest.mark.parametrize("kind", ["makespan", "mean"])
def test_one_job_gets_its_best_number_of_racks(kind: str) -> None:
    problem = drawn(1, 12, 3)
    planned = plan_racks(problem, kind)  # type: ignore[arg-type]
    assert planned.schedule.widths.tolist() == [int(problem.response_s[0].argmin()) + 1]
    assert planned.objective_s == pytest.approx(problem.fastest_s[0])


def test_equal_jobs_that_divide_the_racks_meet_the_bound() -> None:
    response = 60.0 / np.arange(1, 5)
    problem = problem_of([(f"j{number}", 0.0, 1.0, response) for number in range(8)])
    planned = plan_racks(problem, "makespan")
    assert planned.objective_s == pytest.approx(8 * 60.0 / 4)
    assert bound_s(problem, "makespan") == pytest.approx(8 * 60.0 / 4)


def test_one_rack_is_served_longest_first_or_by_arrival() -> None:
    batch = drawn(9, 1, 2)
    schedule = prioritise(batch, np.ones(9, dtype=np.int64))
    assert schedule.order.tolist() == np.argsort(-batch.response_s[:, 0], kind="stable").tolist()
    assert schedule.objective(batch.arrivals_s, "makespan") == pytest.approx(batch.response_s.sum())
    online = drawn(9, 1, 2, span_s=50.0)
    assert source_order(online, np.ones(9, dtype=np.int64)).tolist() == list(range(9))


@pytest.mark.parametrize("seed", range(6))
def test_one_rack_a_job_is_within_the_bound_of_longest_first(seed: int) -> None:
    chance = np.random.default_rng(seed)
    lengths = chance.uniform(1, 10, 7)
    racks = 3
    problem = problem_of([(f"j{n}", 0.0, 0.0, np.full(racks, length)) for n, length in enumerate(lengths)])
    best = min(
        max(sum(lengths[job] for job in range(7) if where[job] == rack) for rack in range(racks))
        for where in itertools.product(range(racks), repeat=7)
    )
    found = prioritise(problem, np.ones(7, dtype=np.int64)).objective(problem.arrivals_s, "makespan")
    assert found <= (4 / 3 - 1 / (3 * racks)) * best + 1e-9


def test_the_shuffle_of_the_specification() -> None:
    assert shuffle_share(7, 5.0).tolist() == pytest.approx([1, 1.25, 1.11, 0.94, 0.80, 0.69, 0.61], abs=6e-3)


@pytest.mark.parametrize("racks", [2, 3])
def test_a_job_of_shuffle_alone_never_gets_two_or_three_racks(racks: int) -> None:
    problem = problem_of([("shuffle", 0.0, 0.0, 100.0 * shuffle_share(racks, 5.0))])
    assert plan_racks(problem, "makespan").schedule.widths.tolist() == [1]


def test_two_giants_get_three_racks_each_and_the_rest_one() -> None:
    chance = np.random.default_rng(5)
    numbers = np.arange(1, 8)
    giant = 5400 / numbers + 400 * shuffle_share(7, 5.0)
    jobs = [("giant-1", 0.0, 5.5e12, giant), ("giant-2", 0.0, 5.5e12, giant * 1.001)]
    jobs += [
        (f"tiny-{n:03}", 0.0, 2e8, np.full(7, chance.uniform(4, 6.5)) + 0.5 * (numbers > 1))
        for n in range(398)
    ]
    planned = plan_racks(problem_of(jobs), "makespan")
    widths = dict(zip(planned.problem.names, planned.schedule.widths.tolist(), strict=True))
    assert widths["giant-1"] == widths["giant-2"] == 3
    assert {width for name, width in widths.items() if name.startswith("tiny")} == {1}


def test_an_endless_penalty_spreads_all_data() -> None:
    problem = drawn(40, 5, 4)
    alpha = 1.0
    spread = penalised(problem.response_s, problem.input_bytes, alpha)
    penal = RackProblem(problem.names, problem.arrivals_s, problem.input_bytes, spread)
    planned = plan_racks(penal, "makespan")
    assert planned.objective_s == pytest.approx(alpha * problem.input_bytes.sum() / 5, rel=0.01)


@pytest.mark.parametrize("seed", range(20))
def test_batches_are_close_to_the_bound(seed: int) -> None:
    assert gap(plan_racks(drawn(60, 8, seed, spread=0.8), "makespan"), "makespan") <= 0.05


@pytest.mark.parametrize("kind", ["makespan", "mean"])
@pytest.mark.parametrize("seed", range(4))
def test_the_path_in_few_looks_is_the_path_in_all(kind: str, seed: int) -> None:
    problem = drawn(25, 6, seed, span_s=200.0 * (seed % 2))
    literal = provision_literally(problem, kind)  # type: ignore[arg-type]
    found = provision_on_path(Evaluator(problem, kind))  # type: ignore[arg-type]
    if kind == "makespan":
        assert found.value_s == pytest.approx(literal.value_s)
    assert found.value_s >= literal.value_s - 1e-9


def test_the_path_raises_the_longest_job_each_time() -> None:
    problem = drawn(10, 5, 7)
    path = path_of(problem.response_s)
    widths = np.ones(10, dtype=np.int64)
    for step, job in enumerate(path.tolist()):
        lengths = np.where(widths < 5, problem.lengths(widths), -1.0)
        assert job == int(np.argmax(lengths))
        widths[job] += 1
        assert widths_at(path, step + 1, 10).tolist() == widths.tolist()


@pytest.mark.parametrize("kind", ["makespan", "mean"])
def test_exchanges_keep_their_own_value_true(kind: str) -> None:
    problem = drawn(200, 10, 8, span_s=900.0)
    first = provision_on_path(Evaluator(problem, kind))  # type: ignore[arg-type]
    found = exchange(problem, kind, first, tries=2000, chance=np.random.default_rng(0))  # type: ignore[arg-type]
    assert found.value_s <= first.value_s
    again = prioritise(problem, found.widths, found.order)
    assert again.objective(problem.arrivals_s, kind) == pytest.approx(found.value_s)  # type: ignore[arg-type]
    assert sorted(found.order.tolist()) == list(range(200))


def test_the_order_of_jobs_does_not_count() -> None:
    problem = drawn(30, 6, 9, span_s=100.0)
    turned = RackProblem(
        problem.names[::-1], problem.arrivals_s[::-1], problem.input_bytes[::-1], problem.response_s[::-1]
    )
    names = [f"r{number}" for number in range(6)]
    plans = [rack_plan(plan_racks(each, "mean"), "mean", names) for each in (problem, turned)]
    assert plans[0] == plans[1]


@pytest.mark.parametrize(
    ("arrival", "size", "response", "told"),
    [
        (-1.0, 0.0, [1.0, 1.0], "arrival"),
        (0.0, np.nan, [1.0, 1.0], "input"),
        (0.0, 0.0, [1.0, 0.0], "completion time"),
        (0.0, 0.0, [np.inf, 1.0], "completion time"),
    ],
)
def test_numbers_out_of_range_are_refused(
    arrival: float, size: float, response: list[float], told: str
) -> None:
    with pytest.raises(InputError, match=told):
        problem_of([("odd", arrival, size, np.array(response))])


def test_no_job_and_two_of_a_name_are_refused() -> None:
    with pytest.raises(InputError, match="at least one"):
        problem_of([])
    with pytest.raises(InputError, match="same name"):
        problem_of([("a", 0.0, 0.0, np.ones(2)), ("a", 0.0, 0.0, np.ones(2))])


def test_a_bound_holds_for_every_schedule_of_few_jobs() -> None:
    problem = drawn(4, 3, 11, span_s=40.0)
    for kind in ("makespan", "mean"):
        best = min(
            prioritise(problem, np.array(widths), np.array(order)).objective(problem.arrivals_s, kind)
            for widths in itertools.product(range(1, 4), repeat=4)
            for order in itertools.permutations(range(4))
        )
        assert bound_s(problem, kind) <= best + 1e-9
        assert plan_racks(problem, kind).objective_s <= best * 1.02


def test_arrivals_count_from_the_first_submission_whatever_the_order_of_the_runs() -> None:
    runs = [
        BatchJob(
            name=f"at-{since_s}",
            engine="hadoop",
            submitted_ms=1_700_000_000_000 + 1000 * since_s,
            stages=[BatchStage(name="map", n_tasks=2, bytes=StageBytes(read=10**9))],
        )
        for since_s in (90, 0, 30)
    ]
    found = rack_jobs(runs)
    assert [(job.name, job.arrival_s) for job in found] == [("at-90", 90.0), ("at-0", 0.0), ("at-30", 30.0)]
    assert all(job.input_bytes == 1e9 for job in found)
