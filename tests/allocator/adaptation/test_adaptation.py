"""Adaptation on a modelled cluster and a fake clock: what it does, in which order, and that it does not flap."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, strategies as st

from kwiken.allocator.adaptation.actions import Action, Resize, Revision, Shortage, Start, Stop
from kwiken.allocator.adaptation.adaptation import Adaptation
from kwiken.allocator.adaptation.watch import (
    COOL_DOWN_S,
    REGRET_S,
    WINDOW_S,
    Need,
    Observation,
    WorkloadWatch,
)
from kwiken.allocator.placement.node_ledger import NodeLedger
from kwiken.allocator.placement.order import admit_all
from kwiken.allocator.placement.placement_document import document
from kwiken.allocator.placement.request import PlacementRequest
from kwiken.allocator.schedulers.names import scheduler
from kwiken.allocator.workloads.workload import Spread
from kwiken.model.nodes.nodes import Cluster
from tests.support.runtime.clusters import cluster, profile, requested

RATES: dict[float, float] = {1: 100.0, 2: 200.0, 4: 400.0, 8: 800.0}
TARGET_MS = 10.0  # of `requested`
PER_WINDOW = 1000  # requests in a window, enough for a p99
THRIFTY = scheduler("thrifty")


def ask(name: str, rate: float | None, nodes: Cluster, **fields: Any) -> PlacementRequest:
    speeds = {one.name: 1.0 if one.name == "quick" else 0.5 for one in nodes.classes}
    return requested(rate, profile(RATES, speeds, name=name), nodes, **{"spread": Spread.NONE, **fields})


def started(nodes: Cluster, *requests: PlacementRequest) -> Adaptation:
    """Adaptation of a placement made just now."""
    admissions = admit_all(requests, NodeLedger(nodes), THRIFTY)
    placement = document(nodes, admissions, scheduler="thrifty", confidence=0.5)
    return Adaptation(requests, nodes, placement, THRIFTY)


def standing(nodes: Cluster, *placed: tuple[PlacementRequest, Sequence[tuple[int, int]]]) -> Adaptation:
    """Adaptation of workloads whose replicas stand on given nodes, in sizes of given indices."""
    placement = document(nodes, [], scheduler="thrifty", confidence=0.5)
    adaptation = Adaptation([request for request, _ in placed], nodes, placement, THRIFTY)
    replicas = adaptation.replicas
    for request, places in placed:
        for node, size in places:
            replicas.sizings[request.name].add(node, size)
        replicas.started(request.name, 0, "for the test")
    return adaptation


def seen(
    p99_ms: float | None,
    rate: float = 200.0,
    requests: int = PER_WINDOW,
    latency_ms: Mapping[str, float] | None = None,
) -> Observation:
    return Observation(requests=requests, rate_per_s=rate, p99_ms=p99_ms, latency_ms=latency_ms or {})


class Plant:
    """Cluster whose workload performs at a factor of the prediction; its latencies are those of M/M/1."""

    def __init__(
        self, adaptation: Adaptation, *, truth: float = 1.0, noise: float = 0.0, seed: int = 0
    ) -> None:
        self.adaptation = adaptation
        self.now_s = 0.0
        self.actions: list[Action] = []
        self._truth = truth
        self._noise = noise
        self._random = random.Random(seed)

    def p99_ms(self, rate: float) -> float:
        capacity = self._truth * self.adaptation.performance("w")[0]
        spare = math.log(100) / (TARGET_MS / 1e3) + capacity - rate  # 0 where the queue grows for ever
        return min(1e5, 1e3 * math.log(100) / max(spare, 1e-3)) * math.exp(self._random.gauss(0, self._noise))

    def run(self, seconds: float, rate: float = 200.0) -> list[Action]:
        """Let time pass under a load; returns the actions of that time."""
        done: list[Action] = []
        for _ in range(round(seconds / WINDOW_S)):
            self.now_s += WINDOW_S
            done += self.adaptation.observe(self.now_s, {"w": seen(self.p99_ms(rate), rate)})
        self.actions += done
        return done


def where(adaptation: Adaptation, name: str = "w") -> dict[str, tuple[str, float]]:
    return {key: (node, cores) for key, node, cores in adaptation.keys[name]}


def test_a_target_that_is_missed_is_met_by_larger_replicas_where_there_is_room() -> None:
    nodes = cluster({"quick": 3})
    plant = Plant(started(nodes, ask("w", 200, nodes)), truth=0.6)
    assert where(plant.adaptation) == {"w-0": ("quick-0", 2.0)}
    actions = plant.run(120)
    assert [type(action) for action in actions] == [Resize]
    assert "p99" in actions[0].line
    assert "is over 10 ms at 200 requests/s" in actions[0].line
    assert plant.p99_ms(200) <= TARGET_MS
    assert plant.run(3600) == []


def test_more_replicas_come_after_larger_ones() -> None:
    nodes = cluster({"quick": 2}, cores=2)
    plant = Plant(started(nodes, ask("w", 200, nodes)), truth=0.6)
    actions = plant.run(120)
    assert isinstance(actions[0], Start)
    assert plant.p99_ms(200) <= TARGET_MS


def test_a_load_beyond_the_target_gets_what_it_needs_and_gives_it_back_later() -> None:
    nodes = cluster({"quick": 2})
    plant = Plant(started(nodes, ask("w", 200, nodes)))
    assert plant.run(60, rate=200) == []
    plant.run(120, rate=500)
    assert plant.p99_ms(500) <= TARGET_MS
    more = plant.adaptation.performance("w")[0]
    plant.run(1800, rate=150)
    less, needed = plant.adaptation.performance("w")
    assert needed <= less < more


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("load", [0.5, 0.8, 0.95])
def test_a_steady_load_causes_hardly_any_change_in_two_hours(load: float, seed: int) -> None:
    nodes = cluster({"quick": 2, "slow": 2})
    plant = Plant(started(nodes, ask("w", 300, nodes)), noise=0.02, seed=seed)
    assert len(plant.run(7200, rate=300 * load)) <= 2


@given(truth=st.floats(0.4, 1.5), noise=st.floats(0, 0.2), seed=st.integers(0, 10**6))
def test_changes_die_down_whatever_the_prediction_was_worth(truth: float, noise: float, seed: int) -> None:
    nodes = cluster({"quick": 2, "slow": 2})
    plant = Plant(started(nodes, ask("w", 300, nodes)), truth=truth, noise=noise, seed=seed)
    plant.run(3600, rate=300)
    assert len(plant.run(3600, rate=300)) <= 12


def test_too_few_requests_are_never_acted_on() -> None:
    nodes = cluster({"quick": 2})
    adaptation = started(nodes, ask("w", 200, nodes))
    for window in range(1000):
        few = seen(1e4, requests=99) if window % 2 else seen(None, requests=0)
        assert adaptation.observe(window * WINDOW_S, {"w": few}) == []


def test_one_slow_window_is_no_reason_to_act() -> None:
    nodes = cluster({"quick": 2})
    adaptation = started(nodes, ask("w", 200, nodes))
    for window in range(100):
        assert adaptation.observe(window * WINDOW_S, {"w": seen(11.0 if window % 2 else 9.0)}) == []


windows = st.lists(
    st.tuples(
        st.floats(0.1, 100),
        st.floats(0, 900),
        st.sampled_from([0, 50, 1000]),
        st.sampled_from(["", "lose", "back"]),
    ),
    max_size=60,
)


@given(windows=windows)
def test_whatever_happens_actions_and_nodes_agree_and_a_target_is_not_starved(windows: Any) -> None:
    nodes = cluster({"quick": 2, "slow": 1})
    adaptation = started(nodes, ask("w", 300, nodes), ask("batch", None, nodes, max_replicas=3))
    there = {key: at for name in ("w", "batch") for key, at in where(adaptation, name).items()}
    for number, (p99_ms, rate, requests, event) in enumerate(windows):
        now_s = 60.0 * number
        actions = adaptation.observe(now_s, {"w": seen(p99_ms, rate, requests)})
        if event == "lose" and "quick-0" not in adaptation.lost:
            there = apply(there, actions)
            there = {key: at for key, at in there.items() if at[0] != "quick-0"}
            actions = adaptation.nodes_lost(["quick-0"], now_s)
        elif event == "back":
            actions += adaptation.node_back("quick-0")
        there = apply(there, actions)
        assert there == {key: at for name in ("w", "batch") for key, at in where(adaptation, name).items()}
        assert "quick-0" not in {node for node, _ in there.values()} or "quick-0" not in adaptation.lost
        used = {node.name: 0.0 for node in nodes.nodes}
        for node, cores in there.values():
            used[node] += cores
        assert all(cores <= 8 + 1e-9 for cores in used.values())
        assert adaptation.performance("w")[0] >= 300 * (
            1 - 1e-9
        )  # two nodes are enough for the target as stated


def apply(there: Mapping[str, tuple[str, float]], actions: list[Action]) -> dict[str, tuple[str, float]]:
    """Replicas after actions, which must make sense one after another."""
    after = dict(there)
    for action in actions:
        assert action.line.startswith(action.workload)
        match action:
            case Start():
                assert action.key not in after
                after[action.key] = action.node, action.cores
            case Resize():
                assert after[action.key][0] == action.node
                after[action.key] = action.node, action.cores
            case Stop():
                assert after.pop(action.key)[0] == action.node
    return after


def test_best_effort_work_makes_room_and_comes_back() -> None:
    nodes = cluster({"quick": 1})
    adaptation = started(nodes, ask("w", 200, nodes), ask("batch", None, nodes))
    assert where(adaptation, "batch")
    plant = Plant(adaptation, truth=0.4)
    actions = plant.run(120)
    evictions = [action for action in actions if isinstance(action, Stop)]
    assert evictions
    assert {action.workload for action in evictions} == {"batch"}
    assert {action.reason for action in evictions} == {"makes room for w"}
    assert not [action for action in actions if action.workload == "w" and not isinstance(action, Resize)]
    plant.run(3600, rate=10)
    assert where(adaptation, "batch")


def test_a_straggling_replica_moves_to_another_node() -> None:
    nodes = cluster({"quick": 3})
    adaptation = started(nodes, ask("w", 1000, nodes, spread=Spread.NODE, max_replicas=2))
    first, second = where(adaptation)
    actions: list[Action] = []
    for window in range(4):
        slow = seen(9.0, latency_ms={first: 20.0, second: 5.0})
        actions += adaptation.observe(window * WINDOW_S, {"w": slow})
    start, stop = actions
    assert isinstance(start, Start)
    assert isinstance(stop, Stop)
    assert (stop.key, start.node) == (first, "quick-2")
    assert "much slower than the other replicas" in stop.line


def test_a_slow_node_is_no_straggler() -> None:
    nodes = cluster({"quick": 1, "slow": 2})
    adaptation = started(nodes, ask("w", 1000, nodes, spread=Spread.NODE))
    latency = {key: 5.0 if node == "quick-0" else 10.0 for key, (node, _) in where(adaptation).items()}
    assert len(latency) == 2
    for window in range(20):
        assert adaptation.observe(window * WINDOW_S, {"w": seen(9.0, latency_ms=latency)}) == []


def test_a_replica_that_could_not_be_started_is_placed_again_when_needed() -> None:
    nodes = cluster({"quick": 2})
    adaptation = started(nodes, ask("w", 400, nodes))
    (key,) = where(adaptation)
    ((_, (node, _)),) = where(adaptation).items()
    assert adaptation.start_failed("w", key, 0.0) == []
    assert adaptation.start_failed("w", key, 0.0) == []  # it is gone already
    assert where(adaptation) == {}
    assert adaptation.observe(15.0, {}) == []
    (start,) = adaptation.observe(20.0, {})  # without a replica nothing is measured
    assert isinstance(start, Start)
    assert start.node != node
    assert f"a replica could not be started on {node}" in start.line
    assert adaptation.observe(100.0, {}) == adaptation.observe(1e6, {}) == []


def of_one_service(nodes: Cluster, *requests: PlacementRequest) -> Adaptation:
    """Adaptation of the stages of service `s`, whose p99 target is 30 ms."""
    placement = document(
        nodes, admit_all(requests, NodeLedger(nodes), THRIFTY), scheduler="thrifty", confidence=0.5
    )
    return Adaptation(requests, nodes, placement, THRIFTY, {"s": 30.0})


def test_a_service_that_misses_its_target_asks_the_stage_with_the_least_room() -> None:
    nodes = cluster({"quick": 2})
    adaptation = of_one_service(
        nodes,
        ask("w", 400, nodes, service="s", stage="a"),
        ask("x", 100, nodes, service="s", stage="b"),
    )
    stages = {"w": seen(5.0, 390.0), "x": seen(5.0, 20.0)}
    assert adaptation.observe_service("s", 0.0, seen(31.0, 390.0), stages) == []
    actions = adaptation.observe_service("s", 5.0, seen(31.0, 390.0), stages)
    assert {action.workload for action in actions} == {"w"}
    expected = "service s: p99 31 ms is over 30 ms, and this stage has the least room"
    assert all(expected in action.line for action in actions)
    for now_s in (10.0, 15.0, 20.0):  # the change needs time to show
        assert adaptation.observe_service("s", now_s, seen(31.0, 390.0), stages) == []
    assert adaptation.observe_service("s", 60.0, seen(31.0), {}) == []
    assert adaptation.observe_service("s", 65.0, seen(31.0), {}) == []  # no stage has load


def test_a_service_waits_while_a_change_of_one_of_its_stages_takes_effect() -> None:
    nodes = cluster({"quick": 2})
    adaptation = started(nodes, ask("w", 200, nodes, service="s", stage="a"))
    stages = {"w": seen(20.0)}
    full = Observation(requests=PER_WINDOW, rate_per_s=200.0, p99_ms=20.0, turned_away=0.5)
    moments = []
    for now_s in (0.0, 5.0, 10.0, 15.0, 20.0, 25.0):
        actions = adaptation.observe(now_s, stages)
        actions += adaptation.observe_service("s", now_s, full, stages)
        moments += [now_s] * len(actions)
    assert moments == [5.0, 25.0]  # one change, and the next when it has not helped


def test_a_service_that_turns_requests_away_gets_more_although_its_answers_are_quick() -> None:
    nodes = cluster({"quick": 2})
    adaptation = started(nodes, ask("w", 200, nodes, service="s", stage="a"))
    full = Observation(requests=PER_WINDOW, rate_per_s=400.0, p99_ms=5.0, turned_away=0.5)
    stages = {"w": seen(5.0, 400.0)}
    assert adaptation.observe_service("s", 0.0, full, stages) == []
    (action,) = adaptation.observe_service("s", 5.0, full, stages)
    assert isinstance(action, Resize)
    assert "service s: 50.0% of the requests were turned away" in action.line
    assert adaptation.performance("w")[0] >= 400


def test_nothing_is_evicted_for_less_than_a_twentieth_of_what_is_needed() -> None:
    nodes = cluster({"quick": 2})
    adaptation = started(nodes, ask("w", 200, nodes), ask("batch", None, nodes))
    before = where(adaptation, "batch")
    plant = Plant(adaptation)
    plant.run(60, rate=100_000)  # a node has room for 800/s
    assert where(adaptation, "batch") == before
    plant.run(3600, rate=10)
    plant.run(60, rate=1200)
    assert len(where(adaptation, "batch")) < len(before)


def test_a_workload_of_two_nodes_has_them_and_gets_another_when_one_is_lost() -> None:
    nodes = cluster({"quick": 3})
    adaptation = started(nodes, ask("w", 100, nodes, spread=Spread.NODE, min_nodes=2))
    assert len({node for node, _ in where(adaptation).values()}) == 2
    lost = next(iter(where(adaptation).values()))[0]
    (start,) = adaptation.nodes_lost([lost], 0.0)
    assert isinstance(start, Start)
    assert lost not in {node for node, _ in where(adaptation).values()}
    assert len({node for node, _ in where(adaptation).values()}) == 2
    Plant(adaptation).run(7200, rate=1)  # what is given back is not the second node
    assert len({node for node, _ in where(adaptation).values()}) == 2
    actions = adaptation.nodes_lost([next(iter(where(adaptation).values()))[0]], 1e6)
    assert "on too few nodes" in actions[-1].line


def test_the_lowest_priority_is_evicted_first() -> None:
    nodes = cluster({"quick": 1})
    fillers = [
        ask(name, None, nodes, priority=priority, max_replicas=1)
        for name, priority in (("high", 5), ("low", 1))
    ]
    for asked in (fillers, fillers[::-1]):
        adaptation = started(nodes, ask("w", 200, nodes), *asked)
        assert where(adaptation, "high")
        assert where(adaptation, "low")
        evicted = [one.workload for one in Plant(adaptation).run(60, rate=350) if isinstance(one, Stop)]
        assert evicted == ["low"]


def test_what_was_given_back_and_missed_is_given_back_later_the_next_time() -> None:
    watch, now_s = WorkloadWatch(100.0), 0.0
    quiet = Observation(requests=500, rate_per_s=100.0, p99_ms=20.0)

    def windows_until_less() -> int:
        nonlocal now_s
        windows = 1
        while watch.observe(now_s, quiet) is not Need.LESS:
            windows, now_s = windows + 1, now_s + WINDOW_S
        return windows

    waited = []
    for _ in range(4):
        waited.append(windows_until_less())
        watch.shrank(now_s)
        watch.grew(now_s + 60.0)  # that was a mistake
        now_s += 60.0 + COOL_DOWN_S
    assert waited == [12, 24, 48, 96]
    waited = []
    for _ in range(3):
        waited.append(windows_until_less())
        watch.shrank(now_s)
        now_s += REGRET_S + COOL_DOWN_S  # this time nothing was missed
    assert waited == [192, 192, 96]


def test_a_miss_at_the_foreseen_load_asks_for_15_percent_more_than_was_given() -> None:
    nodes = cluster({"quick": 4})
    adaptation = started(nodes, ask("w", 200, nodes))
    for number in range(3):
        given = adaptation.performance("w")[0]
        for window in range(2):
            adaptation.observe(100.0 * number + 5.0 * window, {"w": seen(50.0, 200.0)})
        assert adaptation.performance("w")[1] == pytest.approx(1.15 * given)


def test_giving_back_takes_a_whole_minute_of_quiet() -> None:
    nodes = cluster({"quick": 2})
    adaptation = started(nodes, ask("w", 200, nodes))
    Plant(adaptation).run(60, rate=600)
    actions = [adaptation.observe(1000 + 5.0 * window, {"w": seen(1.0, 100.0)}) for window in range(12)]
    assert actions[:11] == [[]] * 11
    assert actions[11]
    # What was given back at 1055 s has 20 s to show.
    missed = [at for at in (1060, 1065, 1070, 1075, 1080) if adaptation.observe(at, {"w": seen(50.0, 200.0)})]
    assert missed == [1080]


def test_a_straggler_stays_where_the_only_other_node_is_worse() -> None:
    nodes = cluster({"quick": 2, "slow": 1})
    adaptation = started(nodes, ask("w", 1000, nodes, spread=Spread.NODE, max_replicas=2))
    first, second = where(adaptation)
    slow = seen(9.0, latency_ms={first: 20.0, second: 5.0})
    for window in range(20):
        assert adaptation.observe(window * WINDOW_S, {"w": slow}) == []
    assert {node for node, _ in where(adaptation).values()} == {"quick-0", "quick-1"}


def test_the_stage_with_the_least_room_is_one_with_load_and_with_a_target() -> None:
    nodes = cluster({"quick": 2})
    adaptation = of_one_service(
        nodes,
        ask("w", 400, nodes, service="s", stage="a"),
        ask("idle", 100, nodes, service="s", stage="b"),
        ask("batch", None, nodes, service="s", max_replicas=1),
    )
    stages = {"w": seen(5.0, 390.0), "idle": seen(5.0, 0.0), "batch": seen(5.0, 1e6)}
    assert adaptation.observe_service("s", 0.0, seen(31.0, 390.0), stages) == []
    actions = adaptation.observe_service("s", 5.0, seen(31.0, 390.0), stages)
    assert {action.workload for action in actions} - {"batch"} == {"w"}


def test_a_service_waits_for_any_of_its_stages() -> None:
    nodes = cluster({"quick": 2})
    adaptation = of_one_service(
        nodes,
        ask("w", 400, nodes, service="s", stage="a"),
        ask("x", 100, nodes, service="s", stage="b"),
    )
    stages = {"w": seen(5.0, 390.0), "x": seen(5.0, 20.0)}
    assert adaptation.prepare(0.0, {"x": 300.0})
    for now_s in (0.0, 5.0, 10.0, 15.0):
        assert adaptation.observe_service("s", now_s, seen(31.0, 390.0), stages) == []
    assert adaptation.observe_service("s", 20.0, seen(31.0, 390.0), stages)


def test_a_load_within_the_target_is_not_prepared_for_whatever_is_short() -> None:
    nodes = cluster({"quick": 1})
    adaptation = standing(nodes, (ask("w", 400, nodes), [(0, 1)]))
    assert adaptation.prepare(0.0, {"w": 400.0}) == []
    assert adaptation.prepare(0.0, {"w": 401.0})


def test_a_higher_load_that_needed_no_action_may_still_be_prepared_for() -> None:
    nodes = cluster({"quick": 4})
    adaptation = started(nodes, ask("w", 200, nodes))
    for now_s in (0.0, 5.0, 10.0):
        assert adaptation.observe(now_s, {"w": seen(9.0, 700.0)}) == []
    assert adaptation.prepare(15.0, {"w": 600.0})
    assert adaptation.performance("w")[0] >= 660.0


def test_a_service_that_still_misses_20_s_later_asks_again_after_two_more_windows() -> None:
    """The stage itself meets its target all the time."""
    nodes = cluster({"quick": 4})
    adaptation = of_one_service(nodes, ask("w", 200, nodes, service="s", stage="a"))
    moments = []
    for now_s in (0.0, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0, 35.0):
        adaptation.observe(now_s, {"w": seen(8.0)})
        if adaptation.observe_service("s", now_s, seen(31.0), {"w": seen(8.0)}):
            moments.append(now_s)
    assert moments == [5.0, 30.0]


def test_a_straggler_without_a_better_place_is_looked_at_again_after_three_windows() -> None:
    nodes = cluster({"quick": 3})
    adaptation = started(nodes, ask("w", 1000, nodes, spread=Spread.NODE, max_replicas=2))
    first, second = where(adaptation)
    adaptation.nodes_lost(["quick-2"], 0.0)
    slow = seen(9.0, latency_ms={first: 20.0, second: 5.0})
    for window in range(3):  # it stays at the last one
        assert adaptation.observe(window * WINDOW_S, {"w": slow}) == []
    adaptation.node_back("quick-2")
    for window in (3, 4):
        assert adaptation.observe(window * WINDOW_S, {"w": slow}) == []
    assert [type(one) for one in adaptation.observe(5 * WINDOW_S, {"w": slow})] == [Start, Stop]


def test_a_shortage_that_was_over_is_told_when_it_comes_back() -> None:
    """The replica has the whole node all the time, so there is nothing else to tell."""
    nodes = cluster({"quick": 2})
    adaptation = started(nodes, ask("w", 200, nodes, max_replicas=1))
    assert [type(one) for one in adaptation.prepare(0.0, {"w": 900.0})] == [Resize, Shortage]
    for window in range(12):
        assert adaptation.observe(100 + window * WINDOW_S, {"w": seen(1.0, 640.0)}) == []
    assert adaptation.performance("w") == pytest.approx((800.0, 704.0))
    adaptation.nodes_lost(["quick-1"], 200.0)
    assert adaptation.node_back("quick-1") == []
    assert [type(one) for one in adaptation.prepare(210.0, {"w": 900.0})] == [Shortage]


def course(scale: float) -> list[Any]:
    """Actions and needs, in units of `scale`, while loads rise and fall, work grows and nodes are lost."""
    nodes = cluster({"quick": 3, "slow": 1})
    rates, speeds = {cores: scale * rate for cores, rate in RATES.items()}, {"quick": 1.0, "slow": 0.5}

    def asked(name: str, rate: float | None, **fields: Any) -> PlacementRequest:
        found = profile(rates, speeds, name=name)
        return requested(rate and scale * rate, found, nodes, **{"spread": Spread.NONE, **fields})

    adaptation = of_one_service(
        nodes,
        asked("w", 400.0, service="s", stage="a"),
        asked("x", 100.0, service="s", stage="b"),
        asked("batch", None, max_replicas=4),
    )
    done: list[Any] = []

    def note(actions: list[Action]) -> None:
        shown = ("workload", "key", "node", "cores")
        done.extend((type(one), *(getattr(one, name, None) for name in shown)) for one in actions)
        done.append(adaptation.missing_cores())
        done.append([value / scale for name in "wx" for value in adaptation.performance(name)])

    now_s = 0.0

    def windows(count: int, load: float, p99_ms: float, whole_ms: float, work_ms: float) -> None:
        nonlocal now_s
        for _ in range(count):
            now_s += WINDOW_S
            stages = {
                name: Observation(requests=1000, rate_per_s=scale * rate, p99_ms=p99, work_ms=work_ms)
                for name, rate, p99 in (("w", load, p99_ms), ("x", 60.0, 8.0))
            }
            note(adaptation.observe(now_s, stages))
            note(adaptation.observe_service("s", now_s, seen(whole_ms, scale * load), stages))

    note(adaptation.prepare(now_s, {"w": 500.0 * scale, "x": 150.0 * scale}))
    windows(14, 500.0, 8.0, 20.0, 10.0)
    windows(4, 700.0, 20.0, 31.0, 10.0)
    windows(8, 600.0, 8.0, 20.0, 14.0)
    windows(6, 600.0, 8.0, 31.0, 14.0)
    note(adaptation.nodes_lost(["quick-0", "quick-1"], now_s))
    windows(6, 300.0, 12.0, 20.0, 14.0)
    note(adaptation.node_back("quick-0"))
    windows(40, 100.0, 1.0, 5.0, 14.0)
    return done


def test_adaptation_does_not_depend_on_the_unit_of_work() -> None:
    """All rates are divided by a power of two, which rounds nothing."""
    done = course(1.0)
    assert {one[0] for one in done if isinstance(one, tuple)} == {Start, Stop, Resize, Shortage, Revision}
    assert any(isinstance(one, dict) and one for one in done)
    assert course(2.0**-10) == done
