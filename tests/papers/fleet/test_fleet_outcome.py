"""Outcome of a run by its definitions: shares of the cluster, figures of a summary, and true performance."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from kwiken.allocator.workloads.profile import Estimate, Size
from kwiken.base.errors import InputError
from kwiken.model.nodes.nodes import Cluster, Node, NodeClass
from papers.worlds.fleet import comparison
from papers.worlds.fleet.managers import CONTESTANTS
from papers.worlds.fleet.simulator.manager import DETECTION_S, Manager
from papers.worlds.fleet.simulator.outcome import FleetOutcome, PhaseChange
from papers.worlds.fleet.simulator.scenario import Outage, PhaseStep, Scenario
from papers.worlds.fleet.simulator.site import Truth
from tests.papers.fleet.test_fleet_simulator import batch, cluster, exactly, played, profile, service


def outcome(**fields: list[float]) -> FleetOutcome:
    count = len(fields["performance"])
    found = FleetOutcome.empty(count, 10.0)
    given = {"arrival_s": [0.0] * count, "started_s": [0.0] * count, "finished_s": [1.0] * count, **fields}
    for name in ("from_arrival", "kept", "alone"):
        given.setdefault(name, [1.0] * count)
    given.setdefault("contention", [0.0] * count)
    for name, values in given.items():
        setattr(found, name, np.array(values))
    return found


def test_shares_of_cores_are_means_over_a_window() -> None:
    found = outcome(performance=[1.0])
    for now_s, cores, used in ((0.0, 2.0, 1.0), (10.0, 6.0, 6.0), (20.0, 10.0, 5.0), (40.0, 0.0, 0.0)):
        found.note(now_s, cores, used)
    assert found.shares(0.0, 40.0) == pytest.approx(((20 + 60 + 200) / 400, (10 + 60 + 100) / 400))
    assert found.shares(5.0, 15.0) == pytest.approx(((10 + 30) / 100, (5 + 30) / 100))
    assert found.shares(30.0, 60.0) == pytest.approx((100 / 300, 50 / 300))
    steady = outcome(performance=[1.0])
    steady.note(5.0, 8.0, 4.0)
    assert steady.shares(0.0, 10.0) == pytest.approx((0.4, 0.2))
    moments, had_cores, worked_cores = found.series()
    assert (len(moments), moments[0], moments[-1]) == (200, 0.0, 40.0)
    for moment, had, worked in zip(moments, had_cores, worked_cores, strict=True):
        expected = (
            (0.2, 0.1)
            if moment < 10
            else (0.6, 0.6)
            if moment < 20
            else (1.0, 0.5)
            if moment < 40
            else (0, 0)
        )
        assert (had, worked) == pytest.approx(expected)


def test_a_summary_counts_by_its_bounds() -> None:
    found = outcome(
        performance=[0.95, 0.949, 0.90, 0.899, 0.80, 0.799, 1.2, 0.5],
        alone=[0.95, 0.949, 1.0, 1.0, 1.0, 1.0, 1.0, 0.2],
        contention=[1 - 0.95, 0.051, 1 - 0.8, 0.21, 0.0, 0.0, 0.0, 0.9],
        from_arrival=[1.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5],
        kept=[0.0, 1.0, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5],
        arrival_s=[float(10 * n) for n in range(8)],
        started_s=[float(12 * n) for n in range(8)],
        finished_s=[100.0] * 7 + [math.nan],
    )
    found.moves[:2], found.restarts[3] = 2, 1
    for now_s, cores, used in ((0.0, 10.0, 10.0), (35.0, 5.0, 4.0), (70.0, 1.0, 1.0)):
        found.note(now_s, cores, used)
    figures = found.summary()
    expected = {
        "QoS kept, %": 25.0,
        "loss below 10%, %": 50.0,
        "loss above 20%, %": 25.0,
        "mean performance, %": 100 * (0.95 + 0.949 + 0.9 + 0.899 + 0.8 + 0.799 + 1.2 + 0.5) / 8,
        "mean performance, at most 1, %": 100 * (0.95 + 0.949 + 0.9 + 0.899 + 0.8 + 0.799 + 1.0 + 0.5) / 8,
        "mean performance from arrival, at most 1, %": 100 * 4.5 / 8,
        "time with QoS kept, %": 50.0,
        "mean loss by contention, %": 100 * (0.05 + 0.051 + 0.2 + 0.21 + 0.9) / 8,
        "mean performance without contention, %": 100 * (0.95 + 0.949 + 5.0 + 0.2) / 8,
        "platform within 5% of the best, %": 75.0,
        "loss by contention below 5%, %": 50.0,
        "loss by contention above 20%, %": 25.0,
        "cores allocated, %": 50.0,  # from the middle of the arrivals to the last one
        "cores used, %": 40.0,
        "mean wait, s": 7.0,
        "makespan, s": 100.0,
        "not placed": 0.0,
        "moves": 4.0,
        "restarts": 1.0,
    }
    assert {name: pytest.approx(value) for name, value in expected.items()} == figures


def test_workloads_that_never_started_are_left_out_of_shares() -> None:
    found = outcome(performance=[1.0, math.nan], started_s=[0.0, math.nan], finished_s=[5.0, math.nan])
    found.note(0.0, 1.0, 1.0)
    figures = found.summary()
    assert (figures["QoS kept, %"], figures["not placed"], figures["mean wait, s"]) == (100.0, 1.0, 0.0)
    assert math.isnan(figures["cores used, %"])  # all arrived at once
    assert not any("change of phase" in name for name in figures)
    found.changes += [PhaseChange(1.0, 0.5, 0.8), PhaseChange(0.6, 0.3), PhaseChange(0.8, 0.3, 0.6)]
    moments = ("before", "at", "45 s after")
    told = [found.summary()[f"performance {moment} a change of phase, %"] for moment in moments]
    assert told == pytest.approx([90.0, 40.0, 70.0])  # of those that lasted


def test_true_performance_is_the_product_of_its_factors() -> None:
    about = replace(
        profile("w", slow=0.4, base=3.0),
        sizes=(Size(1.0, 2.0), Size(1.0, 8.0), Size(2.0, 4.0)),
        up=exactly([0.0, 0.3, 0.9]),
        replicas=np.array([1, 2, 8]),
        out=exactly([0.0, math.log(1.8), math.log(4.0)]),
    )
    truth = Truth(about, cluster(1, 1))
    assert truth.rate(1.0, 2.0, 0) == pytest.approx(3.0)
    assert truth.rate(1.0, 8.0, 1) == pytest.approx(3.0 * math.exp(0.3) * 0.4)
    assert truth.rate(1.0, 4.0, 0) == pytest.approx(3.0)  # 8 GB are more than 4
    assert truth.rate(1.0, 16.0, 0) == pytest.approx(3.0 * math.exp(0.3))
    assert truth.rate(2.0, 4.0, 0) == pytest.approx(3.0 * math.exp(0.9))
    assert [truth.efficiency(count) for count in (0, 1, 2)] == pytest.approx([1.0, 1.0, 0.9])
    assert truth.efficiency(4) == pytest.approx(math.sqrt(1.8 * 4.0) / 4)
    assert truth.efficiency(8) == pytest.approx(0.5)
    none = Truth(replace(about, tolerated=Estimate(np.zeros(13), np.zeros(13))), cluster(1))
    assert set(none.tolerated) == {1e-9}


def test_a_class_that_only_its_speed_tells_of_has_that_speed() -> None:
    classes = tuple(NodeClass(name=name, cores=1.0, memory_gb=8.0, speed=2.5) for name in ("fast", "new"))
    truth = Truth(profile("w"), Cluster(classes, (Node("n", "new"),)))
    assert [truth.rate(1.0, 1.0, place) for place in (0, 1)] == [1.0, 2.5]
    unknown = (classes[0], NodeClass(name="odd", cores=1.0, memory_gb=8.0))
    with pytest.raises(InputError, match=r"workload 'w'.*'odd'"):
        Truth(profile("w"), Cluster(unknown, (Node("n", "odd"),)))


def test_managers_are_those_of_the_sources() -> None:
    assert DETECTION_S == 30.0
    told = {
        name: (one.scheduler, one.knowledge.value, one.follows, one.chooses_sizes, one.detection_s)
        for name, one in CONTESTANTS.items()
    }
    for name in ("paragon", "paragon, all known", "paragon, chosen entries", "paragon-statistical"):
        assert told[name][2:] == (True, False, 30.0)
    for name in ("least-loaded", "interference-only", "heterogeneity-only", "paragon, placement only"):
        assert told[name][2:4] == (False, False)
    for name in ("quasar", "quasar, all known", "thrifty"):
        assert told[name][2:] == (True, True, 15.0)
    assert told["quasar, without adaptation"][2:4] == (False, True)
    assert [name for name, one in told.items() if one[1] == "true"] == [
        "paragon, all known",
        "least-loaded",
        "quasar, all known",
    ]
    assert told["quasar"][1] == told["paragon"][1] == "published"
    assert {one.caution.confidence for name, one in CONTESTANTS.items() if name != "thrifty"} == {0.5}
    assert CONTESTANTS["thrifty"].caution.confidence == 0.95
    made = CONTESTANTS["quasar"].manager("quasar", 1)
    assert (made.name, made.follows, made.chooses_sizes, made.detection_s) == ("quasar", True, True, 15.0)
    for follows, sizes, again in ((True, False, True), (True, True, False), (False, False, False)):
        assert Manager("m", made.scheduler, made.caution, follows, sizes).measures_again is again


def test_a_comparison_runs_a_manager_on_a_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    ran = []

    def simulate(world: object, name: str) -> FleetOutcome:
        ran.append((world, name))
        return outcome(performance=[math.nan], started_s=[math.nan])

    monkeypatch.setattr(comparison, "simulate", simulate)
    assert comparison.run_of("local-low", 3, "quasar") == {"not placed": 1.0}
    ((world, name),) = ran
    assert (world.seed, name) == (3, "quasar")  # type: ignore[attr-defined]


@pytest.mark.parametrize(("later", "starts_s"), [(4.9, 10.0), (5.0, 10.0), (12.0, 12.0)])
def test_events_of_one_moment_happen_in_their_order(later: float, starts_s: float) -> None:
    """A node that comes back at the moment of an arrival takes it; a job that ends then makes room first."""
    first, second = batch("a", 0.0, 10.0), batch("b", later, 1.0)
    found = played(Scenario("two", cluster(1), (first, second)))
    assert found.started_s[1] == starts_s
    last = played(Scenario("last", cluster(1), (first, batch("b", 10.0, 1.0))))
    assert (last.started_s[1], last.decisions) == (10.0, 2)  # it is not tried in vain before
    down = played(Scenario("down", cluster(1), (batch("c", 7.0, 1.0),), (Outage(0, 2.0, 7.0),)))
    assert down.started_s[0] == 7.0


def test_a_service_that_ends_while_it_waits_after_a_failure_leaves_the_line() -> None:
    job = service("s", 1.0, 50.0)
    found = played(Scenario("lost", cluster(1), (job, batch("b", 20.0, 5.0)), (Outage(0, 10.0, 60.0),)))
    assert found.finished_s.tolist() == [50.0, 65.0]
    assert found.started_s.tolist() == [0.0, 60.0]


@pytest.mark.parametrize(("share", "started"), [(0.96, 0.0), (0.94, 20.0)])
def test_95_percent_of_the_need_are_accepted_by_a_manager_that_chooses_sizes(
    share: float, started: float
) -> None:
    """A fast node is taken; the slow one gives a share of the need, and an empty cluster all of it."""
    jobs = (batch("a", 0.0, 20.0), batch("b", 1.0, 20.0, slow=share))
    found = played(Scenario("busy", cluster(1, 1), jobs), "quasar", chooses_sizes=True)
    assert found.started_s.tolist() == [0.0, max(started, 1.0)]


@pytest.mark.parametrize(("base", "started"), [(1.9, 1.0), (1.89, 20.0)])
def test_95_percent_of_the_need_are_enough(base: float, started: float) -> None:
    """A slow node gives half of what a fast one does, which is taken at first."""
    jobs = batch("a", 0.0, 20.0), batch("b", 1.0, 20.0, base=base, slow=0.5)
    found = played(Scenario("busy", cluster(1, 1), jobs), "quasar", chooses_sizes=True)
    assert found.started_s.tolist() == [0.0, started]


@pytest.mark.parametrize(("after_s", "idle"), [(159.0, 2.0), (161.0, 1.0)])
def test_what_is_idle_is_given_back_a_minute_after_the_fall(after_s: float, idle: float) -> None:
    steps = (PhaseStep(100.0, 0.5),)
    found = played(
        Scenario("fall", cluster(2), (service("s", 2.0, 400.0, steps),)),
        "quasar",
        follows=True,
        chooses_sizes=True,
    )
    cores, _ = found.shares(after_s - 0.5, after_s + 0.5)
    assert cores * 2 == pytest.approx(idle)


def test_events_and_decisions_are_counted_from_none() -> None:
    none = FleetOutcome.empty(2, 4.0)
    assert (none.events, none.decisions, none.wasted, none.useful, none.makespan_s) == (0, 0, 0.0, 0.0, 0.0)
    assert none.moves.tolist() == none.restarts.tolist() == [0, 0]
    jobs = (batch("a", 0.0, 10.0), batch("b", 1.0, 10.0))
    found = played(Scenario("two", cluster(1), jobs, (Outage(0, 30.0, 40.0),)))
    assert (found.events, found.decisions) == (6, 3)  # b is tried when it comes, and when there is room
    empty = played(Scenario("empty", cluster(1), ()))
    assert (empty.events, empty.summary()) == (0, {"not placed": 0.0})


def test_replicas_together_do_what_the_efficiency_of_their_number_leaves() -> None:
    """Two replicas do 1.8 times the work of one; one is left when a node fails."""
    about = replace(profile("a"), out=exactly([0.0, math.log(1.8), math.log(2.4)]))
    job = batch("a", 0.0, 36.0, need=1.8, most=2)
    job = replace(job, phases=(replace(job.phases[0], truth=about),))
    found = played(Scenario("pair", cluster(2), (job,)), "quasar")
    assert found.finished_s[0] == pytest.approx(20.0)
    assert found.alone[0] == pytest.approx(1.0)
    lost = played(Scenario("lost", cluster(2), (job,), (Outage(0, 10.0),)), "quasar")
    assert lost.finished_s[0] == pytest.approx(10.0 + 18.0)
