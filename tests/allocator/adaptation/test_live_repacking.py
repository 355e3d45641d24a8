"""Repacking of replicas that run: a state machine under random use, kills and failed starts, with a fake clock."""

from __future__ import annotations

import random
from collections.abc import Collection
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from kwiken.allocator.adaptation.actions import Action, Start, Stop
from kwiken.allocator.adaptation.adaptation import Adaptation
from kwiken.allocator.adaptation.live_repacking import LiveRepacking, LiveRepackSettings, UseRecord
from kwiken.allocator.adaptation.watch import Observation
from kwiken.allocator.packing.auto_dial import LateCount
from kwiken.allocator.packing.tasks.usage import MIN_SAMPLES
from kwiken.allocator.placement.node_ledger import NodeLedger
from kwiken.allocator.placement.order import admit_all
from kwiken.allocator.placement.placement_document import document
from kwiken.allocator.schedulers.names import scheduler
from kwiken.allocator.workloads.workload import Spread
from kwiken.model.nodes.nodes import Cluster, Node, NodeClass
from tests.allocator.adaptation.test_adaptation import standing
from tests.support.runtime.clusters import cluster as cluster_of, profile, requested

WINDOW_S, EVERY_S = 5.0, 60.0
RATES: dict[float, float] = {1: 50.0, 2: 100.0}
SPEEDS = {"quick": 1.0}
NAP = ("sleep", "600")


class Machine:
    """Upkeep without processes: carries actions out, and knows which replicas run where."""

    def __init__(
        self,
        nodes: int,
        *,
        dial: float | None = 5.0,
        rate: float = 180.0,
        naps: int = 4,
        every_s: float = EVERY_S,
    ) -> None:
        self.cluster: Cluster = cluster_of({"quick": nodes}, cores=4)
        of: dict[str, Any] = {"service": "echo", "stage": "first", "spread": Spread.NODE, "min_nodes": 2}
        requests = [
            requested(rate, profile(RATES, SPEEDS, name="front"), self.cluster, **of),
            requested(
                None,
                profile({2: 1.0}, SPEEDS, name="nap"),
                self.cluster,
                command=NAP,
                max_replicas=naps,
                spread=Spread.NONE,
            ),
        ]
        admissions = admit_all(requests, NodeLedger(self.cluster), scheduler("thrifty"))
        placement = document(self.cluster, admissions, scheduler="thrifty", confidence=0.5)
        self.adaptation = Adaptation(requests, self.cluster, placement, scheduler("thrifty"), {"echo": 50.0})
        chosen = LiveRepackSettings(every_s=every_s, dial=dial, movable=frozenset({"front", "nap"}))
        self.repacking: LiveRepacking = self.adaptation.repacking(chosen, 0.0)
        self.now_s = 0.0
        self.running = {key: node for node, key in self.placed()}
        self.lines: list[str] = []
        self.moves: list[Action] = []

    def placed(self) -> list[tuple[str, str]]:
        return [(node, key) for places in self.adaptation.keys.values() for key, node, _ in places]

    def of(self, workload: str) -> list[str]:
        return [key for key in self.running if key.startswith(workload)]

    def window(
        self,
        used: dict[str, float],
        *,
        late: float = 0.0,
        fail: float = 0.0,
        p99_ms: float = 9.0,
        slow: str = "",
        rng: random.Random | None = None,
    ) -> list[Action]:
        """One window, in which a replica may be slow; starts fail with a probability."""
        self.now_s += WINDOW_S
        rng = rng or random.Random(0)
        latency_ms = {key: 50.0 if key == slow else 5.0 for key in self.of("front")}
        calm = {"front": Observation(requests=500, rate_per_s=100.0, p99_ms=p99_ms, latency_ms=latency_ms)}
        self.apply(self.adaptation.observe(self.now_s, calm), fail, rng)
        self.lines += self.repacking.observe(self.now_s, used, {"echo": LateCount(500, 500 * late)})
        least = len(self.of("front"))
        actions, lines = self.repacking.step(self.now_s)
        self.lines += lines
        self.moves += actions
        fewest = self.apply(actions, fail, rng)
        assert fewest >= least, "a stage never has fewer replicas while one of them moves"
        return actions

    def apply(self, actions: list[Action], fail: float, rng: random.Random) -> int:
        """Carry actions out as the upkeep does; returns the least number of replicas of the stage."""
        least = len(self.of("front"))
        for action in actions:
            if isinstance(action, Start):
                keys = [key for key, _, _ in self.adaptation.keys[action.workload]]
                if rng.random() < fail:
                    self.apply(
                        self.adaptation.start_failed(action.workload, action.key, self.now_s), 0.0, rng
                    )
                elif action.key in keys:
                    self.running[action.key] = action.node
            elif isinstance(action, Stop):
                keys = [key for key, _, _ in self.adaptation.keys[action.workload]]
                wanted = not action.after or all(key in keys for key in action.after)
                if wanted or action.key not in keys:
                    self.running.pop(action.key, None)
            least = min(least, len(self.of("front")))
        return least

    def check(self) -> None:
        """What runs is what is placed; nothing is sold twice, and no memory beyond what there is."""
        assert self.running == {key: node for node, key in self.placed()}
        ledger = self.adaptation.replicas.ledger
        for at in range(len(self.cluster.nodes)):
            drawn = list(ledger.residents(at))
            assert ledger.free_memory_gb[at] == pytest.approx(
                self.cluster.memory_gb[at] - sum(draw.memory_gb for draw in drawn)
            )
            assert ledger.free_cores[at] == pytest.approx(
                self.cluster.cores[at] - sum(draw.cores for draw in drawn)
            )
        performance, needed = self.adaptation.performance("front")
        assert performance >= needed * (1 - 1e-9)

    def nodes_in_use(self) -> set[str]:
        return set(self.running.values())


