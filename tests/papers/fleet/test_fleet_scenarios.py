"""Scenarios as the sources describe them: clusters, arrivals, loads, durations, phases, failures."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pytest

from kwiken.allocator.placement.headroom import SOURCE_CAUTION
from kwiken.allocator.placement.request import request_for
from kwiken.allocator.schedulers.baselines import reservation
from kwiken.allocator.workloads.profile import Size
from kwiken.allocator.workloads.workload import Measure
from papers.worlds.fleet.application_world import applications
from papers.worlds.fleet.catalogue import SCENARIOS
from papers.worlds.fleet.generators import CORES, MEMORY_GB
from papers.worlds.fleet.platforms import CLOUD, LOCAL, cloud, cluster_of, some_of_cloud
from papers.worlds.fleet.simulator.scenario import Job
from papers.worlds.fleet.targets import targets
from papers.worlds.fleet.world import World, random_outages


class Told(NamedTuple):
    """What a source says of a scenario (Paragon 5.4, Quasar 5.3).

    Attributes:
        median_s: median duration alone on the best platform; None where `load` fixes durations.
        load: share of the cores that are needed while jobs arrive.
    """

    jobs: int
    last_s: float
    nodes: int
    known: int
    median_s: float | None = None
    load: float | None = None
    phases: int = 1
    outages: int = 0


TOLD = {
    "local-low": Told(178, 1770.0, 40, 20, median_s=180.0),
    "local-medium": Told(178, 1770.0, 40, 20, median_s=330.0),
    "local-phases": Told(178, 1770.0, 40, 20, median_s=330.0, phases=3),
    "local-full": Told(178, 177.0, 40, 20, median_s=330.0),
    "cloud-low": Told(2500, 2499.0, 1000, 50, load=0.4),
    "cloud-high": Told(5000, 4999.0, 1000, 50, load=0.85),
    "cloud-full": Told(8500, 7499.0, 1000, 50, load=0.95),
    "cloud-failures": Told(2500, 2499.0, 1000, 50, load=0.4, outages=50),
    "cloud-low-unlike": Told(2500, 2499.0, 1000, 50, load=0.4),
    "azure": Told(2500, 2499.0, 504, 50, load=0.85),
    "gce": Told(500, 499.0, 100, 50, load=0.85),
    "targets": Told(1200, 1199.0, 200, 30, load=0.9),
    "targets-swings": Told(1200, 1199.0, 200, 30, load=0.6, outages=10),
}


def test_every_scenario_is_told() -> None:
    assert {*TOLD} == {*SCENARIOS}


def ideal_s(job: Job) -> float:
    """Duration of a job alone on its best platform, or of a service's life."""
    if math.isfinite(job.duration_s):
        return job.duration_s
    return sum(phase.work / phase.reference for phase in job.phases)


def load_of_targets(world: World) -> float:
    """Share of the cores that ideal allocations need: 1 to 4 replicas of 1, 2 or 4 cores, one for single nodes."""
    jobs = world.scenario.jobs
    single = np.array([job.workload.max_replicas == 1 for job in jobs])
    needed = 7 / 3 * np.where(single, 1.0, 2.5) @ [ideal_s(job) for job in jobs]
    return float(needed) / (float(world.scenario.cluster.cores.sum()) * len(jobs))


@pytest.mark.parametrize("name", TOLD)
def test_a_scenario_is_as_its_source_says(name: str) -> None:
    told, world = TOLD[name], SCENARIOS[name].draw(5)
    jobs, cluster = world.scenario.jobs, world.scenario.cluster
    arrivals_s = np.array([job.arrival_s for job in jobs])
    assert (len(jobs), len(cluster.nodes)) == (told.jobs, told.nodes)
    assert (np.diff(arrivals_s) >= 0).all()
    assert arrivals_s[-1] == pytest.approx(told.last_s, rel=0.02 if name == "local-medium" else 1e-12)
    assert len(world.known.base) == told.known
    assert {len(job.phases) for job in jobs} == {told.phases}
    assert len({outage.node for outage in world.scenario.outages}) == told.outages
    swings = [[step.factor for step in job.steps] for job in jobs if job.steps]
    assert bool(swings) == (name == "targets-swings")
    if swings:  # days begin at any hour
        assert np.mean(np.argmin(swings, axis=1) < 12) == pytest.approx(0.5, abs=0.05)
    durations_s = np.array([ideal_s(job) for job in jobs])
    if told.median_s is not None:
        assert np.median(durations_s) == pytest.approx(told.median_s, rel=0.15)
    assert np.log(durations_s).std() == pytest.approx(0.5, abs=0.06)
    if told.nodes == 200:
        assert load_of_targets(world) == pytest.approx(told.load, rel=0.1)
    assert world.seed == 5


@pytest.mark.parametrize("name", [name for name, told in TOLD.items() if told.load and told.known == 50])
def test_applications_need_the_load_that_is_told(name: str) -> None:
    world = SCENARIOS[name].draw(6)
    jobs = world.scenario.jobs
    needed = sum(ideal_s(job) * size[0].cores for job, size in zip(jobs, world.sizes, strict=True))
    offered = float(world.scenario.cluster.cores.sum()) * jobs[-1].arrival_s
    assert needed / offered == pytest.approx(TOLD[name].load)


