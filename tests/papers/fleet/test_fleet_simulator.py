"""Simulation of fleets: exact anchors on small clusters, conservation, order in line, failures, repeatability."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import replace

import numpy as np
import pytest

from kwiken.allocator.placement.headroom import SOURCE_CAUTION
from kwiken.allocator.placement.request import PlacementRequest, request_for
from kwiken.allocator.schedulers.baselines import reservation
from kwiken.allocator.workloads.profile import Estimate, Size, WorkloadProfile
from kwiken.allocator.workloads.sources import SOURCES
from kwiken.allocator.workloads.workload import Measure, Target, Workload
from kwiken.base.errors import InputError
from kwiken.model.nodes.nodes import Cluster, Node, NodeClass
from papers.worlds.fleet.application_world import applications
from papers.worlds.fleet.catalogue import SCENARIOS
from papers.worlds.fleet.managers import CONTESTANTS, simulate
from papers.worlds.fleet.platforms import LOCAL, cloud
from papers.worlds.fleet.simulator.manager import DETECTION_S, Manager
from papers.worlds.fleet.simulator.outcome import FleetOutcome
from papers.worlds.fleet.simulator.reactions import COOL_DOWN_S
from papers.worlds.fleet.simulator.scenario import (
    FOREVER,
    Job,
    Outage,
    Phase,
    PhaseStep,
    Scenario,
    UserReservation,
)
from papers.worlds.fleet.simulator.simulation import FleetSimulation
from papers.worlds.fleet.targets import targets
from papers.worlds.fleet.world import World
from papers.worlds.schedulers.names import scheduler

FAST, SLOW = "fast", "slow"


def exactly(values: list[float]) -> Estimate:
    return Estimate(np.array(values), np.zeros(len(values)))


def profile(
    name: str, *, slow: float = 0.5, tolerated: float = 1.0, caused: float = 0.0, base: float = 1.0
) -> WorkloadProfile:
    """Workload of one core with the performance `base` on a fast node, and a factor of that on a slow one."""
    return WorkloadProfile(
        name=name,
        measure=Measure.IPS,
        base=base,
        base_deviation=0.0,
        sizes=(Size(1.0, 1.0),),
        up=exactly([0.0]),
        replicas=np.array([1, 2, 3]),
        out=exactly([0.0, math.log(2), math.log(3)]),
        classes=(FAST, SLOW),
        het=exactly([0.0, math.log(slow)]),
        tolerated=exactly([tolerated] * len(SOURCES)),
        caused=exactly([caused] * len(SOURCES)),
    )


def cluster(fast: int, slow: int = 0, cores: float = 1.0) -> Cluster:
    classes = tuple(NodeClass(name=name, cores=cores, memory_gb=64.0) for name in (FAST, SLOW))
    return Cluster(classes, tuple(Node(f"n{n}", FAST if n < fast else SLOW) for n in range(fast + slow)))


def batch(
    name: str, arrival_s: float, work: float, *, need: float = 1.0, most: int = 1, **behaviour: float
) -> Job:
    workload = Workload(name=name, memory_gb=1.0, target=Target(ips=need), max_replicas=most)
    return Job(workload, arrival_s, (Phase(profile(name, **behaviour), work, need),))


def played(
    scenario: Scenario,
    name: str = "paragon",
    *,
    follows: bool = False,
    chooses_sizes: bool = False,
    told: WorkloadProfile | None = None,
) -> FleetOutcome:
    """Run with everything known, or with one prediction for every job until it is measured again."""
    known = tuple(tuple(phase.truth for phase in job.phases) for job in scenario.jobs)
    first = tuple(tuple(told or truth for truth in phases) for phases in known)
    manager = Manager(name, scheduler(name), SOURCE_CAUTION, follows=follows, chooses_sizes=chooses_sizes)
    return FleetSimulation(scenario, first, manager, known).run()


def test_a_job_alone_takes_its_work_over_its_rate() -> None:
    found = played(Scenario("one", cluster(1), (batch("a", 3.0, 20.0, base=2.0, need=2.0),)))
    assert (found.started_s[0], found.finished_s[0], found.performance[0]) == (3.0, 13.0, 1.0)
    assert found.summary()["QoS kept, %"] == 100.0
    assert found.useful == 10.0


def test_a_slow_node_and_a_neighbour_cost_what_the_model_says() -> None:
    jobs = (
        batch("a", 0.0, 10.0, tolerated=0.5, caused=0.5),
        batch("b", 0.0, 10.0, tolerated=0.5, caused=0.5),
    )
    found = played(Scenario("two", cluster(1, cores=2.0), jobs))
    assert found.finished_s == pytest.approx([10 / 0.95, 10 / 0.95])
    assert found.contention == pytest.approx([0.05, 0.05])
    alone = played(Scenario("slow", cluster(0, 1), (batch("a", 0.0, 10.0),)))
    assert alone.finished_s[0] == pytest.approx(20.0)
    assert (alone.performance[0], alone.alone[0]) == pytest.approx((0.5, 0.5))


def test_waiting_jobs_start_in_order_of_arrival() -> None:
    jobs = tuple(batch(f"j{n}", float(n), 10.0) for n in range(5))
    found = played(Scenario("line", cluster(1), jobs))
    assert found.started_s.tolist() == [0.0, 10.0, 20.0, 30.0, 40.0]
    assert found.wait_s.tolist() == [0.0, 9.0, 18.0, 27.0, 36.0]
    assert found.performance.tolist() == [1.0] * 5
    assert found.from_arrival.tolist() == pytest.approx([10 / (10 + wait) for wait in (0, 9, 18, 27, 36)])
    assert found.makespan_s == 50.0


def test_a_job_that_does_not_fit_is_passed_by_only_where_the_scenario_allows_it() -> None:
    large = Workload(name="large", memory_gb=1.0, target=Target(ips=2.0), max_replicas=2)
    jobs = (
        batch("a", 0.0, 10.0),
        Job(large, 1.0, (Phase(profile("large"), 20.0, 2.0),)),
        batch("c", 2.0, 10.0),
    )
    nodes = cluster(2)
    strict = played(Scenario("strict", nodes, jobs), "quasar")
    passing = played(Scenario("passing", nodes, jobs, look_ahead=2), "quasar")
    assert strict.started_s.tolist() == [0.0, 10.0, 20.0]
    assert passing.started_s.tolist() == [0.0, 12.0, 2.0]


def test_a_target_that_no_cluster_meets_gets_the_best_there_is() -> None:
    found = played(
        Scenario("best", cluster(1), (batch("a", 0.0, 10.0, need=4.0),)), "quasar", chooses_sizes=True
    )
    assert found.started_s[0] == 0.0
    assert found.performance[0] == pytest.approx(0.25)


def test_a_job_that_no_node_holds_is_told_as_not_placed() -> None:
    never = Workload(name="huge", memory_gb=500.0, target=Target(ips=1.0))
    jobs = (Job(never, 0.0, (Phase(profile("huge"), 1.0, 1.0),)),)
    found = played(Scenario("huge", cluster(1), jobs))
    assert np.isnan(found.started_s[0])
    assert found.summary() == {"not placed": 1.0}


def test_a_failed_node_loses_its_work_and_takes_none_until_it_is_up() -> None:
    jobs = (batch("a", 0.0, 10.0),)
    found = played(Scenario("down", cluster(1), jobs, (Outage(0, 4.0, 9.0),)))
    assert (found.started_s[0], found.finished_s[0], found.restarts[0]) == (0.0, 19.0, 1)
    assert (found.wasted, found.useful) == (4.0, 10.0)
    assert found.performance[0] == pytest.approx(10 / 19)
    never = played(Scenario("down", cluster(1), jobs, (Outage(0, 4.0),)))
    assert np.isnan(never.finished_s[0])


def test_time_without_a_node_counts_until_the_end_of_the_run() -> None:
    """One node fails for good after 4 s, and the other one after 30 s."""
    jobs = batch("a", 0.0, 50.0), batch("b", 0.0, 50.0)
    found = played(Scenario("lost", cluster(2), jobs, (Outage(0, 4.0), Outage(1, 30.0))))
    assert np.isnan(found.finished_s).all()
    assert found.kept.tolist() == [4 / 30, 1.0]


def test_a_job_that_lost_its_node_begins_with_its_first_phase() -> None:
    workload = Workload(name="a", memory_gb=1.0, target=Target(ips=1.0), max_replicas=1)
    job = Job(workload, 0.0, tuple(Phase(profile("a"), 10.0, 1.0) for _ in range(2)))
    found = played(Scenario("down", cluster(1), (job,), (Outage(0, 14.0, 20.0),)))
    assert found.finished_s[0] == pytest.approx(40.0)
    assert found.wasted == pytest.approx(14.0)


def test_what_a_failed_node_ran_goes_before_those_that_wait() -> None:
    jobs = tuple(batch(f"j{n}", float(n), 10.0) for n in range(3))
    found = played(Scenario("down", cluster(1), jobs, (Outage(0, 4.0, 9.0),)))
    assert found.finished_s.tolist() == [19.0, 29.0, 39.0]
    assert found.restarts.tolist() == [1, 0, 0]


def test_a_job_that_outgrew_its_node_goes_before_those_that_wait() -> None:
    """In its second phase it needs two cores, and its neighbour has one of them for 100 s."""
    grown = dataclasses.replace(
        profile("a"), sizes=(Size(1.0, 1.0), Size(2.0, 1.0)), up=exactly([math.log(0.2), 0.0])
    )
    workload = Workload(name="a", memory_gb=1.0, target=Target(ips=0.95), max_replicas=1)
    job = Job(workload, 0.0, (Phase(profile("a"), 10.0, 1.0), Phase(grown, 100.0, 1.0)))
    jobs = (job, batch("b", 1.0, 100.0), batch("c", 2.0, 5.0))
    found = played(Scenario("grown", cluster(1, cores=2.0), jobs), follows=True)
    assert np.isfinite(found.finished_s).all()
    assert found.finished_s[1] == pytest.approx(101.0)
    assert found.started_s[2] >= found.finished_s[0]


def test_losses_are_counted_from_where_they_say() -> None:
    """Performance of 0.95, 0.85 and 0.75 of the need."""
    jobs = tuple(batch(f"j{n}", 0.0, 10.0, base=base) for n, base in enumerate((0.95, 0.85, 0.75)))
    found = played(Scenario("losses", cluster(3), jobs), "quasar", chooses_sizes=True)
    assert sorted(found.performance.tolist()) == pytest.approx([0.75, 0.85, 0.95])
    figures = found.summary()
    shares = [figures[name] for name in ("QoS kept, %", "loss below 10%, %", "loss above 20%, %")]
    assert shares == pytest.approx([100 / 3] * 3)


def test_a_workload_with_other_replicas_gets_new_ones_at_once() -> None:
    job = batch("a", 0.0, 20.0, need=2.0, most=2)
    found = played(Scenario("spare", cluster(3), (job,), (Outage(0, 5.0),)), "quasar")
    assert (found.finished_s[0], found.restarts[0], found.decisions) == (10.0, 0, 2)
    short = played(Scenario("none", cluster(2), (job,), (Outage(0, 5.0),)), "quasar")
    assert short.finished_s[0] == 15.0  # 10 of 20 are done with two replicas, the rest with one
    assert short.alone[0] == pytest.approx((5 * 1.0 + 10 * 0.5) / 15)


def service(
    name: str, rate: float, duration_s: float, steps: tuple[PhaseStep, ...] = (), most: int = 3
) -> Job:
    workload = Workload(
        name=name, memory_gb=1.0, target=Target(p99_ms=50, rate_per_s=rate), max_replicas=most
    )
    truth = profile(name)
    known = WorkloadProfile(**{**{f: getattr(truth, f) for f in FIELDS}, "measure": Measure.RATE})
    return Job(workload, 0.0, (Phase(known, FOREVER, rate),), duration_s, steps)


FIELDS = tuple(WorkloadProfile.__dataclass_fields__)


def test_a_manager_that_follows_adds_replicas_for_more_load_and_gives_them_back() -> None:
    steps = (PhaseStep(100.0, 3.0), PhaseStep(500.0, 1.0))
    scenario = Scenario("load", cluster(3), (service("s", 1.0, 1000.0, steps),))
    found = played(scenario, "quasar", follows=True, chooses_sizes=True)
    below_s = DETECTION_S
    assert found.kept[0] == pytest.approx(1 - below_s / 1000)
    assert found.finished_s[0] == 1000.0
    moments, cores, used = found.series()
    at = dict(zip(moments.round().tolist(), (cores * 3).round().tolist(), strict=True))
    assert at[min(at, key=lambda one: abs(one - 50.0))] == 1.0
    assert at[min(at, key=lambda one: abs(one - 120.0))] == 1.0
    assert at[min(at, key=lambda one: abs(one - 300.0))] == 3.0
    assert at[min(at, key=lambda one: abs(one - 800.0))] == 1.0
    assert (used <= cores + 1e-12).all()
    still = played(scenario, "quasar", chooses_sizes=True)
    assert still.kept[0] == pytest.approx(0.6)
    assert still.performance[0] == pytest.approx(0.6 + 0.4 / 3)


@pytest.mark.parametrize("name", ["paragon", "paragon-statistical", "least-loaded"])
def test_managers_of_reservations_place_what_the_user_reserves_whatever_they_predict(name: str) -> None:
    job = replace(batch("a", 0.0, 20.0, need=3.0, most=3), reserved=UserReservation(Size(1.0, 1.0), 2))
    scenario = Scenario("reserved", cluster(4), (job,))
    for base in (0.1, 1.0, 10.0):  # by these predictions the need is 3 replicas, or 1
        found = played(scenario, name, told=profile("a", base=base))
        assert found.finished_s[0] == 10.0
        assert found.performance[0] == pytest.approx(2 / 3)


@pytest.mark.parametrize("factor", [0.5, 3.0])
def test_a_reservation_stays_as_it_is_while_the_load_changes(factor: float) -> None:
    job = service("s", 2.0, 1000.0, (PhaseStep(100.0, factor),))
    scenario = Scenario("load", cluster(4), (replace(job, reserved=UserReservation(Size(1.0, 1.0), 2)),))
    allocated, _ = played(scenario, follows=True).shares(0.0, 1000.0)
    assert allocated == pytest.approx(2 / 4)
    resized, _ = played(scenario, "quasar", follows=True, chooses_sizes=True).shares(0.0, 1000.0)
    assert (resized > 2 / 4) == (factor > 1)


def test_a_phase_that_dislikes_its_node_is_moved_after_detection() -> None:
    first, second = profile("a", slow=1.0), better_on_slow("a")
    workload = Workload(name="a", memory_gb=1.0, target=Target(ips=0.95), max_replicas=1)
    job = Job(workload, 0.0, (Phase(first, 100.0, 1.0), Phase(second, 100.0, 1.0)))
    scenario = Scenario("phases", cluster(1, 1), (job,))
    found = played(scenario, follows=True)
    assert found.moves[0] == 1
    # Detection at a fifth of the speed, then 2 s and 1 s for the one GB of memory, then full speed.
    assert found.finished_s[0] == pytest.approx(100 + DETECTION_S + 3 + (100 - 0.2 * DETECTION_S))
    assert played(scenario).finished_s[0] == pytest.approx(100 + 500)


def test_a_job_is_not_helped_while_it_is_moved() -> None:
    """The move of 60 GB takes longer than the detection of a deviation."""
    first, second = profile("a", slow=1.0), better_on_slow("a")
    workload = Workload(name="a", memory_gb=60.0, target=Target(ips=0.95), max_replicas=1)
    job = Job(workload, 0.0, (Phase(first, 100.0, 1.0), Phase(second, 100.0, 1.0)))
    found = played(Scenario("phases", cluster(1, 1), (job,)), follows=True)
    assert (found.moves[0], found.decisions) == (1, 2)
    assert found.finished_s[0] == pytest.approx(100 + DETECTION_S + 62 + (100 - 0.2 * DETECTION_S))


@pytest.mark.parametrize(("follows", "later"), [(True, 1.0), (False, 0.2)])
def test_what_a_workload_gets_around_a_change_of_phase_is_noted(follows: bool, later: float) -> None:
    kinds = profile("a", slow=1.0), better_on_slow("a"), profile("a", slow=1.0)
    workload = Workload(name="a", memory_gb=1.0, target=Target(ips=0.95), max_replicas=1)
    # The third phase is too short to be followed.
    phases = tuple(Phase(kind, work, 1.0) for kind, work in zip(kinds, (100.0, 100.0, 40.0), strict=True))
    found = played(Scenario("phases", cluster(1, 1), (Job(workload, 0.0, phases),)), follows=follows)
    assert [(one.before, one.at, one.later) for one in found.changes] == [pytest.approx((1.0, 0.2, later))]
    figures = found.summary()
    assert figures["performance at a change of phase, %"] == pytest.approx(20.0)
    assert figures["performance 45 s after a change of phase, %"] == pytest.approx(100 * later)
    alone = played(Scenario("one", cluster(1), (batch("a", 0.0, 20.0),)))
    assert not any("change of phase" in name for name in alone.summary())


def better_on_slow(name: str) -> WorkloadProfile:
    """Workload that is five times faster on a slow node than on a fast one."""
    usual = profile(name, slow=1.0)
    return WorkloadProfile(**{**{f: getattr(usual, f) for f in FIELDS}, "het": exactly([math.log(0.2), 0.0])})


def test_a_phase_that_begins_within_the_cool_down_is_acted_on() -> None:
    workload = Workload(name="a", memory_gb=1.0, target=Target(ips=0.95), max_replicas=1)
    kinds = profile("a", slow=0.2), better_on_slow("a"), profile("a", slow=0.2)
    job = Job(workload, 0.0, tuple(Phase(kind, 100.0, 1.0) for kind in kinds))
    found = played(Scenario("phases", cluster(1, 1), (job,)), follows=True)
    assert found.moves[0] == 2
    helped = DETECTION_S + 3 + (100 - 0.2 * DETECTION_S)
    assert helped < COOL_DOWN_S
    assert found.finished_s[0] == pytest.approx(100 + 2 * helped)


def test_the_cool_down_holds_after_a_move_and_for_a_deviation_that_ends_soon() -> None:
    """A node at half the speed is the best there is; a neighbour disturbs for 5 s, too short to be acted on."""
    workload = Workload(name="a", memory_gb=1.0, target=Target(ips=0.95), max_replicas=1)
    first, second = profile("a", slow=0.2), better_on_slow("a")
    # In the second phase a slow node gives half of the reference, and a fast one a tenth.
    job = Job(workload, 0.0, (Phase(first, 10.0, 1.0), Phase(second, 1000.0, 2.0)))
    moved = played(Scenario("moved", cluster(1, 1), (job,)), follows=True)
    assert moved.moves[0] == 1
    assert moved.decisions <= 2 + moved.makespan_s / COOL_DOWN_S
    alone = Job(workload, 0.0, (Phase(profile("a", tolerated=0.1), 500.0, 2.0),))
    neighbour = batch("b", 100.0, 5.0, caused=0.5)
    wide = cluster(1, cores=2.0)
    calm, disturbed = (
        played(Scenario("disturbed", wide, jobs), follows=True) for jobs in ((alone,), (alone, neighbour))
    )
    assert disturbed.decisions == calm.decisions + 1  # that which placed the neighbour


def test_a_workload_that_was_misjudged_is_measured_again_and_moved() -> None:
    job = batch("a", 0.0, 200.0, slow=0.2)
    scenario = Scenario("misjudged", cluster(1, 1), (job,))
    found = played(scenario, follows=True, told=better_on_slow("a"))
    assert found.moves[0] == 1
    assert found.finished_s[0] == pytest.approx(DETECTION_S + 3 + (200 - 0.2 * DETECTION_S))
    assert played(scenario, told=better_on_slow("a")).finished_s[0] == pytest.approx(1000.0)


def test_an_action_for_one_workload_is_not_repeated_before_the_cool_down() -> None:
    job = batch("a", 0.0, 10_000.0, need=2.0)  # one replica at most: nothing can be done
    found = played(Scenario("vain", cluster(1), (job,)), follows=True)
    assert found.decisions <= 2 + found.makespan_s / COOL_DOWN_S * 2
    assert found.moves[0] == 0


@pytest.mark.parametrize("name", ["local-phases", "local-full"])
@pytest.mark.parametrize("who", ["paragon", "least-loaded", "quasar"])
def test_a_run_conserves_cores_and_ends_every_job(name: str, who: str) -> None:
    world = SCENARIOS[name].draw(3)
    found = simulate(world, who)
    assert np.isfinite(found.finished_s).all()
    assert (found.finished_s > found.started_s).all()
    assert (found.started_s >= found.arrival_s - 1e-9).all()
    assert (found.performance > 0).all()
    assert (found.performance <= 1 + 1e-9).all()  # no platform is better than the best
    assert (found.performance <= found.alone + 1e-9).all()
    moments, cores, used = found.series()
    assert (np.diff(moments) > 0).all()
    assert ((cores >= -1e-12) & (cores <= 1 + 1e-9) & (used <= cores + 1e-9)).all()
    total = found.capacity * found.makespan_s
    allocated, working = found.shares(0.0, found.makespan_s)
    assert found.useful + found.wasted == pytest.approx(working * total, rel=1e-6)
    assert allocated >= working - 1e-9


def few_applications(seed: int) -> World:
    """Applications that come faster than they end, so that some share nodes."""
    return applications("few", seed, LOCAL, np.arange(40.0), known=20, median_s=600.0)


def test_the_same_seed_gives_the_same_run_and_another_seed_another() -> None:
    runs = [simulate(few_applications(seed), "paragon-statistical") for seed in (1, 1, 2)]
    assert runs[0].finished_s.tolist() == runs[1].finished_s.tolist()
    assert runs[0].finished_s.tolist() != runs[2].finished_s.tolist()


def small(*, swings: bool = False, outages: int = 0) -> World:
    return targets("small", 0, cloud(200), 200, load=0.15, swings=swings, outages=outages)


def test_loads_of_services_swing_like_a_day_with_one_spike() -> None:
    steps = [job.steps for job in small(swings=True).scenario.jobs if job.steps]
    assert steps
    for some in steps:
        factors = sorted(step.factor for step in some)
        assert len(factors) == 24
        assert factors[-1] == 1.5
        assert 0.4 <= factors[0] <= factors[-2] <= 1.0 + 1e-9


def test_applications_are_to_reach_95_percent_of_their_best_platform() -> None:
    for job in applications("some", 0, LOCAL, np.arange(20.0), known=20, load=0.5).scenario.jobs:
        assert job.workload.target is not None
        assert job.workload.target.required == pytest.approx(0.95 * job.phases[0].reference)


def test_reservations_rest_on_the_true_need_of_each_workload() -> None:
    world = small()
    for job in world.scenario.jobs:
        assert job.reserved is not None
        exact = world_request(world, job)
        need = reservation(exact)
        if job.workload.max_replicas == 1:
            assert exact.typical_count == job.reserved.replicas == 1
        else:
            assert job.reserved.size == Size(float(exact.cores[need.size]), float(exact.memory_gb[need.size]))
            assert need.count / 5 <= job.reserved.replicas <= 10 * need.count


def world_request(world: World, job: Job) -> PlacementRequest:
    """Request of a job by its true behaviour."""
    return request_for(job.workload, job.phases[0].truth, world.scenario.cluster, SOURCE_CAUTION)


def test_targets_are_met_by_sizing_when_everything_is_known_and_the_cluster_is_not_full() -> None:
    found = simulate(small(), "quasar, all known")
    assert found.summary()["QoS kept, %"] > 98
    assert found.summary()["not placed"] == 0


def test_swings_and_failures_are_followed() -> None:
    world = small(swings=True, outages=20)
    followed, left = (simulate(world, name).summary() for name in ("quasar", "quasar, without adaptation"))
    assert followed["time with QoS kept, %"] > left["time with QoS kept, %"]
    assert followed["cores used, %"] < 100


def test_a_load_below_the_cluster_fixes_the_durations() -> None:
    world = applications("half", 0, LOCAL, np.arange(100.0), known=20, load=0.5)
    ideal = [
        sum(phase.work / phase.reference for phase in job.phases) * size[0].cores
        for job, size in zip(world.scenario.jobs, world.sizes, strict=True)
    ]
    assert sum(ideal) == pytest.approx(0.5 * 178 * 99)


def test_a_class_that_nothing_is_known_of_is_refused() -> None:
    strange = Cluster((NodeClass(name="strange", cores=1, memory_gb=64),), (Node("n", "strange"),))
    with pytest.raises(InputError, match="'strange'"):
        played(Scenario("strange", strange, (batch("a", 0.0, 1.0),)))


def test_every_contestant_plays_every_kind_of_scenario() -> None:
    world = few_applications(0)
    for name in CONTESTANTS:
        found = simulate(world, name)
        assert np.isfinite(found.finished_s).all(), name


@pytest.mark.parametrize(("work", "noted"), [(90.0, 1), (89.9, 0)])
def test_a_phase_is_followed_that_lasts_45_s_at_its_reference(work: float, noted: int) -> None:
    """The second phase is at half the speed, so it lasts twice as long."""
    workload = Workload(name="a", memory_gb=1.0, target=Target(ips=1.9), max_replicas=1)
    phases = Phase(profile("a", base=2.0), 100.0, 2.0), Phase(profile("a"), work, 2.0)
    found = played(Scenario("phases", cluster(1), (Job(workload, 0.0, phases),)))
    assert [(one.before, one.at, one.later) for one in found.changes] == [(1.0, 0.5, 0.5)] * noted


@pytest.mark.parametrize(("phases", "end_s"), [(2, 130.0), (3, 170.0)])
def test_nothing_is_noted_of_a_phase_that_ends_before_it_is_looked_at_again(
    phases: int, end_s: float
) -> None:
    """The second phase is to take 60 s at its reference, and takes 30 s; a third is too short to be followed."""
    all_phases = (
        Phase(profile("a"), 100.0, 1.0),
        Phase(profile("a", base=2.0), 60.0, 1.0),
        Phase(profile("a"), 40.0, 1.0),
    )
    workload = Workload(name="a", memory_gb=1.0, target=Target(ips=0.95), max_replicas=1)
    found = played(Scenario("phases", cluster(1), (Job(workload, 0.0, all_phases[:phases]),)))
    assert found.finished_s[0] == pytest.approx(end_s)
    (change,) = found.changes
    assert (change.before, change.at) == pytest.approx((1.0, 2.0))
    assert math.isnan(change.later)


def test_a_workload_is_measured_again_in_a_phase_only_after_it_was_measured_there_once() -> None:
    """The first measurement of the second phase misses that it likes the slow node, and the second does not."""
    first, second = profile("a", slow=0.2), better_on_slow("a")
    workload = Workload(name="a", memory_gb=1.0, target=Target(ips=0.95), max_replicas=1)
    job = Job(workload, 0.0, (Phase(first, 100.0, 1.0), Phase(second, 100.0, 1.0)))
    found = played(Scenario("phases", cluster(1, 1), (job,)), follows=True, told=first)
    assert found.moves[0] == 1
    late_s = DETECTION_S + COOL_DOWN_S
    assert found.finished_s[0] == pytest.approx(100 + late_s + 3 + (100 - 0.2 * late_s))


def test_a_job_that_begins_anew_is_placed_by_how_it_behaves_then() -> None:
    """In its second phase it moved to a slow node, which fails; its first phase likes the fast one."""
    first, second = profile("a", slow=0.2), better_on_slow("a")
    workload = Workload(name="a", memory_gb=1.0, target=Target(ips=0.95), max_replicas=1)
    job = Job(workload, 0.0, (Phase(first, 100.0, 1.0), Phase(second, 100.0, 1.0)))
    scenario = Scenario("phases", cluster(1, 2), (job,), (Outage(1, 150.0),))
    found = played(scenario, follows=True)
    assert (found.moves[0], found.restarts[0]) == (2, 1)
    helped_s = DETECTION_S + 3 + (100 - 0.2 * DETECTION_S)
    assert found.finished_s[0] == pytest.approx(150 + 100 + helped_s)


def test_a_service_that_starts_again_after_a_failure_ends_when_it_was_to_end() -> None:
    scenario = Scenario("failed", cluster(2), (service("s", 1.0, 300.0, most=1),), (Outage(0, 100.0),))
    found = played(scenario, "quasar", chooses_sizes=True)
    assert (found.restarts[0], found.started_s[0], found.finished_s[0]) == (1, 0.0, 300.0)


def test_a_job_waits_for_what_an_empty_cluster_would_give_although_that_is_too_little() -> None:
    """It needs three nodes of two, one of which is free at first."""
    jobs = (batch("a", 0.0, 50.0), batch("b", 1.0, 20.0, need=3.0, most=3))
    found = played(Scenario("best", cluster(2), jobs), "quasar", chooses_sizes=True)
    assert found.started_s.tolist() == [0.0, 50.0]
    assert found.finished_s[1] == 60.0
