"""True state of a simulated cluster: performance agrees with a computation from scratch after every change."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from kwiken.allocator.workloads import SOURCES
from kwiken.lab.fleet.platforms import LOCAL, cluster_of
from kwiken.lab.fleet.simulator.state import MIN_SPEED, State

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
    state.rerate(replica, 1.0)
    state.settle((0,), (), 7.0)  # 4 of 10 are done
    assert (state.remaining[0], state.finish_s[0]) == (6.0, 13.0)
    state.advance(np.array([0]), 13.0)
    assert (state.active_s[0], state.kept_s[0], state.served[0]) == (8.0, 2.0, 5.0)
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


def test_room_for_replicas_grows() -> None:
    state = State(CLUSTER, 1)
    state.tolerated[:] = 1.0
    state.start(0, 0.0)
    numbers = [state.add(0, place % 40, 1.0, 0.1) for place in range(3000)]
    assert len(set(numbers)) == 3000
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