def test_arrivals_of_the_medium_scenario_are_uneven_by_a_second() -> None:
    gaps_s = np.concatenate(
        [
            np.diff([job.arrival_s for job in SCENARIOS["local-medium"].draw(seed).scenario.jobs])
            for seed in (1, 2)
        ]
    )
    assert gaps_s.mean() == pytest.approx(10.0, abs=0.2)
    assert gaps_s.std() == pytest.approx(1.0, abs=0.15)
    even = np.diff([job.arrival_s for job in SCENARIOS["local-phases"].draw(1).scenario.jobs])
    assert even.tolist() == [10.0] * 177


def test_the_full_cloud_has_a_burst_of_a_thousand_after_the_first_half() -> None:
    arrivals_s = np.array([job.arrival_s for job in SCENARIOS["cloud-full"].draw(0).scenario.jobs])
    per_s = np.bincount(arrivals_s.astype(int), minlength=7500)
    assert set(np.delete(per_s, slice(3750, 3801))) == {1}
    assert per_s[3750:3801].sum() == 1051
    assert set(per_s[3751:3800]) == {21}


def test_a_later_workload_passes_one_that_does_not_fit_only_among_workloads_with_targets() -> None:
    looks = {name: SCENARIOS[name].draw(0).scenario.look_ahead for name in ("local-low", "gce", "targets")}
    assert looks == {"local-low": 1, "gce": 1, "targets": 4}


