"""Simulated cloud: draws meet the curves, no core is sold twice, every job ends, and runs repeat by their seed."""

from __future__ import annotations

import numpy as np
import pytest

from papers.worlds.cloud.load_shapes import drawn_load
from papers.worlds.cloud.scenarios import CLOUD_SCENARIOS, CloudJobs, draw_jobs
from papers.worlds.cloud.settings import CloudSettings, CloudStrategy, Keeping
from papers.worlds.cloud.simulation import _Run, run_cloud
from papers.worlds.cloud.weather import (
    RESOURCES,
    SIZES,
    batch_slowdown,
    experienced,
    latency_factor,
    outside_load,
    spin_up_s,
)


def few(scenario: str = "low", count: int = 900) -> CloudJobs:
    """The first jobs of a scenario."""
    jobs = draw_jobs(scenario, 3)
    names = ("arrival_s", "length_s", "cores", "latency", "caused", "tolerated", "weights", "quality")
    return CloudJobs(scenario=scenario, floor=300.0, **{name: getattr(jobs, name)[:count] for name in names})


@pytest.mark.parametrize(
    ("scenario", "low", "high"), [("static", 811, 897), ("low", 605, 900), ("high", 210, 1226)]
)
def test_draws_follow_their_curves(scenario: str, low: float, high: float) -> None:
    jobs = draw_jobs(scenario, 5)
    cores = jobs.ideal_cores()[60:]
    assert cores.min() == pytest.approx(low, rel=0.06)
    assert cores.max() == pytest.approx(high, rel=0.06)
    assert len(jobs.cores) == 7200
    assert (~jobs.latency).sum() / jobs.latency.sum() == pytest.approx(4.1, rel=0.1)
    assert jobs.cores.min() >= 1
    assert jobs.cores.max() <= 16
    assert ((jobs.quality >= 0) & (jobs.quality <= 1)).all()


@pytest.mark.parametrize("strategy", list(CloudStrategy))
@pytest.mark.parametrize("profiles", [True, False])
def test_every_job_ends_once_and_no_core_is_sold_twice(strategy: CloudStrategy, profiles: bool) -> None:
    jobs = few()
    run = _Run(jobs, strategy, CloudSettings(profiles=profiles), 1)
    out = run.play()
    assert run.ended == len(jobs.cores)
    assert (out.end_s >= jobs.arrival_s + np.minimum(jobs.length_s, 40.0)).all()
    assert (out.wait_s >= 0).all()
    assert ((out.performance > 0) & (out.performance <= 1 + 1e-9)).all()
    for servers in (run.reserved, run.rented_servers):
        assert (servers.free <= 16).all()
        assert (servers.free >= 0).all()
    assert run.used == pytest.approx(0, abs=1e-6)
    assert run.up == 0  # everything is given back at the end
    assert not run.queue
    assert out.rented_core_s + out.spot_core_s >= 0
    if strategy is CloudStrategy.SR:
        assert out.obtained == 0
    else:
        assert out.obtained > 0


def test_a_run_repeats_by_its_seed() -> None:
    jobs = few()
    first, again = (run_cloud(jobs, CloudStrategy.HM, CloudSettings(), 7) for _ in range(2))
    assert (first.performance == again.performance).all()
    assert first.rented_core_s == again.rented_core_s


def test_less_time_to_boot_is_less_wait() -> None:
    jobs = few()
    waits = [
        run_cloud(jobs, CloudStrategy.ODM, CloudSettings(spin_up_factor=factor), 7).wait_s.mean()
        for factor in (0.0, 1.0, 4.0)
    ]
    assert waits[0] == 0
    assert waits == sorted(waits)


def test_idle_times_are_learned_and_spot_is_used() -> None:
    jobs = few()
    learned = run_cloud(jobs, CloudStrategy.HM, CloudSettings(keeping=Keeping.LEARNED), 7)
    assert learned.rented_core_s > 0
    assert run_cloud(jobs, CloudStrategy.HM, CloudSettings(tolerant_spot=True), 7).spot_core_s > 0


def test_small_nodes_feel_others_more() -> None:
    shares = np.ones(RESOURCES)
    felt = [experienced(0.25, size, shares).max() for size in SIZES]
    assert felt == sorted(felt, reverse=True)
    assert batch_slowdown(0.0) == latency_factor(0.0) == 1.0
    assert latency_factor(0.3) > 10


def test_laws_have_the_statistics_of_the_source() -> None:
    rng = np.random.default_rng(0)
    spins = np.array([spin_up_s(rng, 16) for _ in range(4000)])
    assert np.median(spins) == pytest.approx(15.8, abs=0.5)
    assert np.quantile(spins, 0.95) == pytest.approx(120, abs=5)
    load = outside_load(rng, 0.25, 20_000)
    assert load.min() >= 0.149
    assert load.max() <= 0.351
    assert load.mean() == pytest.approx(0.25, abs=0.02)


@pytest.mark.parametrize("shape", ["shop", "batch"])
def test_load_shapes_repeat_by_their_seed(shape: str) -> None:
    load = drawn_load(shape, 34, 1)
    assert (load == drawn_load(shape, 34, 1)).all()
    assert not (load == drawn_load(shape, 34, 2)).all()
    assert (load >= 0).all()
    assert set(CLOUD_SCENARIOS) == {"static", "low", "high"}