def refused_moves(
    adaptation: Adaptation, repacking: LiveRepacking, period_s: float
) -> list[tuple[str, str, int]]:
    """Moves that a period asks for, all of which are refused: source, key and index of the target."""
    asked: list[tuple[str, str, int]] = []
    at = {key: node for places in adaptation.keys.values() for key, node, _ in places}

    def refuse(name: str, key: str, node: int, reason: str) -> list[Action]:
        del name, reason
        asked.append((at[key], key, node))
        return []

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(adaptation.measures, "move_by_use", refuse)
        for _ in range(30):  # one refusal ends a step
            assert repacking.step(period_s)[0] == []
    assert not repacking.planned
    return asked


def moves_off(
    adaptation: Adaptation, repacking: LiveRepacking, crowded: Collection[str]
) -> list[tuple[str, str, int]]:
    """Moves off nodes without headroom: source, key and index of the target; none is carried out."""
    burning(repacking, crowded)
    return refused_moves(adaptation, repacking, EVERY_S)


def burning(repacking: LiveRepacking, crowded: Collection[str]) -> None:
    """Let the first period end with late requests and some nodes without headroom."""
    repacking.observe(EVERY_S, {}, {"s": LateCount(1000, 1000)})
    repacking.crowded = frozenset(crowded)


def moves_by_idle_use(adaptation: Adaptation, *movable: str) -> list[tuple[str, int]]:
    """Moves that a packing asks for where hardly anything is used: key and index of the target."""
    chosen = LiveRepackSettings(every_s=EVERY_S, dial=0.0, movable=frozenset(movable))
    repacking = adaptation.repacking(chosen, 0.0)
    used = {key: 0.05 for places in adaptation.keys.values() for key, _, _ in places}
    for window in range(1, 13):
        repacking.observe(WINDOW_S * window, used, {})
    return [(key, node) for _, key, node in refused_moves(adaptation, repacking, EVERY_S)]


def idle(machine: Machine, cores: float = 0.05) -> dict[str, float]:
    return dict.fromkeys(machine.running, cores)


def test_idle_nodes_are_freed_one_move_of_a_workload_at_a_time() -> None:
    machine = Machine(6)
    before = machine.nodes_in_use()
    for _ in range(120):
        actions = machine.window(idle(machine))
        starts = [action.workload for action in actions if isinstance(action, Start)]
        assert len(starts) == len(set(starts))
        machine.check()
    assert len(machine.nodes_in_use()) < len(before)
    assert len(machine.nodes_in_use()) >= 2  # of a stage that stands on two nodes
    assert any("repack at dial 5 frees" in action.reason for action in machine.moves)