def test_fewer_types_are_those_of_the_cloud_spread_over_it() -> None:
    for places, servers, name in (((0, 2, 4, 6, 8, 10, 12, 13), 504, "azure"), ((3, 6, 9, 11), 100, "gce")):
        nodes = SCENARIOS[name].draw(0).scenario.cluster
        assert nodes.classes == cluster_of(tuple(CLOUD[place] for place in places)).classes
        assert np.bincount(nodes.class_of).tolist() == [servers // len(places)] * len(places)
    assert [one.count for one in some_of_cloud((0, 13), 30)] == [15, 15]


def test_platforms_that_are_less_alike_are_near_the_best_for_fewer() -> None:
    near = []
    for name in ("cloud-low", "cloud-low-unlike"):
        het = SCENARIOS[name].draw(0).truth.het
        near.append(float((het >= math.log(0.95)).mean()))
    assert near[0] > near[1] + 0.1


def local(**settings: int) -> World:
    return applications("some", 2, LOCAL, np.arange(400.0), known=20, median_s=100.0, **settings)


def test_kinds_of_applications_are_as_likely_and_have_their_cores() -> None:
    """A quarter each has one core, four, four (a mix of four programs), two: Paragon 5.3."""
    world = local()
    assert len(world.truth.base) == 426
    cores = np.array([sizes[0].cores for sizes in world.sizes])
    assert [(cores == count).mean() for count in (1, 2, 4)] == pytest.approx([0.25, 0.25, 0.5], abs=0.06)
    kinds = np.digitize([rows[0] for rows in world.rows], [29, 51, 401])
    assert (np.array([1, 4, 4, 2])[kinds] == cores).all()
    assert np.bincount(kinds) / 400 == pytest.approx([0.25] * 4, abs=0.06)


def test_applications_have_a_quarter_to_two_gb_a_core_and_reserve_what_they_take() -> None:
    world = local(phases=3)
    for job, sizes, rows in zip(world.scenario.jobs, world.sizes, world.rows, strict=True):
        (size,) = sizes
        assert 0.25 <= size.memory_gb / size.cores <= 2.0
        assert job.workload.memory_gb == size.memory_gb
        assert job.reserved is not None
        assert (job.reserved.size, job.reserved.replicas) == (size, 1)
        assert len(rows) == 3
        assert len({phase.work / phase.reference for phase in job.phases}) <= 2  # as long as each other
    gb = np.array([sizes[0].memory_gb / sizes[0].cores for sizes in local().sizes])
    assert gb.min() < 0.3
    assert gb.max() > 1.7
    assert np.median(gb) == pytest.approx(math.sqrt(0.25 * 2.0), rel=0.2)


def test_the_best_platform_is_the_best_that_holds_the_application() -> None:
    world = local()
    for job, sizes, rows in zip(world.scenario.jobs, world.sizes, world.rows, strict=True):
        holds = [one.cores >= sizes[0].cores and one.memory_gb >= sizes[0].memory_gb for one in LOCAL]
        best = float(np.exp(world.truth.het[rows[0]][holds]).max())
        assert job.phases[0].reference == pytest.approx(best)
        assert job.workload.target is not None
        assert job.workload.target.required == pytest.approx(0.95 * best)
        assert job.workload.max_replicas == 1


def test_a_target_is_what_an_ideal_allocation_gives() -> None:
    """1 to 4 replicas of 1, 2 or 4 cores, with the memory that the workload can use, on the best class."""
    world = targets("some", 3, cloud(200), 120, load=0.9)
    truth = world.truth
    for place, job in enumerate(world.scenario.jobs):
        up = truth.up[place].reshape(len(CORES), len(MEMORY_GB)).max(axis=1)[:3]
        most = 1 if job.workload.max_replicas == 1 else 4
        ideal = np.exp(up[:, None] + truth.out[place, :most] + truth.het[place].max()).ravel()
        target = job.workload.target
        assert target is not None
        assert np.abs(ideal / target.required - 1).min() < 1e-9
        assert job.phases[0].reference == pytest.approx(target.required)
        assert job.workload.max_replicas in {1, 32}
        assert job.workload.memory_gb == 2.0
    kinds = [
        "service" if job.phases[0].truth.measure is Measure.RATE else job.workload.max_replicas
        for job in world.scenario.jobs
    ]
    assert all(25 <= kinds.count(kind) <= 55 for kind in ("service", 1, 32))
    services = [job.workload.target for job in world.scenario.jobs if math.isfinite(job.duration_s)]
    assert {target.p99_ms for target in services if target is not None} == {50.0}
    assert world.sizes[0][0] == Size(1.0, 2.0)
    assert world.sizes[0][-1] == Size(24.0, 48.0)


def test_users_reserve_the_true_need_times_a_factor() -> None:
    """Seven of ten users reserve more and two less; only programs on one node get another size."""
    world = targets("some", 3, cloud(200), 240, load=0.9)
    signs, changed = [], []
    for job in world.scenario.jobs:
        truth = job.phases[0].truth
        request = request_for(job.workload, truth, world.scenario.cluster, SOURCE_CAUTION)
        need = reservation(request)
        size = Size(float(request.cores[need.size]), float(request.memory_gb[need.size]))
        assert job.reserved is not None
        if job.workload.max_replicas == 1:
            assert job.reserved.replicas == 1
            changed.append(job.reserved.size != size)
            continue
        assert job.reserved.size == size
        assert need.count / 5 <= job.reserved.replicas <= 10 * need.count
        signs.append(np.sign(job.reserved.replicas - need.count))
    assert np.mean(changed) > 0.5
    assert np.mean(np.array(signs) > 0) == pytest.approx(0.7, abs=0.1)
    assert min(signs) < 0


def test_a_day_of_load_swings_around_seven_tenths() -> None:
    world = targets("some", 3, cloud(200), 120, load=0.6, swings=True)
    spikes, troughs = set(), set()
    for job in world.scenario.jobs:
        if not job.steps:
            assert not math.isfinite(job.duration_s)
            continue
        at_s = np.array([step.at_s for step in job.steps])
        assert at_s == pytest.approx(np.arange(24) * job.duration_s / 24)
        factors = np.array([step.factor for step in job.steps])
        assert factors.max() == 1.5
        spikes.add(int(factors.argmax()) // 6)
        troughs.add(int(factors.argmin()) // 6)
        plain = np.delete(factors, int(factors.argmax()))
        assert 0.4 <= plain.min() < 0.45
        assert 0.95 < plain.max() <= 1.0
        assert np.abs(np.diff(plain)).max() < 0.17  # a sine, an hour (or two, at the spike) apart
        assert plain.mean() == pytest.approx(0.7, abs=0.02)
    assert spikes == troughs == {0, 1, 2, 3}  # of a day's quarters
    assert not any(job.steps for job in targets("some", 3, cloud(200), 50, load=0.6).scenario.jobs)


def test_nodes_fail_for_good_in_the_middle_half() -> None:
    found = random_outages(np.random.default_rng(1), cluster_of(CLOUD), 400, 1000.0)
    down_s = np.array([outage.down_s for outage in found])
    assert len({outage.node for outage in found}) == 400
    assert 250 <= down_s.min() < 260
    assert 740 < down_s.max() <= 750
    assert all(math.isinf(outage.up_s) for outage in found)


def test_nodes_fail_in_the_middle_half_of_the_time_until_the_last_arrival() -> None:
    arrivals_s = np.append(np.arange(10.0), 1000.0)
    late = applications("late", 1, LOCAL, arrivals_s, known=20, median_s=100.0, outages=30)
    assert all(250 <= outage.down_s <= 750 for outage in late.scenario.outages)
    two = targets("two", 1, cloud(200), 2, load=0.5, outages=30)  # they arrive at 0 s and at 1 s
    assert all(0.25 <= outage.down_s <= 0.75 for outage in two.scenario.outages)


@pytest.mark.parametrize(("phases", "mean"), [(1, 1 / 2), (3, 3 / 4)])
def test_a_job_of_several_applications_has_the_memory_of_the_largest(phases: int, mean: float) -> None:
    """Memory for each core is log-uniform from 0.25 to 2 GB, and the largest of three is so on average."""
    sizes = [job.reserved.size for job in local(phases=phases).scenario.jobs if job.reserved is not None]
    assert len(sizes) == 400
    shares = [math.log(one.memory_gb / one.cores / 0.25) / math.log(8) for one in sizes]
    assert np.mean(shares) == pytest.approx(mean, abs=0.05)
