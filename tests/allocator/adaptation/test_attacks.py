"""Adaptation under attack: flapping targets, lost nodes, stragglers, failed starts, gaps; it does not oscillate."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, strategies as st

from kwiken.allocator.adaptation.actions import Action, Resize, Shortage, Start, Stop
from kwiken.allocator.adaptation.adaptation import Adaptation
from kwiken.allocator.adaptation.measures import Measures
from kwiken.allocator.adaptation.replicas import Replicas
from kwiken.allocator.adaptation.watch import WINDOW_S, Observation
from kwiken.allocator.placement.node_ledger import NodeLedger
from kwiken.allocator.placement.order import admit_all
from kwiken.allocator.placement.placement_document import document
from kwiken.allocator.placement.sizing import Sizing
from kwiken.allocator.workloads.workload import Spread
from tests.allocator.adaptation.test_adaptation import TARGET_MS, THRIFTY, Plant, ask, seen, started, where
from tests.support.runtime.clusters import cluster

HOUR = 720  # windows
# Windows after which constant inputs have ended all changes: what is too much is given back step by step, and
# the pause between steps is a minute and a quarter, doubled each time that giving back was regretted.
SETTLED = HOUR


def held(adaptation: Adaptation, one: Observation, windows: int, *, from_s: float = 0.0) -> list[Action]:
    """Actions while every window is the same."""
    actions: list[Action] = []
    for window in range(windows):
        actions += adaptation.observe(from_s + window * WINDOW_S, {"w": one})
    return actions


histories = st.lists(
    st.tuples(
        st.floats(0.1, 50),  # p99
        st.floats(0, 1500),  # rate
        st.floats(1, 30),  # work
        st.integers(1, 15),  # windows
        st.sampled_from(["", "", "lose", "back", "fail"]),
    ),
    max_size=8,
)


@given(history=histories, p99_ms=st.floats(0.1, 50), rate=st.floats(0, 1500), work_ms=st.floats(1, 30))
def test_constant_inputs_end_all_changes(history: Any, p99_ms: float, rate: float, work_ms: float) -> None:
    nodes = cluster({"quick": 2, "slow": 1})
    adaptation = started(nodes, ask("w", 300, nodes), ask("batch", None, nodes, max_replicas=3))
    now_s = 0.0
    for p99, load, work, windows, event in history:
        if event == "lose":
            adaptation.nodes_lost(["quick-0"], now_s)
        elif event == "back":
            adaptation.node_back("quick-0")
        elif event == "fail" and (keys := list(where(adaptation))):
            adaptation.start_failed("w", keys[-1], now_s)
        past = Observation(requests=1000, rate_per_s=load, p99_ms=p99, work_ms=work)
        held(adaptation, past, windows, from_s=now_s)
        now_s += windows * WINDOW_S
    constant = Observation(requests=1000, rate_per_s=rate, p99_ms=p99_ms, work_ms=work_ms)
    settled_s = now_s + SETTLED * WINDOW_S
    held(adaptation, constant, SETTLED, from_s=now_s)
    assert held(adaptation, constant, 50, from_s=settled_s) == []


class Steps(Plant):
    """Workload that meets its target by far with a size, and misses it by far with the next smaller one."""

    def p99_ms(self, rate: float) -> float:
        enough = self.adaptation.performance("w")[0] >= 1.4 * rate
        return 0.3 * TARGET_MS if enough else 3 * TARGET_MS


def test_changes_become_ever_rarer_where_one_size_is_too_small_and_the_next_too_large() -> None:
    nodes = cluster({"quick": 2})
    plant = Steps(started(nodes, ask("w", 200, nodes)))
    days = [len(plant.run(86_400)) for _ in range(3)]
    assert days[0] <= 2 * math.log2(24 * 60)
    assert days[1] <= 2
    assert days[2] <= 2


class TwoSmall:
    """Scheduler that places two small replicas on the second and the third node."""

    name = "two small"

    def place(self, sizing: Sizing) -> None:
        for node in (1, 2):
            sizing.add(node, 0)

    def satisfied(self, sizing: Sizing) -> bool:
        return len(sizing.replicas) > 0


def test_a_replica_that_two_were_to_replace_is_put_back_once() -> None:
    nodes = cluster({"quick": 3})
    request = ask("w", 150, nodes)
    placement = document(
        nodes, admit_all([request], NodeLedger(nodes), THRIFTY), scheduler="thrifty", confidence=0.5
    )
    replicas = Replicas([request], nodes, placement)
    ((old, _, _),) = replicas.places()["w"]
    measures = Measures(replicas, TwoSmall())
    *starts, stop = measures.move_straggler("w", 0, "it is slow", [])
    assert isinstance(stop, Stop)
    assert stop.key == old
    assert len(stop.after) == len(starts) == 2
    for key in stop.after:
        assert measures.start_failed("w", key)[1] == []
    assert [key for key, _, _ in replicas.places()["w"]] == [old]


@given(p99=st.lists(st.floats(0.96 * TARGET_MS, 1.04 * TARGET_MS), min_size=100, max_size=100))
def test_a_p99_that_flaps_around_the_target_never_takes_anything_away(p99: list[float]) -> None:
    nodes = cluster({"quick": 2})
    adaptation = started(nodes, ask("w", 200, nodes))
    before = adaptation.performance("w")[0]
    for window, p99_ms in enumerate(p99):
        for action in adaptation.observe(window * WINDOW_S, {"w": seen(p99_ms)}):
            assert isinstance(action, Start | Resize | Shortage)
            performance = adaptation.performance("w")[0]
            assert performance >= before
            before = performance


def test_a_load_that_doubles_within_a_second_is_met_by_one_step() -> None:
    nodes = cluster({"quick": 4})
    plant = Plant(started(nodes, ask("w", 300, nodes)))
    plant.run(60, rate=300)
    actions = plant.run(15, rate=600)
    assert actions
    assert plant.p99_ms(600) <= TARGET_MS
    assert plant.run(3600, rate=600) == []


def test_two_slow_windows_with_a_gap_between_them_do_not_follow_one_another() -> None:
    nodes = cluster({"quick": 2})
    adaptation = started(nodes, ask("w", 200, nodes))
    for window in range(50):  # a gateway that answers once a minute, or a machine that sleeps for a day
        for gap_s in (60.0, 86_400.0):
            assert adaptation.observe(1e6 * window + gap_s, {"w": seen(50.0)}) == []
    adaptation.observe(1e9, {"w": seen(50.0)})
    assert adaptation.observe(1e9 + WINDOW_S, {"w": seen(50.0)}) != []


def test_a_clock_that_stands_still_or_leaps_causes_nothing_by_itself() -> None:
    nodes = cluster({"quick": 2})
    adaptation = started(nodes, ask("w", 200, nodes))
    for now_s in (0.0, 0.0, 0.0, 1e9, 1e9, 5.0, 1e12):
        assert adaptation.observe(now_s, {"w": seen(8.0)}) == []


class TestNodes:
    def test_a_node_that_is_lost_twice_has_all_its_room_when_it_is_back(self) -> None:
        nodes = cluster({"quick": 2})
        adaptation = started(nodes, ask("w", 1500, nodes))
        first = adaptation.nodes_lost(["quick-1"], 0.0)
        assert [type(action) for action in first if not isinstance(action, Resize)] == [Shortage]
        assert adaptation.nodes_lost(["quick-1"], 1.0) == []
        assert adaptation.lost == ["quick-1"]
        assert {type(action) for action in adaptation.node_back("quick-1")} == {Start}
        assert adaptation.performance("w")[0] == pytest.approx(1500)
        assert adaptation.node_back("quick-1") == []
        assert {type(action) for action in adaptation.nodes_lost(["quick-1"], 2.0)} == {Shortage}

    def test_nodes_that_are_lost_together_are_not_taken_for_one_another(self) -> None:
        nodes = cluster({"quick": 3})
        adaptation = started(nodes, ask("w", 1500, nodes))
        lost = sorted({node for node, _ in where(adaptation).values()})
        assert len(lost) == 2
        actions = adaptation.nodes_lost(lost, 0.0)
        (left,) = {node.name for node in nodes.nodes} - set(lost)
        assert {action.node for action in actions if isinstance(action, Start)} == {left}
        assert f"nodes {', '.join(lost)} were lost" in actions[0].line

    def test_all_nodes_lost_and_back(self) -> None:
        nodes = cluster({"quick": 2})
        adaptation = started(nodes, ask("w", 600, nodes), ask("batch", None, nodes))
        (shortage,) = adaptation.nodes_lost(["quick-0", "quick-1"], 0.0)
        assert isinstance(shortage, Shortage)
        assert where(adaptation) == where(adaptation, "batch") == {}
        nothing = Observation(requests=0, rate_per_s=0.0, p99_ms=None)
        assert held(adaptation, nothing, HOUR) == []
        actions = adaptation.node_back("quick-1")
        assert actions[0].workload == "w"
        assert adaptation.performance("w")[0] >= 600
        assert where(adaptation, "batch")

    def test_a_node_lost_while_a_workload_grows_takes_back_what_it_grew(self) -> None:
        nodes = cluster({"quick": 2})
        adaptation = started(nodes, ask("w", 700, nodes))
        (home,) = {node for node, _ in where(adaptation).values()}
        grown = held(adaptation, seen(20.0, 1200.0), 2)
        starts = [action for action in grown if isinstance(action, Start)]
        other = starts[0].node
        assert other != home
        actions = adaptation.nodes_lost([other], 10.0)
        assert adaptation.start_failed("w", starts[0].key, 11.0) == []  # it is no longer counted on
        assert {type(action) for action in actions} == {Shortage}
        assert {node for node, _ in where(adaptation).values()} == {home}


class TestMoves:
    def straggling(
        self, nodes: Any, slow: Mapping[str, float], windows: int
    ) -> tuple[Adaptation, list[Action]]:
        """Two replicas; a replica's latency follows from its node alone."""
        adaptation = started(nodes, ask("w", 1600, nodes, spread=Spread.NODE, max_replicas=2))
        actions: list[Action] = []
        for window in range(windows):
            latency = {key: slow.get(node, 5.0) for key, (node, _) in where(adaptation).items()}
            actions += adaptation.observe(window * WINDOW_S, {"w": seen(8.0, latency_ms=latency)})
        return adaptation, actions

    def test_a_straggler_does_not_go_back_and_forth_between_two_slow_nodes(self) -> None:
        nodes = cluster({"quick": 3})
        slow = {"quick-0": 20.0, "quick-2": 20.0}
        _, actions = self.straggling(nodes, slow, HOUR - 20)
        assert len([action for action in actions if isinstance(action, Start)]) == 1

    def test_a_move_is_given_20_s_to_show(self) -> None:
        nodes = cluster({"quick": 3})
        adaptation, actions = self.straggling(nodes, {"quick-0": 20.0}, 3)
        assert [type(action) for action in actions] == [Start, Stop]
        moments = [
            at for at in (15.0, 20.0, 25.0, 30.0, 35.0) if adaptation.observe(at, {"w": seen(50.0, 1700.0)})
        ]
        assert moments == [35.0]

    def test_a_straggler_that_recovers_stays(self) -> None:
        nodes = cluster({"quick": 3})
        adaptation = started(nodes, ask("w", 1600, nodes, spread=Spread.NODE, max_replicas=2))
        first, second = where(adaptation)
        for window in range(300):
            latency = {first: 20.0 if window % 3 < 2 else 5.0, second: 5.0}
            assert adaptation.observe(window * WINDOW_S, {"w": seen(8.0, latency_ms=latency)}) == []

    def test_a_large_replica_is_no_straggler_where_cores_do_not_make_calls_quicker(self) -> None:
        nodes = cluster({"quick": 3})
        adaptation = started(nodes, ask("w", 1000, nodes, spread=Spread.NODE, max_replicas=2))
        assert {cores for _, cores in where(adaptation).values()} == {8.0, 2.0}
        latency = dict.fromkeys(where(adaptation), 5.0)
        assert held(adaptation, seen(8.0, 1000.0, latency_ms=latency), 100) == []

    def test_the_old_replica_stays_if_the_new_one_does_not_start(self) -> None:
        nodes = cluster({"quick": 3})
        adaptation, (start, stop) = self.straggling(nodes, {"quick-0": 20.0}, 3)
        assert isinstance(start, Start)
        assert isinstance(stop, Stop)
        assert stop.after == (start.key,)
        assert stop.key not in where(adaptation)
        assert adaptation.start_failed("w", start.key, 20.0) == []
        assert stop.key in where(adaptation)
        assert start.key not in where(adaptation)
        assert adaptation.performance("w")[0] == pytest.approx(1600)
        assert adaptation.observe(60.0, {}) == []  # the target is met, so nothing is tried again

    def test_an_old_replica_whose_room_is_gone_is_stopped(self) -> None:
        nodes = cluster({"quick": 3})
        adaptation, (start, stop) = self.straggling(nodes, {"quick-0": 20.0}, 3)
        assert isinstance(start, Start)
        assert isinstance(stop, Stop)
        adaptation.nodes_lost([stop.node], 16.0)
        (late,) = adaptation.start_failed("w", start.key, 17.0)
        assert isinstance(late, Stop)
        assert late.key == stop.key
        assert "its room was given away" in late.line


@pytest.mark.parametrize("failures", [1, 5])
def test_starts_that_fail_are_tried_again_ever_more_rarely(failures: int) -> None:
    nodes = cluster({"quick": 2})
    adaptation = started(nodes, ask("w", 400, nodes))
    (key,) = where(adaptation)
    now_s, tried_s = 0.0, [0.0]
    adaptation.start_failed("w", key, now_s)
    while len(tried_s) <= failures:
        now_s += WINDOW_S
        for action in adaptation.observe(now_s, {}):
            assert isinstance(action, Start)
            tried_s.append(now_s)
            if len(tried_s) <= failures:
                adaptation.start_failed("w", action.key, now_s)
    waits = [after - before for before, after in itertools.pairwise(tried_s)]
    assert waits == [20.0, 40.0, 80.0, 160.0, 320.0][:failures]
    assert adaptation.performance("w")[0] >= 400