def test_a_workload_is_not_moved_in_a_window_in_which_it_misses_its_target() -> None:
    """One slow window is no reason to give it more, and no moment to move it either."""
    machine = Machine(6)
    moved = {9.0: 0, 20.0: 0}
    for window in range(240):
        p99_ms = 20.0 if window % 2 else 9.0
        actions = machine.window(idle(machine), p99_ms=p99_ms)
        moved[p99_ms] += sum(isinstance(one, Start) and one.workload == "front" for one in actions)
    assert moved[9.0] > 0
    assert moved[20.0] == 0


def test_a_moved_replica_begins_with_the_samples_of_the_one_that_it_replaces() -> None:
    record = UseRecord(10.0)
    for window in range(9):
        record.add(5.0 * window, {"old": 0.5})
    record.copied("old", "new")
    record.copied("unknown", "other")
    series = record.series(["old", "new", "other"])
    assert series.cores[0].tolist() == series.cores[1].tolist() == [0.5] * 4
    assert np.isnan(series.cores[2]).all()
    record.add(45.0, {"new": 1.5})
    record.keep(["new"])
    assert np.isnan(record.series(["old"]).cores).all()


def test_nothing_is_packed_before_use_is_known() -> None:
    machine = Machine(6)
    for _ in range(60):
        machine.window({})
    assert machine.moves == []


def test_a_packed_cluster_stays_as_it_is() -> None:
    machine = Machine(6)
    for _ in range(120):
        machine.window(idle(machine))
    moved = len(machine.moves)
    for _ in range(60):
        machine.window(idle(machine))
    assert len(machine.moves) == moved


def test_a_higher_dial_takes_no_fewer_nodes() -> None:
    left = []
    for dial in (0.0, 5.0, 10.0):
        machine = Machine(6, dial=dial)
        rng = random.Random(1)
        for _ in range(120):
            machine.window({key: rng.uniform(0, 2.0) for key in machine.running})
        left.append(len(machine.nodes_in_use()))
    assert left == sorted(left)


def test_nodes_that_are_sold_beyond_their_cores_give_no_room_to_others() -> None:
    machine = Machine(6, dial=0.0)
    for _ in range(120):
        machine.window(idle(machine))
    ledger = machine.adaptation.replicas.ledger
    beyond = [at for at in range(6) if ledger.free_cores[at] < 0]
    assert beyond
    assert not any(ledger.fits(at, 0.1, 0.1) for at in beyond)


def test_a_dial_that_follows_goes_up_while_late_requests_burn_and_nothing_is_packed() -> None:
    machine = Machine(6, dial=None)
    for _ in range(12):
        machine.window(idle(machine), late=0.03)
    assert machine.repacking.dial == 6
    assert machine.moves == []
    assert any("dial 5 to 6: the allowance burns at 3" in line for line in machine.lines)
    for _ in range(12):
        machine.window(idle(machine), late=0.008)
    assert machine.repacking.dial == 6


def test_a_dial_that_is_set_stays() -> None:
    machine = Machine(6, dial=3.0)
    for _ in range(40):
        machine.window(idle(machine), late=0.05)
    assert machine.repacking.dial == 3
    assert machine.lines
    assert not any(line.startswith("repack: dial 3 to") for line in machine.lines)


def test_a_node_without_headroom_is_told_and_told_again_when_it_has_some() -> None:
    machine = Machine(3)
    node = machine.running[machine.of("front")[0]]
    full = {key: 4.0 if where == node else 0.0 for key, where in machine.running.items()}
    for _ in range(12):
        machine.window(full, late=0.02)
    assert node in machine.repacking.crowded
    for _ in range(12):
        machine.window(dict.fromkeys(machine.running, 0.0))
    assert machine.repacking.crowded == frozenset()
    assert any(line.startswith(f"{node} has no headroom and gets no copies") for line in machine.lines)
    assert f"{node} has headroom again and gets copies" in machine.lines


def alone(cores: float) -> Adaptation:
    """One replica on the only node, which has some cores."""
    nodes = cluster_of({"quick": 1}, cores=cores)
    request = requested(None, profile({2: 1.0}, SPEEDS, name="nap"), nodes, command=NAP, max_replicas=1)
    placement = document(nodes, [], scheduler="thrifty", confidence=0.5)
    adaptation = Adaptation([request], nodes, placement, scheduler("thrifty"))
    adaptation.replicas.sizings["nap"].add(0, 0)
    adaptation.replicas.started("nap", 0, "for the test")
    return adaptation


