"""Simulated racks: shares of links, schedulers, lost racks, and what must hold whatever the jobs are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from kwiken.batch.rack_simulation.schedulers import (
    FairShare,
    Planned,
    ShortestFirst,
    YarnLike,
    remote_share,
    work_s,
)
from kwiken.batch.rack_simulation.simulation import FlowTable, max_min_rates, simulate_racks
from kwiken.batch.racks.response import RackHardware, RackJob, RackStage
from papers.corral.runs import ShuffleWatcher, smallest_bottleneck_rates

RACK = RackHardware(slots=8, machines=4, nic_bytes_per_s=100.0, uplink_bytes_per_s=80.0)


def job(name: str, maps: int, shuffled: float, at_s: float = 0.0, reduces: int = 4) -> RackJob:
    stages = (RackStage(maps, 10.0), RackStage(reduces, 5.0, shuffled, (0,)))
    return RackJob(name, at_s, maps * 10.0, stages)


def flows(*rows: tuple[int, int, float, float]) -> FlowTable:
    table = FlowTable()
    for number, (source, target, left, weight) in enumerate(rows):
        table.add(np.array([source]), target, np.array([left]), weight=weight, group=number, coflow=number)
    return table


def test_links_are_shared_by_max_min() -> None:
    table = flows((0, 1, 100, 1), (0, 2, 100, 1), (1, 2, 100, 1))
    rates = max_min_rates(table, np.array([10.0, 10.0, 10.0, 10.0, 10.0, 4.0]), 1e9)
    assert rates.tolist() == pytest.approx([8.0, 2.0, 2.0])
    capped = max_min_rates(table, np.full(6, 10.0), 3.0)
    assert capped.tolist() == pytest.approx([3.0, 3.0, 3.0])
    weighted = max_min_rates(flows((0, 1, 9, 3), (0, 2, 9, 1)), np.full(6, 8.0), 1e9)
    assert weighted.tolist() == pytest.approx([6.0, 2.0])


def test_varys_ends_the_smallest_first() -> None:
    table = flows((0, 1, 100, 1), (0, 2, 10, 1))
    rates = smallest_bottleneck_rates(table, np.full(6, 10.0), 1e9)
    assert rates[1] == pytest.approx(10.0)
    assert rates[0] == pytest.approx(0.0, abs=1e-6)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.booleans())
def test_no_link_carries_more_than_it_can_and_none_is_left_idle(seed: int, varys: bool) -> None:
    chance = np.random.default_rng(seed)
    racks = int(chance.integers(2, 6))
    rows = []
    for _ in range(int(chance.integers(1, 20))):
        source, target = chance.permutation(racks)[:2].tolist()
        rows.append((source, target, float(chance.uniform(1, 100)), float(chance.integers(1, 5))))
    table, links = flows(*rows), chance.uniform(1, 50, 2 * racks)
    cap = float(chance.uniform(1, 30))
    rates = (smallest_bottleneck_rates if varys else max_min_rates)(table, links, cap)
    used = np.bincount(table.source, rates, 2 * racks) + np.bincount(table.target + racks, rates, 2 * racks)
    assert (used <= links * (1 + 1e-6)).all()
    full = used >= links * (1 - 1e-6)
    at_cap = rates >= table.weight * cap * (1 - 1e-6)
    if not varys:
        assert (full[table.source] | full[table.target + racks] | at_cap).all()


def test_a_job_alone_takes_its_waves_and_its_shuffle() -> None:
    found = simulate_racks([job("a", 16, 0.0)], 1, RACK, YarnLike(), grain_s=0.0)
    assert found.makespan_s == pytest.approx(25.0)  # two waves of maps, then reduces
    assert found.slot_s == pytest.approx(16 * 10 + 4 * 5)
    shuffled = simulate_racks([job("a", 8, 640.0)], 2, RACK, Planned({"a": [0, 1]}, {"a": 0}), grain_s=0.0)
    assert shuffled.crossing_bytes == pytest.approx(320.0)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000))
def test_all_jobs_end_and_a_plan_in_one_rack_crosses_nothing(seed: int) -> None:
    chance = np.random.default_rng(seed)
    jobs = [
        job(
            f"j{n}", int(chance.integers(1, 30)), float(chance.uniform(0, 5000)), float(chance.uniform(0, 50))
        )
        for n in range(8)
    ]
    racks_of = {each.name: [int(chance.integers(0, 3))] for each in jobs}
    priority = {each.name: place for place, each in enumerate(jobs)}
    schedulers = (
        YarnLike(),
        Planned(racks_of, priority),
        Planned(racks_of, priority, False),
        ShuffleWatcher(8),
    )
    for scheduler in schedulers:
        found = simulate_racks(jobs, 3, RACK, scheduler, seed=seed)
        assert (found.ends_s > found.arrivals_s).all()
        assert 0 < found.greatest_load <= 1
        again = simulate_racks(jobs, 3, RACK, scheduler, seed=seed)
        assert (again.ends_s == found.ends_s).all()
        if isinstance(scheduler, Planned) and scheduler.data_placed:
            assert found.crossing_bytes == 0


def test_jobs_without_a_plan_use_the_slots_that_are_left() -> None:
    plan = Planned({"a": [0]}, {"a": 0})
    found = simulate_racks([job("a", 8, 0.0), job("x", 8, 0.0)], 2, RACK, plan, grain_s=0.0)
    assert found.makespan_s == pytest.approx(15.0)


def test_share_of_blocks_far_from_a_job() -> None:
    assert remote_share(7, 7) == 0.0
    assert remote_share(1, 3) == pytest.approx(1 / 3)
    assert remote_share(2, 3) == 0.0


def test_baselines_do_what_their_names_say() -> None:
    """Nine short jobs behind a long one on one rack of ten slots: shortest first and fair share let them by."""
    hardware = RackHardware(slots=10, machines=10, nic_bytes_per_s=1e9, uplink_bytes_per_s=1e9)
    long = RackJob("long", 0.0, 0.0, (RackStage(100, 10.0),))
    short = [RackJob(f"short{at}", 1.0, 0.0, (RackStage(10, 1.0),)) for at in range(9)]
    jobs = [long, *short]
    mean = {
        one.name: float(simulate_racks(jobs, 1, hardware, one, grain_s=0.0).completion_s.mean())
        for one in (YarnLike(), ShortestFirst(), FairShare())
    }
    assert work_s(long) == 1000.0
    assert mean["shortest first"] < 0.3 * mean["Yarn-CS"]
    assert mean["shortest first"] < mean["fair share"] < 0.5 * mean["Yarn-CS"]
