"""Moves by use: what forbids one, and what becomes of the others when one is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kwiken.allocator.adaptation.actions import Action, Start, Stop
from kwiken.allocator.adaptation.adaptation import Adaptation
from kwiken.allocator.adaptation.live_repacking import LiveRepacking, LiveRepackSettings
from kwiken.allocator.adaptation.watch import Observation
from kwiken.allocator.placement.headroom import Caution
from kwiken.allocator.workloads.workload import Spread
from kwiken.model.nodes.nodes import Cluster, Node, NodeClass
from tests.allocator.adaptation.test_adaptation import RATES, ask, standing, where
from tests.allocator.adaptation.test_live_repacking import (
    RATES as LIVE_RATES,
    SPEEDS,
    WINDOW_S,
    Machine,
    burning,
    idle,
    moves_by_idle_use,
    moves_off,
)
from tests.support.runtime.clusters import cluster, over_sources, profile, requested

CAUTION = Caution(confidence=0.5, later_loss=0.0)
FOUR_CORES, EIGHT_CORES = 2, 3  # indices of sizes


def moved_by_use(adaptation: Adaptation, to: int) -> bool:
    """Move the first replica of "w" to a node by measured use; check that a refusal changes nothing."""
    before = where(adaptation)
    actions = adaptation.measures.move_by_use("w", "w-0", to, "less is used")
    if not actions:
        assert where(adaptation) == before
    return bool(actions)


@pytest.mark.parametrize(("memory_gb", "free"), [(24.0, True), (24.1, False)])
def test_a_move_by_use_needs_memory_and_no_cores(memory_gb: float, free: bool) -> None:
    nodes = cluster({"quick": 2})
    adaptation = standing(nodes, (ask("w", 400, nodes, memory_gb=40), [(0, FOUR_CORES)]))
    adaptation.job_room({}).take("job", "quick-1", 8.0, memory_gb, {})
    assert moved_by_use(adaptation, to=1) == free


def loud_and_quiet(pressure: float, rate: float) -> Adaptation:
    """A workload that presses on disk on one node, and on the other one of a rate that tolerates 0.3 there."""
    nodes = cluster({"quick": 2})
    loud = profile(RATES, {"quick": 1.0}, caused=over_sources(0.0, disk=2 * pressure))  # of eight cores
    quiet = profile(RATES, {"quick": 1.0}, name="quiet", tolerated=over_sources(1.0, disk=0.3))
    return standing(
        nodes,
        (requested(400.0, loud, nodes, caution=CAUTION), [(0, FOUR_CORES)]),
        (requested(rate, quiet, nodes, caution=CAUTION), [(1, FOUR_CORES)]),
    )


@pytest.mark.parametrize(("pressure", "borne"), [(0.3, True), (0.31, False)])
def test_a_move_by_use_goes_where_residents_bear_its_pressure(pressure: float, borne: bool) -> None:
    """The resident could spare a quarter of its performance, and loses less by either pressure."""
    assert moved_by_use(loud_and_quiet(pressure, 300.0), to=1) == borne


def test_a_move_by_use_is_refused_where_a_resident_would_miss_its_target() -> None:
    """Pressure as high as it tolerates costs the resident a twentieth, which it cannot spare."""
    for rate, allowed in ((400.0, False), (375.0, True)):
        assert moved_by_use(loud_and_quiet(0.3, rate), to=1) == allowed


def test_a_replica_returns_after_a_failed_move_by_use_although_its_cores_are_sold() -> None:
    """Its place is lost only where the memory was given away."""
    for memory_gb, back in ((24.0, True), (24.1, False)):
        nodes = cluster({"quick": 2})
        adaptation = standing(nodes, (ask("w", 400, nodes, memory_gb=40), [(0, FOUR_CORES)]))
        assert moved_by_use(adaptation, to=1)
        adaptation.job_room({}).take("job", "quick-0", 8.0, memory_gb, {})
        found = adaptation.start_failed("w", "w-1", 10.0)
        assert where(adaptation) == ({"w-0": ("quick-0", 4.0)} if back else {})
        assert [(type(one), one.workload) for one in found] == ([] if back else [(Stop, "w")])


@pytest.mark.parametrize(("rate", "size", "large"), [(400, FOUR_CORES, True), (800, EIGHT_CORES, False)])
def test_a_move_by_use_needs_a_node_as_large_as_the_replica(rate: float, size: int, large: bool) -> None:
    classes = tuple(NodeClass(name=name, cores=cores, memory_gb=64) for name, cores in (("a", 8), ("b", 4)))
    nodes = Cluster(classes, (Node("a-0", "a"), Node("b-0", "b")))
    request = requested(rate, profile(RATES, {"a": 1.0, "b": 1.0}), nodes)
    assert moved_by_use(standing(nodes, (request, [(0, size)])), to=1) == large


def test_a_move_by_use_keeps_replicas_apart() -> None:
    nodes = cluster({"quick": 3})
    for spread, together in ((Spread.NODE, False), (Spread.NONE, True)):
        request = ask("w", 800, nodes, spread=spread)
        for to, allowed in ((1, together), (2, True)):
            adaptation = standing(nodes, (request, [(0, FOUR_CORES), (1, FOUR_CORES)]))
            assert moved_by_use(adaptation, to=to) == allowed


def test_a_move_by_use_does_not_go_to_a_lost_node() -> None:
    nodes = cluster({"quick": 2})
    adaptation = standing(nodes, (ask("w", 400, nodes), [(0, FOUR_CORES)]))
    adaptation.nodes_lost(["quick-1"], 0.0)
    assert not moved_by_use(adaptation, to=1)
    adaptation.node_back("quick-1")
    assert moved_by_use(adaptation, to=1)


@pytest.mark.parametrize(("taken", "back"), [(4.0, True), (4.1, False)])
def test_a_straggler_whose_successor_could_not_be_started_needs_its_cores(taken: float, back: bool) -> None:
    nodes = cluster({"quick": 2})
    adaptation = standing(nodes, (ask("w", 400, nodes), [(0, FOUR_CORES)]))
    start, _ = adaptation.measures.move_straggler("w", 0, "it is slow", [])
    assert isinstance(start, Start)
    adaptation.job_room({}).take("job", "quick-0", taken, 1.0, {})
    found = adaptation.start_failed("w", start.key, 10.0)
    assert where(adaptation) == ({"w-0": ("quick-0", 4.0)} if back else {})
    assert [type(one) for one in found] == ([] if back else [Stop])


def repacking_of(adaptation: Adaptation, *movable: str, dial: float = 0.0) -> LiveRepacking:
    return adaptation.repacking(LiveRepackSettings(every_s=60.0, dial=dial, movable=frozenset(movable)), 0.0)


def relieved(nodes: int, crowded: set[str], *places: tuple[int, int]) -> list[tuple[str, int]]:
    """Moves off crowded nodes: key and index of the node; "w-0" stands at the first place."""
    there = cluster({"quick": nodes})
    adaptation = standing(there, (ask("w", 100, there, spread=Spread.NONE), places))
    return [(key, node) for _, key, node in moves_off(adaptation, repacking_of(adaptation, "w"), crowded)]


def test_crowded_nodes_are_relieved_by_their_own_replicas_onto_the_emptiest_other_node() -> None:
    """Replicas have 2 cores on two crowded nodes, and nodes have 8."""
    crowded = {"quick-0", "quick-1"}
    beside = [(0, 1), (1, 1)]
    assert relieved(3, crowded, *beside, (2, 2)) == [("w-0", 2), ("w-1", 2)]
    assert relieved(3, crowded, *beside, (2, 2), (2, 1)) == [("w-0", 2)]  # there is room for one
    assert relieved(4, crowded, *beside, (2, 0)) == [("w-0", 3), ("w-1", 2)]  # 8 and 7 cores are free
    assert relieved(4, crowded, *beside) == [("w-0", 2), ("w-1", 3)]


def test_no_move_is_planned_to_a_lost_node() -> None:
    nodes = cluster({"quick": 2})
    adaptation = standing(nodes, (ask("w", 100, nodes), [(0, 1)]))
    adaptation.nodes_lost(["quick-1"], 0.0)
    assert moves_off(adaptation, repacking_of(adaptation, "w"), {"quick-0"}) == []


def test_a_move_is_given_20_s_to_show_before_the_next_one_of_its_workload() -> None:
    nodes = cluster({"quick": 3})
    adaptation = standing(nodes, (ask("w", 100, nodes, spread=Spread.NONE), [(0, 1), (1, 1)]))
    repacking = repacking_of(adaptation, "w")
    burning(repacking, {"quick-0", "quick-1"})
    moments = [now_s for now_s in (60.0, 65.0, 70.0, 75.0, 79.0, 80.0, 85.0) if repacking.step(now_s)[0]]
    assert moments == [60.0, 80.0]
    assert {node for node, _ in where(adaptation).values()} == {"quick-2"}


@pytest.mark.parametrize(("node", "moved"), [("quick-0", []), ("quick-1", ["batch"])])
def test_only_best_effort_work_moves_while_its_service_misses_its_target(node: str, moved: list[str]) -> None:
    nodes = cluster({"quick": 3})
    adaptation = standing(
        nodes,
        (ask("w", 100, nodes, service="s", stage="a"), [(0, 1)]),
        (ask("batch", None, nodes, service="s", max_replicas=1), [(1, 1)]),
    )
    full = Observation(requests=1000, rate_per_s=100.0, p99_ms=5.0, turned_away=0.5)
    assert adaptation.observe_service("s", 0.0, full, {}) == []
    repacking = repacking_of(adaptation, "w", "batch")
    burning(repacking, {node})
    actions, _ = repacking.step(60.0)
    assert [one.workload for one in actions if isinstance(one, Start)] == moved
    assert len(repacking.planned) == 1 - len(moved)


def test_a_move_says_what_the_work_of_the_node_that_it_frees_uses() -> None:
    machine, moved = Machine(6, dial=0.0), 0
    for _ in range(60):
        before = dict(machine.running)
        for one in machine.window(idle(machine)):
            if isinstance(one, Stop):
                count = list(before.values()).count(one.node)
                assert f"{one.node}, whose work uses {0.05 * count:.3g} of 4 cores" in one.reason
                moved += 1
                break  # later moves of a period were decided before this one
    assert moved


def refuse(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Refuse all moves from now on; returns workload and key of those that were asked for."""
    asked: list[tuple[str, str]] = []

    def refused(name: str, key: str, *_: Any) -> list[Action]:
        asked.append((name, key))
        return []

    monkeypatch.setattr(machine.adaptation.measures, "move_by_use", refused)
    return asked