def test_headroom_comes_back_at_half_the_chance_at_which_it_went() -> None:
    """Use of 4 cores goes up and down by 0.1, and deviations count one and a half times."""
    repacking = alone(4.0).repacking(LiveRepackSettings(every_s=60.0, dial=0.0, movable=frozenset()), 0.0)
    now_s = 0.0
    for chance, crowded in ((0.0099, False), (0.02, True), (0.0051, True), (0.0049, False), (0.007, False)):
        mean = 4.0 - 1.5 * 0.1 * NormalDist().inv_cdf(1 - chance)
        for _ in range(6):  # a minute, after which no earlier window counts
            for used in (mean - 0.1, mean + 0.1):
                now_s += WINDOW_S
                repacking.observe(now_s, {"nap-0": used}, {})
        assert repacking.crowded == (frozenset({"quick-0"}) if crowded else frozenset())


def test_a_crowded_node_is_relieved_while_late_requests_burn() -> None:
    machine = Machine(6, dial=0.0)
    for _ in range(120):
        machine.window(idle(machine))
    packed = len(machine.nodes_in_use())
    for _ in range(60):
        machine.window(dict.fromkeys(machine.running, 1.9), late=0.05)
        machine.check()
    assert len(machine.nodes_in_use()) > packed
    assert any("has no headroom and late requests" in action.reason for action in machine.moves)


def test_best_effort_work_never_runs_twice() -> None:
    machine = Machine(6)
    for _ in range(120):
        order = [type(action) for action in machine.window(idle(machine)) if action.workload == "nap"]
        assert order in ([], [Stop, Start])
        assert len(machine.of("nap")) == 4


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 2**32 - 1), dial=st.sampled_from([None, 0.0, 5.0, 10.0]))
def test_random_use_failed_starts_and_lost_nodes_lose_nothing(seed: int, dial: float | None) -> None:
    rng = random.Random(seed)
    machine = Machine(rng.choice([4, 6, 8]), dial=dial)
    slow = ""
    for _ in range(80):
        used = {key: rng.expovariate(2.0) for key in machine.running if rng.random() < 0.95}
        if rng.random() < 0.1:
            slow = rng.choice(["", *machine.of("front")])
        late, p99_ms = rng.choice([0.0, 0.0, 0.005, 0.03]), rng.choice([9.0, 9.0, 9.0, 20.0])
        machine.window(used, late=late, fail=0.1, p99_ms=p99_ms, slow=slow, rng=rng)
        if rng.random() < 0.03 and len(machine.adaptation.lost) < 1:
            lost = rng.choice(machine.cluster.nodes).name
            for key in [key for key, node in machine.running.items() if node == lost]:
                del machine.running[key]
            machine.apply(machine.adaptation.nodes_lost([lost], machine.now_s), 0.0, rng)
        elif machine.adaptation.lost and rng.random() < 0.1:
            machine.apply(machine.adaptation.node_back(machine.adaptation.lost[0]), 0.0, rng)
        assert machine.running == {key: node for node, key in machine.placed()}
        assert not set(machine.running.values()) & set(machine.adaptation.lost)
        assert machine.of("front")


def test_best_effort_work_is_moved_off_a_crowded_node_first_to_the_emptiest_one() -> None:
    machine = Machine(6, dial=0.0)
    for _ in range(120):
        machine.window(idle(machine))
    relieved = 0
    for window in range(48):
        if window % 12 == 0:  # a period begins
            there = dict(machine.running)
        for action in machine.window(dict.fromkeys(machine.running, 1.9), late=0.05):
            if isinstance(action, Start) and "has no headroom" in action.reason:
                crowded = action.reason.split()[0]
                beside = [key for key, node in there.items() if node == crowded]
                if any(key.startswith("nap") for key in beside):
                    assert action.workload == "nap"
                relieved += 1
        machine.check()
    assert relieved


def test_a_node_is_crowded_from_a_chance_of_one_percent_on() -> None:
    """Deviations count one and a half times: use of 2 cores, give or take 0.4, is 2.33 of these below 3.4."""
    for cores, crowded in ((3.39, True), (3.41, False)):
        chosen = LiveRepackSettings(every_s=600.0, dial=0.0, movable=frozenset())
        repacking = alone(cores).repacking(chosen, 0.0)
        for window, used in enumerate([1.6, 2.4] * 6, 1):
            repacking.observe(WINDOW_S * window, {"nap-0": used}, {})
        assert bool(repacking.crowded) == crowded


