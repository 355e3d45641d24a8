"""Reactions of managers, each in a small cluster whose course is computed by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from kwiken.allocator.workloads.profile import Size, WorkloadProfile
from kwiken.allocator.workloads.sources import SOURCES
from kwiken.allocator.workloads.workload import Spread, Target, Workload
from papers.worlds.fleet.simulator.manager import DETECTION_S
from papers.worlds.fleet.simulator.outcome import FleetOutcome
from papers.worlds.fleet.simulator.reactions import COOL_DOWN_S
from papers.worlds.fleet.simulator.scenario import Job, Outage, Phase, PhaseStep, Scenario
from tests.papers.fleet.test_fleet_simulator import (
    batch,
    better_on_slow,
    cluster,
    exactly,
    played,
    profile,
    service,
)

UNIT = Size(1.0, 1.0)


def phased(
    name: str, *phases: WorkloadProfile, work: float = 100.0, memory_gb: float = 1.0, most: int = 1
) -> Job:
    """Job with phases of the same work, each with the reference 1."""
    workload = Workload(name=name, memory_gb=memory_gb, target=Target(ips=0.95), max_replicas=most)
    return Job(workload, 0.0, tuple(Phase(one, work, 1.0) for one in phases))


def of_capacity(job: Job, base: float) -> Job:
    """The same job with another performance of each replica."""
    return replace(job, phases=tuple(replace(one, truth=replace(one.truth, base=base)) for one in job.phases))


def cores_at(found: FleetOutcome, now_s: float) -> float:
    """Number of cores of all replicas around a moment."""
    return found.shares(now_s - 0.5, now_s + 0.5)[0] * found.capacity


def sized(nodes: int, *jobs: Job, outages: tuple[Outage, ...] = (), slow: int = 0) -> FleetOutcome:
    """Course under a manager that chooses sizes and follows its workloads."""
    scenario = Scenario("sized", cluster(nodes, slow), jobs, outages)
    return played(scenario, "quasar", follows=True, chooses_sizes=True)


def test_a_service_gets_what_its_load_needs_now_and_no_more() -> None:
    steps = tuple(PhaseStep(at_s, factor) for at_s, factor in ((100.0, 2.0), (300.0, 3.0), (500.0, 2.0)))
    found = sized(4, replace(service("s", 1.0, 700.0, steps), arrival_s=250.0))
    assert [cores_at(found, at_s) for at_s in (300.0, 450.0, 650.0, 850.0)] == pytest.approx([1, 2, 3, 2])


def test_a_service_that_is_measured_again_gets_what_its_load_needs_now() -> None:
    """A replica gives 0.75 by the median over the classes, so a load of 1 takes two, and one of 2.2 three."""
    scenario = Scenario("again", cluster(4), (service("s", 1.0, 300.0, (PhaseStep(100.0, 2.2),)),))
    found = played(scenario, follows=True)
    assert [cores_at(found, at_s) for at_s in (50.0, 200.0)] == pytest.approx([2, 3])


def test_a_load_after_the_end_of_a_service_changes_nothing() -> None:
    steady, fallen = (sized(2, service("s", 2.0, 50.0, (PhaseStep(60.0, factor),))) for factor in (1.0, 0.5))
    assert fallen.events == steady.events


def test_a_load_that_stays_the_same_is_no_fall() -> None:
    steady, told_again = (
        sized(2, service("s", 2.0, 400.0, steps)) for steps in ((), (PhaseStep(100.0, 1.0),))
    )
    assert told_again.events == steady.events + 1


def test_a_job_at_95_percent_of_its_demand_is_left_alone_and_keeps_its_quality() -> None:
    found = played(Scenario("edge", cluster(2), (batch("a", 0.0, 95.0, base=0.95),)), follows=True)
    assert (found.decisions, found.kept[0], found.finished_s[0]) == (1, 1.0, 100.0)


def test_a_job_is_left_alone_that_was_disturbed_for_less_than_the_detection_takes() -> None:
    """A neighbour disturbs it twice for 20 s, 25 s apart."""
    jobs = (
        batch("a", 0.0, 200.0, tolerated=0.1),
        batch("b", 10.0, 20.0, caused=0.5),
        batch("c", 55.0, 20.0, caused=0.5),
    )
    found = played(Scenario("short", cluster(1, cores=2.0), jobs), follows=True)
    assert found.decisions == 3
    longer = (jobs[0], batch("b", 10.0, 40.0, caused=0.5))
    assert played(Scenario("long", cluster(1, cores=2.0), longer), follows=True).decisions == 3


@pytest.mark.parametrize(("factor", "decisions"), [(1.01, 2), (1.0, 3)])
def test_a_share_within_5_percent_of_that_after_the_last_action_changes_nothing(
    factor: float, decisions: int
) -> None:
    """A capacity of 13 for a load of 21, which an action at 30 s cannot help; then the load falls, by 5% to 20."""
    steps = PhaseStep(0.0, 1.05), PhaseStep(100.0, factor)
    job = of_capacity(service("s", 20.0, 300.0, steps, most=1), 13.0)
    found = played(Scenario("full", cluster(1), (job,)), follows=True)
    assert found.decisions == decisions


def test_an_action_is_repeated_after_the_cool_down_as_long_as_the_job_is_short() -> None:
    found = played(Scenario("vain", cluster(1), (batch("a", 0.0, 2000.0, need=2.0),)), follows=True)
    assert found.decisions == 1 + math.ceil((2000.0 - DETECTION_S) / COOL_DOWN_S)


def test_a_job_that_meets_its_target_stays_although_another_node_would_give_more() -> None:
    """The job got a slow node while the fast one was taken, and needs half of what the fast one gives."""
    for target, moves in ((0.5, 0), (0.6, 1)):
        workload = Workload(name="b", memory_gb=1.0, target=Target(ips=target), max_replicas=1)
        job = Job(workload, 1.0, (Phase(profile("b", slow=0.5), 1000.0, 1.0),))
        found = played(Scenario("free", cluster(1, 1), (batch("a", 0.0, 10.0), job)), follows=True)
        assert found.moves[1] == moves


@pytest.mark.parametrize(("gain", "moves"), [(1.05, 0), (1.06, 1)])
def test_a_move_has_to_win_more_than_5_percent(gain: float, moves: int) -> None:
    """The job got a slow node while the fast one was taken, and needs more than either gives."""
    job = batch("b", 1.0, 1000.0, need=2.0)
    truth = replace(profile("b"), het=exactly([math.log(gain), 0.0]))
    job = replace(job, phases=(replace(job.phases[0], truth=truth),))
    found = played(Scenario("free", cluster(1, 1), (batch("a", 0.0, 10.0), job)), follows=True)
    assert found.moves.tolist() == [0, moves]


def test_a_manager_that_chooses_sizes_does_not_measure_again() -> None:
    """The manager predicts a slow node to be best, and after an observation that the job is slow on both."""
    scenario = Scenario("misjudged", cluster(1, 1), (batch("a", 0.0, 200.0, slow=0.2),))
    found = played(scenario, "quasar", follows=True, chooses_sizes=True, told=better_on_slow("a"))
    assert (found.moves[0], found.finished_s[0]) == (0, pytest.approx(1000.0))


def test_room_that_a_move_leaves_is_given_to_those_that_wait() -> None:
    """The job that waits accepts a fast node alone, and gets it when the other one moves to a slow node."""
    waits = batch("b", 1.0, 50.0, slow=0.2)
    found = sized(1, phased("a", profile("a", slow=0.2), better_on_slow("a")), waits, slow=1)
    assert found.moves.tolist() == [1, 0]
    assert found.started_s[1] == 100 + DETECTION_S


def test_what_a_fall_of_load_leaves_idle_is_given_to_those_that_wait() -> None:
    found = sized(2, service("s", 2.0, 400.0, (PhaseStep(100.0, 0.5),)), batch("b", 1.0, 50.0))
    assert found.started_s[1] == 160.0


def test_what_an_empty_cluster_would_give_is_asked_for_each_load() -> None:
    """The service waits for a second node; after the outage two are too few for its load, and both are taken."""
    job = replace(service("s", 2.0, 400.0, (PhaseStep(20.0, 2.0),), most=4), arrival_s=1.0)
    outages = Outage(0, 50.0, 60.0), Outage(1, 50.0, 60.0)
    found = sized(2, batch("a", 0.0, 20.0), job, outages=outages)
    assert found.started_s[1] == 20.0
    assert cores_at(found, 65.0) == pytest.approx(2.0)


def test_what_an_empty_cluster_would_give_does_not_depend_on_earlier_questions() -> None:
    """Jobs that need three nodes of two wait for both, each of them."""
    jobs = (
        batch("a", 0.0, 20.0, need=3.0, most=3),
        batch("b", 1.0, 20.0),
        batch("c", 2.0, 20.0, need=3.0, most=3),
    )
    found = played(Scenario("best", cluster(2), jobs), "quasar", chooses_sizes=True)
    assert found.started_s.tolist() == [0.0, 10.0, 30.0]


def test_a_manager_that_chooses_sizes_knows_a_new_phase_and_does_not_correct_what_holds() -> None:
    """The second phase is slow where it is and fast on a slow node, as predicted, so one more is enough."""
    found = sized(1, phased("a", profile("a", slow=0.2), better_on_slow("a"), most=3), slow=3)
    assert cores_at(found, 100 + DETECTION_S + 10) == pytest.approx(2.0)
    assert found.finished_s[0] == pytest.approx(100 + DETECTION_S + (100 - 0.2 * DETECTION_S) / 1.2)


def test_what_a_neighbour_costs_is_not_taken_for_a_wrong_prediction() -> None:
    """The job lacks 8% from the arrival of the neighbour on; a slow node gives a tenth of what a fast one does.

    At first the job lacks 3%, as the slow nodes are down.
    """
    job = batch("a", 0.0, 200.0, base=0.97, slow=0.1, most=3, tolerated=0.5)
    apart = Workload(name="a", memory_gb=1.0, target=job.workload.target, max_replicas=3, spread=Spread.NODE)
    jobs = replace(job, workload=apart), batch("b", 50.0, 300.0, caused=0.5)
    outages = tuple(Outage(node, 0.0, 40.0) for node in (1, 2, 3))
    scenario = Scenario("neighbours", cluster(1, 3, cores=2.0), jobs, outages)
    found = played(scenario, "quasar", follows=True, chooses_sizes=True)
    assert [cores_at(found, at_s) for at_s in (45.0, 70.0, 100.0)] == pytest.approx([1, 2, 3])


def test_of_several_replicas_those_that_stay_serve_while_others_move() -> None:
    """Two replicas on slow nodes give way to one on a fast node, which the next phase likes better."""
    liked = replace(profile("a"), het=exactly([math.log(0.1), math.log(0.5)]))
    found = sized(1, phased("a", liked, profile("a", slow=0.2), most=2), slow=2)
    assert [cores_at(found, at_s) for at_s in (50.0, 150.0)] == pytest.approx([2, 1])
    assert (found.moves[0], found.finished_s[0]) == (1, pytest.approx(100 + 30 + (100 - 0.4 * 30)))


def in_sizes(about: WorkloadProfile, rates: dict[Size, float]) -> WorkloadProfile:
    """The same behaviour with other sizes, and what a replica of each performs on a fast node."""
    return replace(about, sizes=(*rates,), up=exactly([math.log(rate) for rate in rates.values()]))


def test_a_phase_that_needs_more_memory_than_its_node_has_left_goes_elsewhere() -> None:
    """Of 64 GB of its node a neighbour has 30, and the second phase needs 60."""
    first = in_sizes(profile("a", slow=0.2), {UNIT: 0.5, Size(1.0, 8.0): 1.0})
    second = in_sizes(profile("a", slow=1.0), {UNIT: 0.2, Size(1.0, 8.0): 0.1, Size(1.0, 60.0): 1.0})
    workload = Workload(name="b", memory_gb=30.0, target=Target(ips=1.0), max_replicas=1)
    neighbour = Job(workload, 1.0, (Phase(profile("b"), 400.0, 1.0),))
    scenario = Scenario("memory", cluster(1, 1, cores=2.0), (phased("a", first, second), neighbour))
    found = played(scenario, follows=True)
    assert found.finished_s.tolist() == pytest.approx([100 + 30 + 62 + (100 - 0.1 * 30), 401.0])
    assert found.moves.tolist() == [1, 0]


@pytest.mark.parametrize(("room_s", "acts_s"), [(150.0, 160.0), (170.0, 200.0)])
def test_a_job_that_outgrew_its_node_is_helped_after_it_has_waited(room_s: float, acts_s: float) -> None:
    """The job waits from 130 s on, gets a node of half the speed, and soon after that the fast node is free.

    A job is looked at every 30 s while it gets less than it needs, also while it waits.
    """
    grown = in_sizes(profile("a"), {UNIT: 0.2, Size(2.0, 1.0): 1.0})
    others = batch("b", 1.0, acts_s - 6.0), batch("c", 2.0, (room_s - 2.0) / 2)
    jobs = (phased("a", profile("a"), grown), *others)
    found = played(Scenario("grown", cluster(1, 1, cores=2.0), jobs), follows=True)
    done = 30 * 0.2 + (acts_s - room_s) * 0.5
    assert found.finished_s.tolist() == pytest.approx([acts_s + 3 + (100 - done), acts_s - 5.0, room_s])


def test_a_service_that_ends_while_it_is_moved_has_lived_as_long_as_it_was_to() -> None:
    """The service runs at half the speed, is moved at 30 s, which takes 62 s, and ends at 60 s."""
    job = service("s", 1.0, 60.0, most=1)
    job = replace(
        job, workload=Workload(name="s", memory_gb=60.0, target=job.workload.target, max_replicas=1)
    )
    told = replace(job.phases[0].truth, het=exactly([math.log(0.2), 0.0]))
    found = played(Scenario("moved", cluster(1, 1), (job,)), follows=True, told=told)
    assert (found.moves[0], found.finished_s[0]) == (1, 60.0)
    assert (found.performance[0], found.from_arrival[0], found.kept[0]) == pytest.approx((0.25, 0.25, 0.0))


@pytest.mark.parametrize(("share", "started"), [(0.95, 1.0), (0.94, 20.0)])
def test_95_percent_of_what_an_empty_cluster_would_give_are_enough_for_what_it_cannot_meet(
    share: float, started: float
) -> None:
    """A fast node, which is taken at first, would give a quarter of the need."""
    jobs = batch("a", 0.0, 20.0), batch("b", 1.0, 20.0, need=4.0, slow=share)
    found = played(Scenario("busy", cluster(1, 1), jobs), "quasar", chooses_sizes=True)
    assert found.started_s.tolist() == [0.0, started]


def test_neighbours_that_come_at_one_moment_call_for_one_action() -> None:
    events = []
    for second_s in (10.0, 10.5):
        others = batch("b", 10.0, 100.0, caused=0.2), batch("c", second_s, 100.0, caused=0.2)
        jobs = (batch("a", 0.0, 35.0, tolerated=0.1), *others)
        events.append(played(Scenario("two", cluster(1, cores=3.0), jobs), follows=True).events)
    assert events[0] == events[1]


def test_a_neighbour_that_changes_nothing_does_not_put_off_an_action() -> None:
    """Nothing can be done at 30 s nor at 330 s; the neighbour comes 10 s before that."""
    jobs = batch("a", 0.0, 170.0, need=2.0, base=0.5), batch("b", 320.0, 100.0)
    found = played(Scenario("vain", cluster(1, cores=2.0), jobs), follows=True)
    assert found.finished_s[0] == 340.0
    assert found.decisions == 2 + 2


def test_of_replicas_that_a_fall_of_load_leaves_idle_the_disturbed_one_is_given_back() -> None:
    """A neighbour came to the first node after both replicas were placed, and costs 5% there."""
    job = service("s", 2.0, 200.0, (PhaseStep(100.0, 0.5),))
    apart = Workload(name="s", memory_gb=1.0, target=job.workload.target, max_replicas=2, spread=Spread.NODE)
    truth = replace(job.phases[0].truth, tolerated=exactly([0.5] * len(SOURCES)))
    job = replace(job, workload=apart, phases=(replace(job.phases[0], truth=truth),))
    scenario = Scenario("fall", cluster(2, cores=2.0), (job, batch("b", 50.0, 500.0, caused=0.5)))
    found = played(scenario, "quasar", follows=True, chooses_sizes=True)
    assert cores_at(found, 190.0) == pytest.approx(1 + 1)
    assert found.performance[0] == pytest.approx((50 + 50 * 1.95 / 2 + 100) / 200)
    assert found.alone[0] * (1 - found.contention[0]) == pytest.approx(
        (50 + 50 * 1.95 / 2 + 60 * 1.95 + 40 * 1.0) / 200
    )


def test_a_prediction_that_promised_too_little_is_not_raised_by_what_is_observed() -> None:
    """Three replicas are to give 0.9 and give 1.35, when the load is 1.5; then the load falls to 0.8."""
    steps = PhaseStep(10.0, 1.5), PhaseStep(100.0, 0.8)
    job = of_capacity(service("s", 1.0, 300.0, steps), 0.45)
    told = replace(job.phases[0].truth, base=0.3)
    scenario = Scenario("more", cluster(3), (job,))
    found = played(scenario, "quasar", follows=True, chooses_sizes=True, told=told)
    assert found.decisions == 2
    assert cores_at(found, 200.0) == pytest.approx(3.0)


@pytest.mark.parametrize("chooses", [False, True])
def test_a_workload_that_neighbours_leave_nothing_goes_on_when_they_have_gone(chooses: bool) -> None:
    """Beside its neighbour it keeps 95% in its first phase, and a tenth in its second, where 0 is predicted."""
    touched = phased("touched", profile("touched"), profile("touched", tolerated=0.04))
    loud = batch("loud", 0.0, 500.0, need=0.95, caused=1.0)
    scenario = Scenario("loud", cluster(1, cores=2.0), (loud, touched))
    found = played(scenario, "quasar", follows=True, chooses_sizes=chooses)
    assert found.finished_s[0] == pytest.approx(500.0)
    assert found.finished_s[1] == pytest.approx(600.0 - 0.1 * (500.0 - 100.0 / 0.95))