def test_a_refused_move_off_a_crowded_node_leaves_those_off_other_nodes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = Machine(4)
    repacking = machine.repacking
    crowded = sorted(machine.nodes_in_use())[:2]
    burning(repacking, crowded)
    with monkeypatch.context() as for_now:
        asked = refuse(machine, for_now)
        assert repacking.step(60.0)[0] == []
    ((_, refused),) = asked
    assert machine.running[refused] == crowded[0]
    (second,) = repacking.planned
    assert machine.running[second.key] == second.reason.split()[0] == crowded[1]
    assert repacking.step(65.0)[0]
    assert repacking.planned == []


def test_after_twenty_refused_moves_the_rest_waits_for_the_next_period(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = Machine(16, dial=0.0, naps=24, every_s=120.0)
    asked = refuse(machine, monkeypatch)
    for _ in range(47):  # the first period plans nothing
        machine.window(idle(machine))
    assert len(asked) == 21
    assert sum("cannot go to" in line for line in machine.lines) == 20


def test_samples_of_a_replica_that_has_gone_are_dropped_at_the_end_of_the_period() -> None:
    machine = Machine(6, dial=0.0)
    first = list(machine.running)
    for _ in range(120):
        machine.window(idle(machine))
    gone = [key for key in first if key not in machine.running]
    kept = [key for key in first if key in machine.running]
    assert gone
    assert kept
    # A replica that was moved goes on with the samples of the one that it replaces.
    assert not np.isnan(machine.repacking.record.series(list(machine.running)).cores).any()
    series = machine.repacking.record.series([*gone, *kept]).cores
    assert np.isnan(series[: len(gone)]).all()
    assert not np.isnan(series[len(gone) :]).any()


def test_a_period_says_how_many_nodes_it_is_to_free() -> None:
    machine = Machine(6, dial=0.0)
    for _ in range(12):  # up to the end of the first period
        used, moves_before = len(machine.nodes_in_use()), len(machine.moves)
        machine.window(idle(machine))
    carried_out = sum(isinstance(one, Start) for one in machine.moves[moves_before:])
    planned = len(machine.repacking.planned) + carried_out
    (line,) = machine.lines
    assert line.startswith(f"repack: {used} nodes in use; {planned} moves to free ")
    assert line.endswith(" of them at dial 0")


def test_a_node_is_allowed_where_residents_tolerate_the_sources_that_the_workload_presses_on() -> None:
    """The resident may already be short on the network, on which the workload does not press."""
    nodes = cluster({"quick": 2})
    loud = profile(RATES, {"quick": 1.0}, caused=over_sources(0.0, disk=0.5))  # of eight cores
    quiet = profile(RATES, {"quick": 1.0}, name="quiet", tolerated=over_sources(1.0, disk=0.25, network=0.25))
    adaptation = standing(
        nodes,
        (requested(400.0, loud, nodes, caution=CAUTION), [(0, FOUR_CORES)]),
        (requested(100.0, quiet, nodes, caution=CAUTION), [(1, 0)]),
    )
    rooms = adaptation.job_room({})
    assert moves_by_idle_use(adaptation, "w") == [("w-0", 1)]
    rooms.take("loud on the network", "quick-1", 1.0, 1.0, {"network": 0.5})
    assert moves_by_idle_use(adaptation, "w") == [("w-0", 1)]
    rooms.take("loud on disk", "quick-1", 1.0, 1.0, {"disk": 0.01})
    assert moves_by_idle_use(adaptation, "w") == []


def test_best_effort_work_moves_one_replica_at_a_time() -> None:
    machine, moved = Machine(10, dial=0.0, naps=12), 0
    for _ in range(60):
        starts = [one for one in machine.window(idle(machine)) if isinstance(one, Start)]
        naps = sum(one.workload == "nap" for one in starts)
        assert naps <= 1
        moved += naps
    assert moved > 1


@pytest.mark.parametrize(("spread", "together"), [(Spread.NODE, False), (Spread.NONE, True)])
def test_replicas_of_a_stage_go_together_where_they_may(spread: Spread, together: bool) -> None:
    nodes = cluster({"quick": 6}, cores=4)
    request = requested(50.0, profile(LIVE_RATES, SPEEDS), nodes, spread=spread)
    adaptation = standing(nodes, (request, [(node, 0) for node in range(6)]))
    assert bool(moves_by_idle_use(adaptation, "w")) == together


def test_a_small_job_is_not_moved_off_its_node() -> None:
    nodes = cluster({"quick": 2}, cores=4)
    request = requested(50.0, profile(LIVE_RATES, SPEEDS), nodes)
    adaptation = standing(nodes, (request, [(0, 0)]))
    adaptation.job_room({}).take("job", "quick-1", 1.0, 1.0, {})
    assert moves_by_idle_use(adaptation) == []
    assert moves_by_idle_use(adaptation, "w") == [("w-0", 1)]


@pytest.mark.parametrize(("ours", "other"), [("a", 1), ("b", 0)])
def test_what_was_not_started_here_stays(ours: str, other: int) -> None:
    nodes = cluster({"quick": 3}, cores=4)
    requests = [requested(None, profile({2: 1.0}, SPEEDS, name=name), nodes) for name in ("a", "b")]
    adaptation = standing(nodes, *((one, [(node, 0)]) for node, one in enumerate(requests)))
    assert moves_by_idle_use(adaptation, ours) == [(f"{ours}-0", other)]


def test_a_replica_stays_for_the_rest_of_the_period_in_which_it_was_moved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every second move is refused, after which the rest of the period is planned again."""
    machine = Machine(8, dial=0.0, naps=8)
    real, asked = machine.adaptation.measures.move_by_use, 0

    def sometimes(name: str, key: str, node: int, reason: str) -> list[Action]:
        nonlocal asked
        asked += 1
        return real(name, key, node, reason) if asked % 2 else []

    monkeypatch.setattr(machine.adaptation.measures, "move_by_use", sometimes)
    for _ in range(11):
        machine.window(idle(machine))
    for _ in range(5):  # periods, each of which begins with a decision
        moved: set[str] = set()
        for _ in range(12):
            actions = machine.window(idle(machine))
            assert not moved & {one.key for one in actions if isinstance(one, Stop)}
            moved |= {one.key for one in actions if isinstance(one, Start)}
            assert not moved & {move.key for move in machine.repacking.planned}
    assert len(machine.moves) > 2
    assert any("cannot go to" in line for line in machine.lines)


def test_a_planned_move_of_a_replica_that_has_gone_is_not_carried_out() -> None:
    machine = Machine(8, dial=0.0, naps=8)
    for _ in range(12):
        machine.window(idle(machine))
    move = next(one for one in machine.repacking.planned if one.workload == "nap")
    replicas = machine.adaptation.replicas
    replicas.remove(move.workload, replicas.position(move.workload, move.key))
    for _ in range(10):
        machine.now_s += WINDOW_S
        actions, _ = machine.repacking.step(machine.now_s)
        assert move.key not in {one.key for one in actions if isinstance(one, Stop)}
    assert move not in machine.repacking.planned