def test_headroom_is_told_from_half_a_minute_on() -> None:
    machine = Machine(3)
    full = dict.fromkeys(machine.running, 4.0)
    for window in range(1, 12):  # and told once
        machine.window(full)
        assert bool(machine.repacking.crowded) == (window >= 6)
    told = [line for line in machine.lines if "has no headroom" in line]
    assert len(told) == len(machine.repacking.crowded) == len(machine.nodes_in_use())
    counts = {node: list(machine.running.values()).count(node) for node in machine.nodes_in_use()}
    for line in told:
        assert f"its work uses {4.0 * counts[line.split()[0]]:.3g} of 4 cores" in line


def test_a_dial_that_is_left_out_begins_in_the_middle_and_periods_have_their_length() -> None:
    machine = Machine(6, dial=None)
    assert machine.repacking.dial == 5
    assert machine.repacking.planned == []
    moments = [machine.now_s for _ in range(40) if machine.window(idle(machine))]
    assert moments[0] == EVERY_S


def test_jobs_stay_where_they_are_and_use_what_they_draw() -> None:
    machine = Machine(8, dial=0.0)
    node = min({node.name for node in machine.cluster.nodes} - machine.nodes_in_use())
    rooms = machine.adaptation.job_room(dict.fromkeys((one.name for one in machine.cluster.nodes), 1.0))
    rooms.take("job", node, 4.0, 1.0, {})
    for _ in range(48):
        machine.window(idle(machine))
    assert machine.repacking.crowded == {node}
    assert machine.moves
    assert rooms.nodes == {node}
    assert not [move for move in machine.repacking.planned if not move.workload]


