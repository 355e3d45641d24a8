"""True state of a simulated cluster: performance agrees with a computation from scratch after every change."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from kwiken.allocator.workloads.sources import SOURCES
from papers.worlds.fleet.platforms import LOCAL, cluster_of
from papers.worlds.fleet.simulator.state import MIN_SPEED, State

CLUSTER = cluster_of(LOCAL)
JOBS = 6


def filled(seed: int) -> State:
    rng = np.random.default_rng(seed)
    state = State(CLUSTER, JOBS)
    state.tolerated[:] = rng.uniform(0.05, 1, state.tolerated.shape)
    state.caused[:] = rng.uniform(0, 0.5, state.caused.shape)
    state.demand[:] = rng.uniform(0.5, 3, JOBS)
    state.efficiency[:] = rng.uniform(0.5, 1, JOBS)
    for job in range(JOBS):
        state.start(job, 0.0)
    return state


def from_scratch(state: State, replicas: dict[int, tuple[int, int, float]]) -> list[float]:
    """Performance of every job by the formulas of Quasar section 3.5, one replica at a time."""
    total = [0.0] * JOBS
    for number, (job, node, rate) in replicas.items():
        pressure = np.zeros(len(SOURCES))
        for other, (owner, where, _) in replicas.items():
            if where == node and other != number:
                pressure += state.caused[:, owner]
        losses = []
        for place, felt in enumerate(np.minimum(pressure, 1.0).tolist()):
            limit = float(state.tolerated[place, job])
            losses.append(0.05 * min(felt / limit, 1.0) ** 4 + max(felt - limit, 0.0))
        total[job] += rate * max(1.0 - max(losses), MIN_SPEED)
    return [float(state.efficiency[job]) * total[job] for job in range(JOBS)]


@given(
    seed=st.integers(0, 1000),
    changes=st.lists(
        st.tuples(st.integers(0, JOBS - 1), st.integers(0, 3), st.floats(0.1, 2), st.booleans()), max_size=30
    ),
)
def test_performance_is_that_of_a_computation_from_scratch(
    seed: int, changes: list[tuple[int, int, float, bool]]
) -> None:
    state = filled(seed)
    replicas: dict[int, tuple[int, int, float]] = {}
    for moment, (job, node, rate, leaves) in enumerate(changes, start=1):
        mine = [number for number, (owner, _, _) in replicas.items() if owner == job]
        if leaves and mine:
            del replicas[mine[0]]
            nodes = [state.drop(mine[0], 1.0)]
        else:
            replicas[state.add(job, node, rate, 1.0)] = job, node, rate
            nodes = [node]
        state.settle(nodes, (job,), float(moment))
        assert state.performance == pytest.approx(from_scratch(state, replicas), abs=1e-9)
        assert state.total_cores == pytest.approx(len(replicas))
        assert state.total_used == pytest.approx(state.used.sum())


@given(seed=st.integers(0, 1000), counts=st.lists(st.integers(9, 20), min_size=2, max_size=3))
def test_nodes_settled_one_by_one_perform_to_the_last_bit_as_nodes_settled_together(
    seed: int, counts: list[int]
) -> None:
    rng = np.random.default_rng(seed)
    replicas = [
        (int(rng.integers(len(counts), JOBS)) if place else node, node, float(rng.uniform(0.1, 2)))
        for node, count in enumerate(counts)
        for place in range(count)
    ]
    together, apart = filled(seed), filled(seed)
    for state in (together, apart):
        state.caused /= 10  # below what counts as full pressure, so that every bit of the sum counts
        for job, node, rate in replicas:
            state.add(job, node, rate, 1.0)
    together.settle(range(len(counts)), (), 1.0)
    for node in range(len(counts)):
        apart.settle((node,), (), 1.0)
    # These jobs have one replica each; sums over several nodes may be rounded in another order.
    alone = range(len(counts))
    assert together.performance[alone].tolist() == apart.performance[alone].tolist()


def test_work_is_integrated_at_the_performance_that_was() -> None:
    state = State(CLUSTER, 1)
    state.tolerated[:] = 1.0
    state.remaining[0], state.demand[0] = 10.0, 2.0
    state.start(0, 5.0)
    replica = state.add(0, 0, 2.0, 4.0)
    state.settle((0,), (0,), 5.0)
    assert state.finish_s[0] == 10.0
    state.advance(np.array([0]), 7.0)  # 4 of 10 are done
    state.rerate(replica, 1.0)
    state.settle((0,), (), 7.0)
    assert (state.remaining[0], state.finish_s[0]) == (6.0, 13.0)
    state.advance(np.array([0]), 13.0)
    assert (state.active_s[0], state.kept_s[0], state.served[0]) == (8.0, 2.0, 5.0)
    assert state.alone_s[0] == 5.0
    assert state.spent[0] == 8 * 4.0
    assert state.forget(0) == 32.0
    assert state.served[0] == state.spent[0] == 0


def test_a_service_performs_at_most_what_its_load_asks() -> None:
    state = State(CLUSTER, 1)
    state.tolerated[:] = 1.0
    state.service[0], state.demand[0] = True, 1.0
    state.start(0, 0.0)
    state.add(0, 0, 4.0, 8.0)
    state.settle((0,), (0,), 0.0)
    assert state.used[0] == 2.0  # a quarter of its cores
    state.advance(np.array([0]), 10.0)
    assert (state.served[0], state.full_s[0]) == (10.0, 40.0)
    state.demand[0] = 5.0
    state.settle((), (0,), 10.0)
    assert state.used[0] == 8.0  # all of them are not enough
    assert np.isinf(state.finish_s[0])


def test_replicas_of_one_workload_press_on_one_another_and_not_on_themselves() -> None:
    state = State(CLUSTER, 1)
    state.tolerated[:], state.caused[:] = 0.5, 0.5
    state.start(0, 0.0)
    state.add(0, 0, 1.0, 1.0)
    state.settle((0,), (0,), 0.0)
    assert state.performance[0] == 1.0
    state.add(0, 0, 1.0, 1.0)
    state.settle((0,), (0,), 1.0)
    assert state.performance[0] == pytest.approx(2 * 0.95)  # at the tolerated pressure 5% is lost


def test_neighbours_leave_a_replica_a_tenth_of_its_performance() -> None:
    state = State(CLUSTER, 2)
    state.tolerated[:], state.caused[:, 1] = 0.01, 1.0
    for job in range(2):
        state.start(job, 0.0)
        state.add(job, 0, 2.0, 1.0)
    state.settle((0,), (), 0.0)
    assert state.performance.tolist() == pytest.approx([0.2, 2.0])


def test_room_for_replicas_grows() -> None:
    state = State(CLUSTER, 1)
    state.tolerated[:] = 1.0
    state.start(0, 0.0)
    numbers = [state.add(0, place % 40, 1.0, 0.1) for place in range(3000)]
    assert sorted(numbers) == list(range(3000))
    state.settle(range(40), (0,), 0.0)
    assert state.performance[0] == pytest.approx(3000.0)


def test_jobs_that_a_change_touches_are_told_in_their_order() -> None:
    state = filled(0)
    for job in (3, 0, 4):
        state.add(job, 0, 1.0, 1.0)
    assert state.settle((0,), (5, 1), 0.0).tolist() == [0, 1, 3, 4, 5]


def test_a_job_that_stands_still_uses_nothing_and_has_no_end() -> None:
    state = State(CLUSTER, 1)
    state.tolerated[:] = 1.0
    state.remaining[0], state.demand[0] = 10.0, 1.0
    state.start(0, 0.0)
    state.add(0, 0, 2.0, 4.0)
    state.settle((0,), (0,), 0.0)
    assert (state.total_used, state.finish_s[0]) == (4.0, 5.0)
    state.paused[0] = True
    state.settle((), (0,), 1.0)
    assert (state.performance[0], state.used[0], state.total_used) == (0.0, 0.0, 0.0)
    assert np.isinf(state.finish_s[0])
    state.paused[0] = False
    state.settle((), (0,), 3.0)
    assert (state.used[0], state.finish_s[0]) == (4.0, 7.0)
    state.remaining[0], state.paused[0] = 0.0, True
    state.settle((), (0,), 3.0)
    assert np.isinf(state.finish_s[0])


def one_at_work(demand: float = 1.0) -> tuple[State, int]:
    """A job with work of 10 that one replica does at a speed of 1 from the moment 0, and the replica."""
    state = State(CLUSTER, 2)
    state.tolerated[:] = 1.0
    state.remaining[0], state.demand[0] = 10.0, demand
    state.start(0, 0.0)
    replica = state.add(0, 0, 1.0, 4.0)
    state.settle((0,), (0, 1), 0.0)
    return state, replica


def test_work_that_is_overdue_ends_at_once() -> None:
    state, _ = one_at_work()
    state.settle((), (0,), 12.0)
    assert state.finish_s[0] == 12.0


def test_quality_is_kept_at_95_percent_of_the_demand() -> None:
    for demand, kept_s in ((0.8, 4.0), (1 / 0.95, 4.0), (1.06, 0.0)):
        state, _ = one_at_work(demand)
        state.advance(np.array([0]), 4.0)
        assert state.kept_s[0] == kept_s


def test_time_counts_from_the_start_of_a_job_to_its_end() -> None:
    state, _ = one_at_work()
    state.advance(np.array([0, 1]), 4.0)
    assert state.active_s.tolist() == [4.0, 0.0]
    assert state.served.tolist() == [4.0, 0.0]
    state.start(1, 5.0)
    state.running[0] = False
    state.settle((), (0, 1), 7.0)
    assert state.active_s.tolist() == [4.0, 2.0]
    state.start(1, 9.0)  # a second start does not begin its time anew
    state.advance(np.array([1]), 10.0)
    assert state.active_s[1] == 5.0


def test_performance_alone_is_that_of_the_replicas_of_each_moment() -> None:
    state, first = one_at_work(demand=2.0)
    job = np.array([0])
    state.advance(job, 4.0)
    second = state.add(0, 0, 3.0, 1.0)
    state.advance(job, 6.0)
    state.drop(first, 4.0)
    state.advance(job, 7.0)
    state.rerate(second, 0.5)
    state.advance(job, 17.0)
    assert state.alone_s[0] == (4 * 1.0 + 2 * 4.0 + 1 * 3.0 + 10 * 0.5) / 2.0


def test_a_job_without_replicas_performs_nothing_in_spite_of_rounding() -> None:
    """Sums of these rates do not come back to 0 exactly."""
    state = filled(1)
    state.remaining[:] = 10.0
    rates = 0.1, 0.2, 0.3
    assert sum(rates) - 0.1 - 0.2 - 0.3 > 0
    replicas = [state.add(0, node, rate, 1.0) for node, rate in enumerate(rates)]
    state.settle((0, 1, 2), (), 1.0)
    for replica in replicas:
        state.settle((state.drop(replica, 1.0),), (0,), 2.0)
    assert (state.performance[0], state.used[0]) == (0.0, 0.0)
    assert np.isinf(state.finish_s[0])


def test_replicas_that_come_and_go_need_no_more_room_than_there_is_at_once() -> None:
    state, _ = one_at_work()
    numbers = set()
    for _ in range(5000):
        numbers.add(replica := state.add(1, 0, 1.0, 1.0))
        state.drop(replica, 1.0)
    assert len(numbers) == 1
