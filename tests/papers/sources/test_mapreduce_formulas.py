"""The published formulas: worked anchors, laws, tuples for a deadline, and rates."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from kwiken.base.errors import InputError
from papers.corral.tuples.deadline_tuples import candidates
from papers.mrcute.formulas import (
    MapReduceJob,
    MapReduceProfile,
    SlotsOfMachine,
    reserved_times,
)
from papers.mrcute.prediction import TaskFlow, fit_profile

SLOTS = SlotsOfMachine(map_slots=8, reduce_slots=2)
SORT = MapReduceProfile(s_map=1, s_reduce=1, b_map=200, b_reduce=400, b_disk=250)  # megabits per second


def sort_on(machines: int) -> MapReduceJob:
    return MapReduceJob(input_bytes=1.6e6, n_map=1600, n_reduce=2 * machines, profile=SORT)


@pytest.mark.parametrize(
    ("machines", "bandwidth", "stages"),
    [
        (20, 300, (50, 320, 160)),
        (20, 250, (50, 320, 160)),
        (20, 125, (50, 480, 160)),
        (10, 300, (100, 640, 320)),
        (10, 100, (100, 1120, 320)),
        # ceil(1600 / 240) = 7 waves of 5 s each.
        (30, 300, (35, 213.3, 106.7)),
    ],
)
def test_reserved_anchors(machines: int, bandwidth: float, stages: tuple[float, float, float]) -> None:
    found = reserved_times(sort_on(machines), SLOTS, machines, bandwidth)
    assert (found.map[0], found.shuffle[0], found.reduce[0]) == pytest.approx(stages, abs=0.05)


@given(
    n=st.integers(1, 200),
    b=st.floats(1, 1e4),
    size=st.floats(0, 1e9),
    maps=st.integers(1, 5000),
    reduces=st.integers(0, 500),
    k=st.floats(0.1, 10),
)
def test_laws_of_the_reserved_form(n: int, b: float, size: float, maps: int, reduces: int, k: float) -> None:
    def times(machines: int, bandwidth: float, factor: float = 1.0) -> tuple[float, ...]:
        job = MapReduceJob(input_bytes=factor * size, n_map=maps, n_reduce=reduces, profile=SORT)
        found = reserved_times(job, SLOTS, machines, bandwidth)
        return float(found.map[0]), float(found.shuffle[0]), float(found.reduce[0]), float(found.total[0])

    here = times(n, b)
    assert times(n + 1, b)[3] <= here[3]
    more = times(n, 2 * b)
    assert more[3] <= here[3]
    assert (more[0], more[2]) == (here[0], here[2])
    if b >= SORT.b_disk:
        assert more == here
    assert times(n, b, k) == pytest.approx([k * value for value in here])


def test_many_tuples_are_one_array() -> None:
    machines, bandwidth = np.meshgrid(np.arange(1, 101), np.linspace(10, 1000, 100))
    found = reserved_times(sort_on(20), SLOTS, machines.ravel(), bandwidth.ravel())
    assert found.total[1234] == reserved_times(sort_on(20), SLOTS, 35, bandwidth.ravel()[1234]).total[0]


def test_time_is_inverse_to_machines_where_waves_divide() -> None:
    job = MapReduceJob(input_bytes=1e6, n_map=8 * 240, n_reduce=2 * 240, profile=SORT)
    machines = np.array([1, 2, 3, 4, 5, 6, 8, 10, 12])
    total = reserved_times(job, SLOTS, machines, 125).total
    assert total * machines == pytest.approx(total[0])


def test_no_output_of_maps_leaves_the_map_term() -> None:
    profile = MapReduceProfile(s_map=1e15, s_reduce=1, b_map=200, b_reduce=400, b_disk=250)
    found = reserved_times(
        MapReduceJob(input_bytes=1e6, n_map=100, n_reduce=10, profile=profile), SLOTS, 5, 100
    )
    assert found.total == pytest.approx(found.map)


@given(
    deadline=st.floats(50, 3000),
    slack=st.floats(0, 0.9),
    remote=st.booleans(),
    share=st.booleans(),
)
def test_candidates_meet_the_deadline_with_the_least_bandwidth(
    deadline: float, slack: float, remote: bool, share: bool
) -> None:
    job = MapReduceJob(input_bytes=1.6e6, n_map=1600, n_reduce=40, profile=SORT, remote_maps=remote)
    slots = SlotsOfMachine(map_slots=8, reduce_slots=2, share=share)
    budget = deadline * (1 - slack)
    found = {one.n: one for one in candidates(job, slots, deadline, slack=slack, n_max=60)}
    for machines in range(1, 61):
        feasible = reserved_times(job, slots, machines, np.inf).total[0] <= budget
        assert feasible == (machines in found)
    for machines, one in found.items():
        total = reserved_times(job, slots, machines, one.bandwidth).total[0]
        assert total == pytest.approx(one.total_s)
        assert total <= budget * (1 + 1e-9)
        if total > budget * (1 - 1e-6):
            assert reserved_times(job, slots, machines, 0.99 * one.bandwidth).total[0] > budget


def test_candidates_of_a_job_that_moves_nothing() -> None:
    job = MapReduceJob(input_bytes=1e6, n_map=100, n_reduce=0, profile=SORT)
    assert {one.bandwidth for one in candidates(job, SLOTS, 1e6, n_max=3)} == {0.0}
    assert candidates(job, SLOTS, 1e-3, n_max=3) == []


def test_rates_come_back_from_generated_tasks() -> None:
    rng = np.random.default_rng(7)
    size = rng.uniform(50, 150, 400)
    maps = [TaskFlow(s / 20, s, s / 4) for s in size]
    reduces = [TaskFlow(s / 2 / 5, s, s / 2) for s in size]
    found = fit_profile(maps, reduces, disk_bytes_per_s=99)
    assert (found.b_map, found.s_map, found.s_reduce, found.b_reduce) == pytest.approx((20, 4, 2, 5))
    assert fit_profile(maps, [], disk_bytes_per_s=99).s_reduce == 1


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: MapReduceProfile(s_map=0, s_reduce=1, b_map=1, b_reduce=1, b_disk=1), "s_map"),
        (lambda: MapReduceProfile(s_map=1, s_reduce=1, b_map=float("nan"), b_reduce=1, b_disk=1), "b_map"),
        (lambda: MapReduceJob(input_bytes=-1, n_map=1, n_reduce=0, profile=SORT), "input_bytes"),
        (lambda: MapReduceJob(input_bytes=1, n_map=0, n_reduce=0, profile=SORT), "n_map"),
        (lambda: SlotsOfMachine(map_slots=0, reduce_slots=1), "map_slots"),
        (lambda: reserved_times(sort_on(1), SLOTS, 0, 1), "machines"),
        (lambda: reserved_times(sort_on(1), SLOTS, 1, float("nan")), "bandwidth"),
        (lambda: candidates(sort_on(1), SLOTS, 0, n_max=1), "deadline"),
        (lambda: candidates(sort_on(1), SLOTS, 1, slack=1, n_max=1), "slack"),
        (lambda: candidates(sort_on(1), SLOTS, 1, n_max=0), "n_max"),
        (lambda: fit_profile([], [], disk_bytes_per_s=1), "maps"),
    ],
)
def test_numbers_out_of_range_are_refused(make: object, told: str) -> None:
    assert callable(make)
    with pytest.raises(InputError, match=told):
        make()