def test_a_move_that_is_refused_is_not_tried_again_in_its_period(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(6)
    asked: list[tuple[int, str, int]] = []

    def refuse(name: str, key: str, node: int, reason: str) -> list[Action]:
        asked.append((int(machine.now_s // EVERY_S), name, node))
        return []

    monkeypatch.setattr(machine.adaptation.measures, "move_by_use", refuse)
    for _ in range(60):
        assert machine.window(idle(machine)) == []
    assert asked
    assert len({(name, node) for _, name, node in asked}) < len(set(asked)) == len(asked)
    told = [line for line in machine.lines if "cannot go to" in line]
    assert len(told) == len(asked)
    _, name, node = asked[0]
    where = machine.cluster.nodes[node].name
    assert told[0].startswith(f"repack: {name} cannot go to {where} now, since memory, contention,")
    assert told[0].endswith("moves are left")


def test_a_move_off_a_crowded_node_that_is_refused_is_no_reason_to_pack(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = Machine(6, dial=0.0)
    for _ in range(120):
        machine.window(idle(machine))
    asked: list[str] = []

    def refuse(name: str, key: str, node: int, reason: str) -> list[Action]:
        asked.append(reason)
        return []

    monkeypatch.setattr(machine.adaptation.measures, "move_by_use", refuse)
    for _ in range(24):
        assert machine.window(dict.fromkeys(machine.running, 1.9), late=0.05) == []
    assert asked
    assert all("has no headroom and late requests" in reason for reason in asked)
    assert not any("cannot go to" in line for line in machine.lines)


def test_crowded_nodes_are_relieved_in_the_order_of_their_names() -> None:
    machine = Machine(4)
    occupied = sorted(machine.nodes_in_use())[:2]
    moves = moves_off(machine.adaptation, machine.repacking, occupied)
    assert [source for source, _, _ in moves] == occupied
    assert not {machine.cluster.nodes[node].name for _, _, node in moves} & set(occupied)


def test_nothing_is_packed_before_there_are_as_many_samples_as_a_packing_needs() -> None:
    """The eighth sample ends after 45 s; periods have two windows, or three."""
    assert MIN_SAMPLES == 8
    for every_s, first_s in ((10.0, 50.0), (15.0, 45.0)):
        machine = Machine(6, every_s=every_s)
        moments = [machine.now_s for _ in range(12) if machine.window(idle(machine))]
        assert moments[0] == first_s


def unused(every_s: float) -> LiveRepacking:
    """Repacking of two nodes on which nothing runs."""
    nodes = cluster_of({"quick": 2}, cores=4)
    request = requested(None, profile({2: 1.0}, SPEEDS, name="nap"), nodes, command=NAP, max_replicas=1)
    placement = document(nodes, [], scheduler="thrifty", confidence=0.5)
    adaptation = Adaptation([request], nodes, placement, scheduler("thrifty"))
    return adaptation.repacking(LiveRepackSettings(every_s=every_s, dial=0.0, movable=frozenset()), 0.0)


def test_a_cluster_without_replicas_is_not_packed() -> None:
    repacking = unused(10.0)
    for window in range(1, 24):
        assert repacking.observe(5.0 * window, {}, {}) == []
        assert repacking.step(5.0 * window) == ([], [])


@pytest.mark.parametrize(("every_s", "sample_s"), [(60.0, 5.0), (300.0, 5.0), (3600.0, 60.0)])
def test_a_period_has_sixty_samples_and_none_shorter_than_a_window(every_s: float, sample_s: float) -> None:
    repacking = unused(every_s)
    for window in range(241):
        repacking.observe(5.0 * window, {}, {})
    assert repacking.record.series([]).times_s.size == 1200.0 / sample_s


def test_a_sample_may_be_half_a_window_short() -> None:
    """Samples of a minute: twelve windows of 4.8 s are one, and so are eleven of 5.3 s."""
    for window_s, windows in ((4.8, 12), (5.3, 11)):
        repacking = unused(3600.0)
        for window in range(1, 121):
            repacking.observe(window_s * window, {}, {})
        gaps = np.diff(repacking.record.series([]).times_s)
        assert gaps == pytest.approx(windows * window_s)


def test_a_node_is_allowed_where_it_is_as_large_as_the_largest_replica() -> None:
    classes = tuple(NodeClass(name=name, cores=cores, memory_gb=64) for name, cores in (("a", 4), ("b", 2)))
    nodes = Cluster(classes, (Node("a-0", "a"), Node("a-1", "a"), Node("b-0", "b")))
    speeds = {"a": 1.0, "b": 1.0}
    request = requested(50.0, profile({1: 50.0, 4: 200.0}, speeds), nodes, spread=Spread.NODE)
    batch = requested(None, profile({1: 1.0}, speeds, name="batch"), nodes, max_replicas=1)
    for sizes, moves in (((0, 0), {("w-0", 2), ("w-1", 2)}), ((0, 1), set())):
        adaptation = standing(nodes, (request, list(enumerate(sizes))), (batch, [(2, 0)]))
        found = moves_by_idle_use(adaptation, "w")
        assert set(found[:1]) <= moves  # one of the two, where both would fit
        assert bool(found) == bool(moves)


def test_replicas_of_a_stage_stay_apart_and_best_effort_work_goes_together() -> None:
    machine = Machine(6, dial=0.0)
    for _ in range(120):
        machine.window(idle(machine))
    on = [machine.running[key] for key in machine.of("front")]
    assert len(set(on)) == len(on)
    assert machine.nodes_in_use() == set(on)
    assert len(machine.of("nap")) == 4 > len(on)


def test_requests_do_not_stand_for_a_use_that_will_be_known_soon() -> None:
    """By what they request, two replicas would go onto one node at once."""
    nodes = cluster_of({"quick": 2}, cores=4)
    request = requested(
        None, profile({2: 1.0}, SPEEDS, name="nap"), nodes, max_replicas=2, spread=Spread.NONE
    )
    placement = document(nodes, [], scheduler="thrifty", confidence=0.5)
    adaptation = Adaptation([request], nodes, placement, scheduler("thrifty"))
    for node in (0, 1):
        adaptation.replicas.sizings["nap"].add(node, 0)
    keys = [start.key for start in adaptation.replicas.started("nap", 0, "for the test")]
    chosen = LiveRepackSettings(every_s=10.0, dial=0.0, movable=frozenset({"nap"}))
    repacking = adaptation.repacking(chosen, 0.0)
    moments = []
    for window in range(1, 24):
        repacking.observe(5.0 * window, dict.fromkeys(keys, 0.1), {})
        if repacking.step(5.0 * window)[0]:
            moments.append(5.0 * window)
    assert moments == [50.0]


def test_an_allowance_that_is_used_up_and_no_more_does_not_burn() -> None:
    for late, burns in ((0.01, False), (0.012, True)):
        machine = Machine(6, dial=5.0)
        for _ in range(12):
            machine.window(idle(machine), late=late)
        assert any("no packing" in line for line in machine.lines) == burns
