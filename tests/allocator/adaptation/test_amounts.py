"""Amounts of an adaptation: how much is asked for, given, given back and moved, and what is said of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kwiken.allocator.adaptation.actions import Action, Resize, Shortage, Start, Stop
from kwiken.allocator.adaptation.adaptation import Adaptation
from kwiken.allocator.adaptation.live_repacking import MAX_SAMPLES, UseRecord
from kwiken.allocator.adaptation.measures import Measures
from kwiken.allocator.adaptation.replicas import Replicas
from kwiken.allocator.adaptation.watch import WINDOW_S
from kwiken.allocator.placement.headroom import SOURCE_CAUTION, Caution
from kwiken.allocator.placement.node_ledger import NodeLedger
from kwiken.allocator.placement.order import admit_all
from kwiken.allocator.placement.placement_document import document
from kwiken.allocator.placement.request import PlacementRequest, request_for
from kwiken.allocator.placement.sizing import Sizing
from kwiken.allocator.workloads.profile import Size, WorkloadProfile
from kwiken.allocator.workloads.workload import Measure, Spread, Target, Workload
from kwiken.model.nodes.nodes import Cluster
from tests.allocator.adaptation.test_adaptation import (
    RATES,
    THRIFTY,
    ask,
    seen,
    standing,
    started,
    where,
)
from tests.support.runtime.clusters import cluster, over_sources, profile, requested


def test_missing_cores_are_those_that_the_need_takes_beyond_what_is_there() -> None:
    nodes = cluster({"quick": 3})
    asked = [ask("short", 1800, nodes), ask("fine", 400, nodes), ask("batch", None, nodes, max_replicas=1)]
    adaptation = started(nodes, *asked)
    assert adaptation.missing_cores() == {}
    beside = {node for node, _ in where(adaptation, "fine").values()}
    lost = next(node for node, _ in where(adaptation, "short").values() if node not in beside)
    adaptation.nodes_lost([lost], 0.0)
    drawn = sum(cores for _, cores in where(adaptation, "short").values())
    performance, needed = adaptation.performance("short")
    assert 0 < performance < needed == 1800
    assert adaptation.missing_cores() == {"short": pytest.approx(drawn * (1800 / performance - 1))}


def test_a_workload_without_replicas_misses_its_smallest_size_and_one_of_few_cores_too() -> None:
    nodes = cluster({"quick": 1})
    adaptation = started(nodes, ask("w", 400, nodes))
    adaptation.nodes_lost(["quick-0"], 0.0)
    assert adaptation.missing_cores() == {"w": 1.0}
    nodes = cluster({"quick": 1}, cores=2)
    adaptation = started(nodes, ask("w", 204, nodes))  # 2% more than there is
    assert adaptation.missing_cores() == {"w": 1.0}


def test_a_workload_that_contention_stops_misses_as_many_cores_as_it_has() -> None:
    nodes = cluster({"quick": 1})
    found = profile(RATES, {"quick": 1.0}, tolerated=over_sources(1.0, disk=0.04))
    adaptation = standing(nodes, (requested(400.0, found, nodes), [(0, 2)]))
    adaptation.job_room({}).take("job", "quick-0", 1.0, 1.0, {"disk": 1.0})
    adaptation.replicas.sizings["w"].refresh()
    assert adaptation.performance("w") == (0.0, 400.0)
    assert adaptation.missing_cores() == {"w": 4.0}


def test_targets_are_told_by_service_and_stage() -> None:
    nodes = cluster({"quick": 2})
    requests = [
        ask("a", 100, nodes, service="s", stage="a"),
        ask("b", 100, nodes, service="s", stage="b"),
        ask("batch", None, nodes, service="t", max_replicas=1),
    ]
    placement = document(
        nodes, admit_all(requests, NodeLedger(nodes), THRIFTY), scheduler="t", confidence=0.5
    )
    adaptation = Adaptation(requests, nodes, placement, THRIFTY, {"s": 30.0})
    assert adaptation.targets_ms == {"s": (30.0, {"a": 10.0, "b": 10.0}), "t": (None, {})}


def two_nodes(rate: float = 900.0) -> Adaptation:
    """A workload with a replica of 8 cores on each of two nodes."""
    nodes = cluster({"quick": 2})
    adaptation = started(nodes, ask("w", rate, nodes, spread=Spread.NODE))
    adaptation.prepare(0.0, {"w": 1450.0})
    assert sorted(where(adaptation).values()) == [("quick-0", 8.0), ("quick-1", 8.0)]
    return adaptation


@pytest.mark.parametrize("saves", ["quick-0", "quick-1"])
def test_replicas_on_nodes_whose_return_saves_most_are_given_back_first(saves: str) -> None:
    adaptation = two_nodes(500.0)
    adaptation.prefer_to_empty({saves: 2.0, "quick-0": 1.0} if saves == "quick-1" else {"quick-0": 0.5})
    quiet: list[Action] = []
    for window in range(1, 40):
        quiet += adaptation.observe(100 + window * WINDOW_S, {"w": seen(1.0, 300.0)})
        if quiet:
            break
    (stop,) = quiet
    assert isinstance(stop, Stop)
    assert stop.node == saves
    assert "its p99 has been well below 10 ms" in stop.reason


@pytest.mark.parametrize(
    ("saved", "first"), [({}, "quick-1"), ({"quick-0": 0.0}, "quick-1"), ({"quick-0": 0.01}, "quick-0")]
)
def test_a_node_that_saves_nothing_is_like_one_of_which_nothing_is_known(
    saved: dict[str, float], first: str
) -> None:
    """Of replicas on nodes that save as much, the latest is given back."""
    nodes = cluster({"quick": 2})
    adaptation = standing(nodes, (ask("w", 400, nodes), [(0, 3), (1, 3)]))
    adaptation.prefer_to_empty(saved)
    stop = adaptation.measures.give_back("w", "it is quiet")
    assert isinstance(stop, Stop)
    assert stop.node == first


@pytest.mark.parametrize(("load", "less"), [(690.0, True), (700.0, False)])
def test_something_is_given_back_where_a_seventh_is_spare(load: float, less: bool) -> None:
    """A replica of 800/s is left, of which a load takes a tenth more; 5% of that stay spare."""
    nodes = cluster({"quick": 2})
    adaptation = started(nodes, ask("w", 100, nodes, spread=Spread.NODE))
    adaptation.prepare(0.0, {"w": 1400.0})
    actions: list[Action] = []
    for window in range(13):
        actions += adaptation.observe(100 + window * WINDOW_S, {"w": seen(1.0, load)})
    assert any(isinstance(action, Stop) for action in actions) == less


def test_a_load_beyond_the_target_is_met_with_a_tenth_of_room() -> None:
    nodes = cluster({"quick": 4})
    adaptation = started(nodes, ask("w", 200, nodes))
    for rate, needed in ((150.0, 200.0), (200.0, 200.0), (300.0, 330.0), (310.0, 341.0), (305.0, 341.0)):
        adaptation.prepare(1000.0, {"w": rate})
        assert adaptation.performance("w")[1] == pytest.approx(needed)
    actions = adaptation.prepare(2000.0, {"w": 700.0})
    assert actions
    assert all("the load rises to 700 requests/s" in action.reason for action in actions)
    assert adaptation.observe(2005.0, {"w": seen(50.0, 700.0)}) == []
    assert adaptation.observe(2010.0, {"w": seen(50.0, 700.0)}) == []  # the change takes effect
    assert adaptation.prepare(2011.0, {"w": 650.0}) == []


def test_a_need_beyond_eight_times_the_prediction_is_no_need() -> None:
    nodes = cluster({"quick": 40})
    adaptation = started(nodes, ask("w", 100, nodes))
    for number in range(40):
        for window in range(2):
            adaptation.observe(100.0 * number + 5.0 * window, {"w": seen(500.0, 100.0)})
    assert adaptation.performance("w")[1] == pytest.approx(800.0)


def test_a_straggler_avoids_the_nodes_that_it_was_moved_from_for_an_hour() -> None:
    nodes = cluster({"quick": 3})
    for pause_s, back in ((3599.0, False), (3600.0, True)):
        adaptation = started(nodes, ask("w", 1600, nodes, spread=Spread.NODE, max_replicas=2))
        moves: list[Start] = []
        for at_s in (0.0, pause_s):
            for window in range(3):
                now_s = at_s + window * WINDOW_S
                latency = {key: 20.0 if key in {"w-0", "w-2"} else 5.0 for key in where(adaptation)}
                found = adaptation.observe(now_s, {"w": seen(8.0, latency_ms=latency)})
                moves += [action for action in found if isinstance(action, Start)]
        assert len(moves) == 1 + back
        assert where(adaptation)[moves[-1].key][0] == moves[-1].node
        if back:
            assert moves[1].node == "quick-0"


class PutOn:
    """Scheduler that places one replica of a size on a node."""

    name = "put on"

    def __init__(self, node: int, size: int) -> None:
        self._node, self._size = node, size

    def place(self, sizing: Sizing) -> None:
        more = len(sizing.replicas) < sizing.request.workload.max_replicas
        if more and sizing.open_nodes()[self._node] and sizing.takes(self._node, self._size):
            sizing.add(self._node, self._size)

    def satisfied(self, sizing: Sizing) -> bool:
        return bool(sizing.replicas)


def measured(nodes: Cluster, request: PlacementRequest, *chosen: int) -> tuple[Measures, Replicas]:
    """Measures for a workload with its first replica on some node, and a scheduler of another place."""
    placement = document(
        nodes, admit_all([request], NodeLedger(nodes), THRIFTY), scheduler="t", confidence=0.5
    )
    replicas = Replicas([request], nodes, placement)
    return Measures(replicas, PutOn(*chosen)), replicas


@pytest.mark.parametrize(("speed", "moves"), [(0.94, False), (0.95, True), (0.96, True), (1.0, True)])
def test_a_straggler_moves_where_at_least_95_percent_are_predicted(speed: float, moves: bool) -> None:
    nodes = cluster({"quick": 1, "slow": 1})
    request = ask("w", 150, nodes)
    request.rate[:, 1] = speed * request.rate[:, 0]
    measures, replicas = measured(nodes, request, 1, 1)
    found = measures.move_straggler("w", 0, "it is slow", [])
    assert [type(one) for one in found] == ([Start, Stop] if moves else [])
    assert {node for _, node, _ in replicas.places()["w"]} == {"slow-0" if moves else "quick-0"}


@pytest.mark.parametrize(("speed", "moves"), [(1.04, False), (1.05, True), (1.06, True)])
def test_a_workload_that_is_short_moves_where_5_percent_are_won(speed: float, moves: bool) -> None:
    nodes = cluster({"quick": 1, "slow": 1}, cores=2)
    request = ask("w", 150, nodes, max_replicas=1)
    request.rate[:, 1] = speed * request.rate[:, 0]
    measures, replicas = measured(nodes, request, 1, 1)
    start = replicas.places()["w"][0][1]
    other = "quick-0" if start == "slow-0" else "slow-0"
    if start == "slow-0":
        request.rate[:, 0] = speed * request.rate[:, 1]
        measures = Measures(replicas, PutOn(0, 1))
    replicas.sizings["w"].renew(ask_more(request))
    found = measures.grow("w", "it is short")
    assert [type(one) for one in found] == ([Start, Stop] if moves else [])
    assert {node for _, node, _ in replicas.places()["w"]} == {other if moves else start}


def ask_more(request: PlacementRequest) -> PlacementRequest:
    """The same workload with a need that no node meets."""
    return request.at_load(1000.0)


def test_a_replica_grows_by_what_wins_most_for_its_cores() -> None:
    """The slow node gives half for the same cores, so the quick replica grows first."""
    nodes = cluster({"quick": 1, "slow": 1})
    adaptation = started(nodes, ask("w", 500, nodes, spread=Spread.NODE, max_replicas=2))
    before = where(adaptation)
    actions = adaptation.prepare(0.0, {"w": 700.0})
    resized = [action for action in actions if isinstance(action, Resize | Start)]
    assert resized
    assert {action.node for action in resized} == {"quick-0"} if len(before) == 1 else resized
    assert adaptation.performance("w")[0] >= 770.0


@pytest.mark.parametrize(
    ("sizes", "need", "cores"),
    [
        (((1, 1, 100), (2, 1, 180), (4, 1, 300), (8, 1, 400)), 150.0, [2.0]),
        (((1, 1, 100), (2, 1, 110), (4, 1, 400)), 400.0, [1.0, 4.0]),  # 100/s for each core, and not 10/s
    ],
)
def test_what_a_replica_grows_to_wins_most_for_each_core(
    sizes: tuple[tuple[float, float, float], ...], need: float, cores: list[float]
) -> None:
    nodes = cluster({"quick": 2})
    adaptation = standing(
        nodes, (requested(need, of_sizes(*sizes), nodes), [(at, 0) for at in range(len(cores))])
    )
    assert {type(one) for one in adaptation.measures.fit("w", "it is short")} == {Resize}
    assert sorted(cores for _, cores in where(adaptation).values()) == cores


def test_a_straggler_of_many_replicas_stays_where_there_is_no_other_node() -> None:
    """Without it the others would perform more than 95% of what all do."""
    nodes = cluster({"quick": 24})
    adaptation = standing(nodes, (ask("w", 2400, nodes, spread=Spread.NODE), [(at, 0) for at in range(24)]))
    assert adaptation.measures.move_straggler("w", 0, "it is slow", []) == []
    assert len(where(adaptation)) == 24


def test_a_shortage_is_told_once_and_again_when_it_has_changed() -> None:
    nodes = cluster({"quick": 1})
    adaptation = started(nodes, ask("w", 500, nodes))
    (resize, shortage) = adaptation.prepare(0.0, {"w": 900.0})
    assert isinstance(resize, Resize)
    assert isinstance(shortage, Shortage)
    assert shortage.line == (
        "w: no room: the load rises to 900 requests/s; 990/s are needed, and the nodes can give 800/s"
    )
    assert adaptation.prepare(10.0, {"w": 950.0}) == []
    (again,) = adaptation.nodes_lost(["quick-0"], 20.0)
    assert isinstance(again, Shortage)
    assert "the nodes can give 0/s" in again.line


def test_use_is_recorded_as_means_over_samples() -> None:
    """Samples of 10 s from windows of 5 s; the window in which the first one begins tells nothing."""
    record = UseRecord(10.0)
    keys = ("a", "b", "late")
    for number in range(9):
        now_s, used = 5.0 * number, {"a": float(number), "b": 1.0}
        if number in {3, 4}:
            del used["b"]
        if number > 5:
            used["late"] = 2.0
        record.add(now_s, used)
    series = record.series(keys)
    assert series.times_s.tolist() == [10.0, 20.0, 30.0, 40.0]
    # Windows 1 and 2, 3 and 4, 5 and 6, 7 and 8.
    assert series.cores[0].tolist() == [1.5, 3.5, 5.5, 7.5]
    assert series.cores[1].tolist() == [1.0, pytest.approx(float("nan"), nan_ok=True), 1.0, 1.0]
    assert series.cores[2].tolist()[2:] == [2.0, 2.0]
    assert all(value != value for value in series.cores[2].tolist()[:2])  # noqa: PLR0124 - NaN
    recent = record.recent(("a", "nobody"))
    assert recent[0].tolist() == [float(number) for number in range(9)]
    assert all(value != value for value in recent[1].tolist())  # noqa: PLR0124 - NaN
    record.copied("a", "moved")
    record.copied("nobody", "other")
    assert record.series(("moved",)).cores[0].tolist() == [1.5, 3.5, 5.5, 7.5]
    record.keep(("moved",))
    assert all(value != value for value in record.series(("a",)).cores[0].tolist())  # noqa: PLR0124
    assert record.series(("moved", "other")).cores[0].tolist() == [1.5, 3.5, 5.5, 7.5]
    for number in range(9, 20):
        record.add(5.0 * number, {"a": 0.0})
    assert record.recent(("a",)).shape == (1, 12)


def test_a_week_of_minutes_is_kept() -> None:
    record = UseRecord(60.0)
    for number in range(MAX_SAMPLES + 5):
        record.add(60.0 * number, {"a": float(number)})
    assert MAX_SAMPLES == 7 * 24 * 60
    series = record.series(("a",))
    assert series.cores.shape == (1, MAX_SAMPLES)
    assert series.cores[0, [0, -1]].tolist() == [5.0, MAX_SAMPLES + 4.0]
    assert series.times_s[[0, -1]].tolist() == [300.0, 60.0 * (MAX_SAMPLES + 4)]


def test_a_need_beyond_the_prediction_is_taken_back_by_15_percent_a_minute() -> None:
    nodes = cluster({"quick": 2})
    adaptation = started(nodes, ask("w", 200, nodes))
    now_s, needs = 0.0, []
    for p99_ms in (*[50.0] * 2, *[8.0] * 5, *[50.0] * 2):  # two misses, with a pause between them
        adaptation.observe(now_s, {"w": seen(p99_ms, 200.0)})
        now_s += WINDOW_S
    needs.append(adaptation.performance("w")[1])
    assert needs[0] == pytest.approx(1.15 * 400)  # of what was given after the first one
    fell_s = []
    for _ in range(200):
        adaptation.observe(now_s, {"w": seen(1.0, 200.0)})
        now_s += WINDOW_S
        if adaptation.performance("w")[1] != needs[-1]:
            needs.append(adaptation.performance("w")[1])
            fell_s.append(now_s)
    assert 60.0 <= fell_s[1] - fell_s[0] <= 80.0  # quiet for a minute, after 20 s if something was given back
    assert needs[1:3] == pytest.approx([needs[0] / 1.15, needs[0] / 1.15**2])
    assert needs[-1] == 200.0


def test_best_effort_work_makes_room_for_a_workload_that_stays_short_where_it_wins_enough() -> None:
    nodes = cluster({"quick": 2})
    batch = ask("batch", None, nodes, spread=Spread.NODE, max_replicas=1)
    adaptation = started(nodes, ask("w", 800, nodes, spread=Spread.NODE), batch)
    assert adaptation.keys["batch"]
    actions = adaptation.prepare(0.0, {"w": 3000.0})
    assert [(type(one), one.workload) for one in actions] == [
        (Stop, "batch"),
        (Start, "w"),
        (Shortage, "w"),
    ]
    assert adaptation.performance("w")[0] == pytest.approx(1600.0)


def test_a_replica_is_not_moved_by_use_to_where_its_target_would_be_missed() -> None:
    nodes = cluster({"quick": 2, "slow": 1})
    adaptation = started(nodes, ask("w", 400, nodes))
    ((key, (node, _)),) = where(adaptation).items()
    other = "quick-1" if node == "quick-0" else "quick-0"
    measures, place = adaptation.measures, nodes.index_of
    assert measures.move_by_use("w", key, place["slow-0"], "less is used") == []
    assert where(adaptation) == {key: (node, 4.0)}
    start, stop = measures.move_by_use("w", key, place[other], "less is used")
    assert isinstance(start, Start)
    assert isinstance(stop, Stop)
    assert (start.node, stop.node) == (other, node)


def test_the_replica_of_the_least_performance_moves() -> None:
    nodes = cluster({"quick": 2, "slow": 1}, cores=2)
    request = ask("w", 150, nodes, spread=Spread.NODE, max_replicas=2)
    measures, replicas = measured(nodes, request, 1, 1)
    sizing = replicas.sizings["w"]
    (first,) = sizing.replicas
    assert first.node == 0
    sizing.add(2, 1)
    replicas.started("w", 1, "for the test")
    sizing.renew(ask_more(request))
    start, stop = measures.grow("w", "it is short")
    assert isinstance(start, Start)
    assert isinstance(stop, Stop)
    assert (start.node, stop.node) == ("quick-1", "slow-0")


def test_the_least_number_of_nodes_is_kept_when_load_falls() -> None:
    nodes = cluster({"quick": 2})
    adaptation = started(nodes, ask("w", 100, nodes, spread=Spread.NODE, min_nodes=2))
    adaptation.prepare(0.0, {"w": 700.0})
    assert len(where(adaptation)) == 2
    for window in range(200):
        for action in adaptation.observe(window * WINDOW_S, {"w": seen(1.0, 10.0)}):
            assert isinstance(action, Resize)
    assert len(where(adaptation)) == 2


@pytest.mark.parametrize(("load", "short"), [(373.0, False), (3000.0, True)])
def test_best_effort_work_makes_room_for_what_meets_the_need_or_wins_much_of_it(
    load: float, short: bool
) -> None:
    """What is needed is 2.5% more than there is; and then eight times as much, of which a half is there."""
    nodes = cluster({"quick": 1})
    adaptation = started(nodes, ask("w", 370, nodes), ask("batch", None, nodes, max_replicas=8))
    evicted, *changes = adaptation.prepare(0.0, {"w": load})
    assert isinstance(evicted, Stop)
    assert where(adaptation) == {"w-0": ("quick-0", 8.0)}
    assert [type(one) for one in changes if one.workload == "w"] == [Resize, *[Shortage] * short]


def test_a_move_by_use_is_refused_where_a_workload_of_several_nodes_would_miss_its_target() -> None:
    """Pressure as high as it tolerates costs it a twentieth on one of its two nodes, which it cannot spare."""
    nodes = cluster({"quick": 3})
    caution = Caution(confidence=0.5, later_loss=0.0)
    quiet = profile(RATES, {"quick": 1.0}, name="quiet", tolerated=over_sources(1.0, disk=0.4))
    loud = profile(RATES, {"quick": 1.0}, name="loud", caused=over_sources(0.0, disk=0.4))
    for rate, moves in ((800.0, False), (700.0, True)):
        adaptation = started(
            nodes,
            requested(rate, quiet, nodes, caution=caution, min_nodes=2, max_replicas=2),
            requested(100.0, loud, nodes, caution=caution),
        )
        sizing = adaptation.replicas.sizings["quiet"]
        assert len(sizing.replicas) == 2
        ((key, (node, _)),) = where(adaptation, "loud").items()
        assert node == "quick-2"
        assert bool(adaptation.measures.move_by_use("loud", key, 0, "less is used")) == moves


def test_a_node_could_fit_what_best_effort_work_there_would_leave() -> None:
    nodes = cluster({"quick": 1})
    batch = ask("batch", None, nodes, max_replicas=1, memory_gb=60)
    replicas = started(nodes, batch).replicas
    assert replicas.ledger.free_memory_gb[0] == 4.0
    assert replicas.could_fit(0, 8.0, 64.0)
    assert not replicas.could_fit(0, 8.1, 64.0)
    assert not replicas.could_fit(0, 8.0, 64.1)


def test_of_best_effort_work_only_what_wins_enough_makes_room() -> None:
    """The workload may have two replicas, and the second eviction would win nothing."""
    nodes = cluster({"quick": 3})
    batch = ask("batch", None, nodes, spread=Spread.NODE, max_replicas=2)
    adaptation = started(nodes, ask("w", 800, nodes, spread=Spread.NODE, max_replicas=2), batch)
    assert len(adaptation.keys["batch"]) == 2
    actions = adaptation.prepare(0.0, {"w": 3000.0})
    assert [(type(one), one.workload) for one in actions] == [
        (Stop, "batch"),
        (Start, "w"),
        (Shortage, "w"),
    ]
    assert len(adaptation.keys["batch"]) == 1
    assert adaptation.performance("w")[0] == pytest.approx(1600.0)


def test_a_move_of_an_earlier_window_is_over() -> None:
    """The new replica ends later, and the one that it replaced does not come back."""
    nodes = cluster({"quick": 3})
    adaptation = started(nodes, ask("w", 1600, nodes, spread=Spread.NODE, max_replicas=2))
    for window in range(3):
        latency = {key: 5.0 * (1 + 2 * (place == 0)) for place, key in enumerate(sorted(where(adaptation)))}
        actions = adaptation.observe(WINDOW_S * window, {"w": seen(9.0, latency_ms=latency)})
    start, stop = actions
    assert isinstance(start, Start)
    assert isinstance(stop, Stop)
    adaptation.observe(15.0, {"w": seen(9.0)})
    assert adaptation.start_failed("w", start.key, 16.0) == []
    assert stop.key not in where(adaptation)


def test_a_capacity_is_judged_at_the_load_that_is_prepared_for() -> None:
    """The more load, the larger the share of the capacity that may be in use at the same latency."""
    nodes = cluster({"quick": 8}, cores=4)
    about = replace(profile({1: 100.0, 2: 190.0}, {"quick": 1.0}), measure=Measure.CAPACITY)
    target = Target(p99_ms=100.0, rate_per_s=100.0)
    request = request_for(Workload(name="w", memory_gb=1.0, target=target), about, nodes, SOURCE_CAUTION)
    adaptation = started(nodes, request)
    adaptation.prepare(0.0, {"w": 300.0})
    judged = adaptation.replicas.sizings["w"].request
    assert judged.required == pytest.approx(330.0)
    assert judged.rate == pytest.approx(request.at_load(330.0).rate)
    assert (judged.rate > request.rate).all()


def test_what_best_effort_work_leaves_is_used_whole() -> None:
    """Beside that work the second and last replica would have four cores, and in its place it has eight."""
    nodes = cluster({"quick": 2})
    batch = requested(None, profile({4: 1.0}, {"quick": 1.0}, name="batch"), nodes, max_replicas=1)
    adaptation = started(nodes, ask("w", 800, nodes, spread=Spread.NODE, max_replicas=2), batch)
    assert adaptation.keys["batch"]
    stop, start, short = adaptation.prepare(0.0, {"w": 3000.0})
    assert isinstance(stop, Stop)
    assert isinstance(start, Start)
    assert isinstance(short, Shortage)
    assert (stop.workload, start.workload, start.cores) == ("batch", "w", 8.0)


def of_sizes(*sizes: tuple[float, float, float]) -> WorkloadProfile:
    """Profile of sizes: cores, memory in GB, and rate."""
    found = profile({float(place): rate for place, (_, _, rate) in enumerate(sizes, 1)}, {"quick": 1.0})
    return replace(found, sizes=tuple(Size(cores, memory_gb) for cores, memory_gb, _ in sizes))


@pytest.mark.parametrize(("best", "less"), [(1.15 * 800, True), (1.149 * 800, False)])
def test_a_size_is_given_back_where_15_percent_are_spare(best: float, less: bool) -> None:
    """The next smaller size would leave 6% over the need, which is enough."""
    nodes = cluster({"quick": 1})
    request = requested(800.0, of_sizes((7, 1, 848), (8, 1, best)), nodes)
    adaptation = standing(nodes, (request, [(0, 1)]))
    actions = [one for at in range(12) for one in adaptation.observe(5.0 * at, {"w": seen(1.0, 100.0)})]
    assert [type(one) for one in actions] == [Resize] * less
    assert where(adaptation) == {"w-0": ("quick-0", 7.0 if less else 8.0)}


@pytest.mark.parametrize(("need", "less"), [(800.0, True), (801.0, False)])
def test_what_is_given_back_leaves_5_percent_over_the_need(need: float, less: bool) -> None:
    nodes = cluster({"quick": 2})
    request = requested(need, of_sizes((4, 1, 840), (8, 1, 1680)), nodes)
    for places, kind in (([(0, 0), (1, 0)], Stop), ([(0, 1)], Resize)):
        adaptation = standing(nodes, (request, places))
        before = where(adaptation)
        found = adaptation.measures.give_back("w", "it is quiet")
        assert isinstance(found, kind) == less
        assert where(adaptation) == ({"w-0": ("quick-0", 4.0)} if less else before)


def test_a_size_that_frees_no_cores_is_not_given_back() -> None:
    nodes = cluster({"quick": 1})
    request = requested(50.0, of_sizes((2, 4, 100), (2, 8, 200)), nodes)
    adaptation = standing(nodes, (request, [(0, 1)]))
    assert adaptation.measures.give_back("w", "it is quiet") is None


def test_a_resize_gives_cores_only_so_a_size_of_more_memory_takes_another_replica() -> None:
    nodes = cluster({"quick": 2}, cores=2)
    request = requested(150.0, of_sizes((2, 4, 100), (2, 8, 200)), nodes, spread=Spread.NONE)
    adaptation = standing(nodes, (request, [(0, 0)]))
    (start,) = adaptation.measures.fit("w", "it is short")
    assert isinstance(start, Start)
    assert adaptation.performance("w")[0] >= 150.0


@pytest.mark.parametrize(("taken_gb", "kind"), [(24.0, Resize), (24.1, Start)])
def test_a_replica_grows_where_the_memory_is_free_that_it_takes_more(taken_gb: float, kind: type) -> None:
    """Of 64 GB it has 10 and would have 40."""
    nodes = cluster({"quick": 1})
    request = requested(200.0, of_sizes((1, 10, 100), (2, 40, 200)), nodes, spread=Spread.NONE)
    adaptation = standing(nodes, (request, [(0, 0)]))
    adaptation.job_room({}).take("job", "quick-0", 1.0, taken_gb, {})
    (action,) = adaptation.measures.fit("w", "it is short")
    assert isinstance(action, kind)


@pytest.mark.parametrize(("nodes", "cores", "kind"), [(1, 8.0, Resize), (2, 4.0, Start)])
def test_best_effort_work_makes_room_for_a_twentieth_of_the_need(
    nodes: int, cores: float, kind: type[Action]
) -> None:
    """A larger replica on the only node, or another one on the second node, performs 400/s more."""
    there = cluster({"quick": nodes}, cores=cores)
    request = ask("w", 400, there, spread=Spread.NODE)
    batch = ask("batch", None, there, max_replicas=1)
    for need, changes in ((8000.0, [Stop, kind]), (8001.0, [])):
        adaptation = standing(there, (request, [(0, 2)]), (batch, [(nodes - 1, 2)]))
        adaptation.replicas.sizings["w"].renew(request.at_load(need))
        found = adaptation.measures.fit("w", "it is short")
        assert [type(one) for one in found] == [*changes, Shortage]


def test_a_workload_on_too_few_nodes_gets_no_larger_replicas() -> None:
    nodes = cluster({"quick": 1})
    for rate in (400, 300):
        request = ask("w", rate, nodes, spread=Spread.NODE, min_nodes=2)
        adaptation = standing(nodes, (request, [(0, 2)]))
        (shortage,) = adaptation.measures.fit("w", "it is short")
        assert isinstance(shortage, Shortage)
        assert where(adaptation) == {"w-0": ("quick-0", 4.0)}


@pytest.mark.parametrize(("size", "cores"), [(0, 1.0), (1, 2.0)])
def test_a_replica_neither_grows_to_a_size_that_is_slow_nor_shrinks_from_it(size: int, cores: float) -> None:
    """Two cores perform less by a measurement than one core by the prediction."""
    nodes = cluster({"quick": 1}, cores=2)
    request = requested(150.0, profile({1: 100.0, 2: 200.0}, {"quick": 1.0}), nodes, max_replicas=1)
    adaptation = standing(nodes, (replace(request, corrections={(1, 1, 0): -1.5}), [(0, size)]))
    (shortage,) = adaptation.measures.fit("w", "it is short")
    assert isinstance(shortage, Shortage)
    assert where(adaptation) == {"w-0": ("quick-0", cores)}
