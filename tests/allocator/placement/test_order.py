"""Admission: order, best-effort work that makes room, workloads that wait, and replicas that run already."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from kwiken.allocator.placement.headroom import Caution
from kwiken.allocator.placement.node_ledger import NodeLedger
from kwiken.allocator.placement.order import Newcomer, PlacedOrNot, admit, admit_all, nodes_to_add
from kwiken.allocator.placement.placement_document import document, resume, total_cost
from kwiken.allocator.placement.request import PlacementRequest
from kwiken.allocator.placement.sizing import Sizing
from kwiken.allocator.placement.walks import take, trim
from kwiken.allocator.workloads.sources import SOURCES
from kwiken.allocator.workloads.workload import Spread
from kwiken.base.errors import InputError
from kwiken.model.nodes.nodes import Cluster, Node, NodeClass
from kwiken.model.nodes.placement import Placement, PlacingStatus
from papers.worlds.schedulers.names import SCHEDULERS, scheduler
from tests.support.allocation.filled_ledger import occupy
from tests.support.runtime.clusters import cluster, known, over_sources, profile, requested

SPEEDS = {"top": 1.0}
RATES: dict[float, float] = {2: 6e3, 4: 11e3, 8: 20e3}
QUASAR = scheduler("quasar")


def ask(name: str, rate: float | None, nodes: Cluster, **fields: Any) -> PlacementRequest:
    return requested(rate, profile(RATES, SPEEDS, name=name), nodes, **{"spread": Spread.NODE, **fields})


def written(nodes: Cluster, admissions: list[PlacedOrNot]) -> Placement:
    return document(nodes, admissions, scheduler="quasar", confidence=0.5)


def test_higher_priority_goes_first_and_outcomes_keep_their_order() -> None:
    nodes = cluster({"top": 2})
    asked = [ask("low", 40e3, nodes), ask("high", 40e3, nodes, priority=5)]
    low, high = admit_all(asked, NodeLedger(nodes), QUASAR)
    assert high.status is PlacingStatus.MET
    assert (low.status, low.sizing.replicas) == (PlacingStatus.QUEUED, [])
    assert low.nearest is not None
    assert low.nearest.performance == 0
    assert low.nearest_empty is not None
    assert low.nearest_empty.met


def test_one_that_waits_does_not_hold_up_those_behind() -> None:
    nodes = cluster({"top": 2})
    asked = [ask("huge", 1e6, nodes, priority=5), ask("small", 20e3, nodes)]
    huge, small = admit_all(asked, NodeLedger(nodes), QUASAR)
    assert huge.status is PlacingStatus.QUEUED
    assert huge.nearest is not None
    assert huge.nearest.performance == pytest.approx(40e3)
    assert small.status is PlacingStatus.MET


def test_nearly_enough_is_taken_and_said() -> None:
    nodes = cluster({"top": 2})
    (close,) = admit_all([ask("close", 41e3, nodes)], NodeLedger(nodes), QUASAR)
    assert close.status is PlacingStatus.SHORT
    assert len(close.sizing.replicas) == 2
    (far,) = admit_all([ask("far", 43e3, nodes)], NodeLedger(nodes), QUASAR)
    assert far.status is PlacingStatus.QUEUED


def test_best_effort_fills_what_is_left_and_keeps_out_of_the_way() -> None:
    nodes = cluster({"top": 2})
    careful = profile(RATES, SPEEDS, name="careful", tolerated=over_sources(1.0, disk=0.2))
    noisy = profile({2.0: 6e3}, SPEEDS, name="noisy", caused=over_sources(0.0, disk=0.15))
    asked = [
        requested(None, noisy, nodes, spread=Spread.NONE),
        requested(10e3, careful, nodes, caution=Caution(confidence=0.5)),
    ]
    filler, promised = admit_all(asked, NodeLedger(nodes), QUASAR)
    assert (promised.status, filler.status) == (PlacingStatus.MET, PlacingStatus.BEST_EFFORT)
    own = promised.sizing.replicas[0].node
    beside = sum(replica.node == own for replica in filler.sizing.replicas)
    assert beside == 1  # two would exert 0.3 of the 0.2 that is tolerated
    assert len(filler.sizing.replicas) == 5


def test_best_effort_is_evicted_only_where_room_is_needed() -> None:
    nodes = cluster({"top": 3})
    ledger = NodeLedger(nodes)
    old = ask("old", None, nodes, spread=Spread.NONE, priority=1)
    young = ask("young", None, nodes, spread=Spread.NONE)
    filled = admit_all([old, young], ledger, QUASAR)
    assert ledger.free_cores.sum() == 0
    running = [one.sizing for one in filled if one.sizing.replicas]
    (new,) = admit_all([ask("new", 20e3, nodes)], ledger, QUASAR, running)
    assert new.status is PlacingStatus.MET
    assert len(new.evicted) == 1
    assert sum(len(sizing.replicas) for sizing in running) == 2
    assert (ledger.free_cores >= 0).all()


def test_eviction_in_vain_is_undone() -> None:
    nodes = cluster({"top": 2})
    ledger = NodeLedger(nodes)
    (filled,) = admit_all([ask("filler", None, nodes)], ledger, QUASAR)
    (huge,) = admit_all([ask("huge", 1e6, nodes)], ledger, QUASAR, [filled.sizing])
    assert huge.status is PlacingStatus.QUEUED
    assert huge.evicted == []
    assert len(filled.sizing.replicas) == 2


def test_replicas_of_a_lost_node_are_placed_elsewhere_and_the_others_stay() -> None:
    before = cluster({"top": 4})
    asked = [ask("a", 40e3, before), ask("b", 20e3, before)]
    placement = written(before, admit_all(asked, NodeLedger(before), QUASAR))
    lost = placement.workloads[0].replicas[0].node
    kept = placement.workloads[0].replicas[1].node
    after = Cluster(before.classes, tuple(node for node in before.nodes if node.name != lost))
    again = [ask("a", 40e3, after), ask("b", 20e3, after)]
    ledger = NodeLedger(after)
    running = resume(placement, {one.name: one for one in again}, ledger)
    assert [len(sizing.replicas) for sizing in running] == [1, 1]
    moved = written(after, admit_all(again, ledger, QUASAR, running))
    assert [one.status for one in moved.workloads] == [PlacingStatus.MET, PlacingStatus.MET]
    assert kept in {replica.node for replica in moved.workloads[0].replicas}
    assert moved.workloads[1].replicas == placement.workloads[1].replicas


def test_nothing_moves_when_nothing_changed() -> None:
    nodes = cluster({"top": 6})
    asked = [ask("a", 47e3, nodes), ask("b", 15e3, nodes), ask("c", None, nodes)]
    first = written(nodes, admit_all(asked, NodeLedger(nodes), QUASAR))
    ledger = NodeLedger(nodes)
    running = resume(
        Placement.from_json(first.to_json(), where="p"), {one.name: one for one in asked}, ledger
    )
    assert written(nodes, admit_all(asked, ledger, QUASAR, running)).workloads == first.workloads


@pytest.mark.parametrize("name", [name for name in SCHEDULERS if name != "reservation"])
def test_every_scheduler_gives_a_workload_as_many_nodes_as_it_must_have(name: str) -> None:
    nodes = cluster({"top": 4})
    (found,) = admit_all([ask("a", 5e3, nodes, min_nodes=3)], NodeLedger(nodes), scheduler(name))
    assert found.status is PlacingStatus.MET
    assert len({replica.node for replica in found.sizing.replicas}) == 3


def test_too_few_nodes_leave_a_workload_short_and_counts_that_make_no_sense_are_refused() -> None:
    nodes = cluster({"top": 1})
    (found,) = admit_all([ask("a", 5e3, nodes, min_nodes=2)], NodeLedger(nodes), scheduler("thrifty"))
    assert (found.status, len(found.sizing.replicas)) == (PlacingStatus.SHORT, 1)
    for fields in (
        {"min_nodes": 0},
        {"min_nodes": 9, "max_replicas": 8},
        {"min_nodes": 2, "spread": Spread.NONE},
    ):
        with pytest.raises(ValueError, match="min_nodes"):
            ask("a", 5e3, nodes, **fields)
    assert len(ask("a", 5e3, nodes, min_nodes=100, max_replicas=200).efficiency) == 100
    with pytest.raises(InputError, match="knows up to 100 replicas, and min_nodes is 101"):
        ask("a", 5e3, nodes, min_nodes=101, max_replicas=200)


@pytest.mark.parametrize("tolerated", [0.5, 1.0])
def test_evicted_work_goes_back_only_where_the_newcomer_bears_it(tolerated: float) -> None:
    """There is room for both by cores; the filler presses more than the newcomer may tolerate."""
    nodes = cluster({"top": 1})
    loud = profile({2: 1.0}, SPEEDS, name="filler", caused=over_sources(0.0, disk=0.8))
    filler = requested(None, loud, nodes, spread=Spread.NONE, max_replicas=4)
    quiet = profile(RATES, SPEEDS, name="new", tolerated=over_sources(1.0, disk=tolerated))
    new = requested(10e3, quiet, nodes)
    ledger = NodeLedger(nodes)
    (before,) = admit_all([filler], ledger, QUASAR)
    there = len(before.sizing.replicas)
    assert there > 1
    (placed,) = admit_all([new], ledger, QUASAR, [before.sizing])
    assert placed.status is PlacingStatus.MET
    left = len(before.sizing.replicas)
    assert len(placed.evicted) == there - left
    assert left == (1 if tolerated == 1.0 else 0)


def test_best_effort_work_that_is_put_back_costs_its_neighbour_what_it_causes() -> None:
    nodes, caution = cluster({"top": 1}), Caution(confidence=0.5, later_loss=0.0)
    bears = profile({1: 3e3}, SPEEDS, name="new", tolerated=over_sources(1.0, disk=0.3))
    causes = profile({1: 1.0}, SPEEDS, name="filler", caused=over_sources(0.0, disk=0.3))
    filler = Sizing(requested(None, causes, nodes, spread=Spread.NONE, max_replicas=8), NodeLedger(nodes))
    filler.add_all([(0, 0)] * 8)
    new = Sizing(requested(2900.0, bears, nodes, caution=caution), filler.ledger)
    placed = admit(new, scheduler("thrifty"), [filler])
    assert (len(filler.replicas), len(placed.evicted)) == (1, 7)
    assert placed.status is PlacingStatus.SHORT
    assert placed.sizing.forecast().performance == pytest.approx(2850.0)


def test_the_cheapest_nodes_that_make_room_are_told() -> None:
    """Two small nodes cost less than one large one."""
    classes = tuple(
        NodeClass(name=name, cores=cores, memory_gb=64.0, cost_per_hour=cost)
        for name, cores, cost in (("large", 8.0, 1.0), ("small", 4.0, 0.3))
    )
    nodes = Cluster(classes, (Node("small-0", "small"),))
    about = profile(RATES, {"large": 1.0, "small": 1.0}, name="new")
    (waiting,) = admit_all([requested(30e3, about, nodes)], NodeLedger(nodes), QUASAR)
    assert waiting.status is PlacingStatus.QUEUED
    added = nodes_to_add(waiting, QUASAR, [])
    assert added is not None
    assert (added.node_class, added.count) == ("small", 2)
    assert added.cost_per_hour == pytest.approx(0.6)


def test_the_lowest_priority_is_evicted_first_whatever_its_place() -> None:
    nodes = cluster({"top": 1})
    half = {4.0: 11e3}  # two of them fill the node
    for priorities in ((0, 5), (5, 0)):
        ledger = NodeLedger(nodes)
        asked = [
            requested(None, profile(half, SPEEDS, name=f"of-{one}"), nodes, priority=one, max_replicas=1)
            for one in priorities
        ]
        filled = [one.sizing for one in admit_all(asked, ledger, QUASAR)]
        assert [len(sizing.replicas) for sizing in filled] == [1, 1]
        new = requested(10e3, profile(half, SPEEDS, name="new"), nodes)
        (found,) = admit_all([new], ledger, QUASAR, filled)
        assert [name for name, _ in found.evicted] == ["of-0"]


def test_trimming_drops_the_replicas_that_the_target_does_not_need() -> None:
    nodes = cluster({"top": 4})
    sizing = Sizing(ask("a", 30e3, nodes), NodeLedger(nodes))
    for node in range(4):
        sizing.add(node, 2)
    trim(sizing)
    assert sizing.meets()
    assert len(sizing.replicas) == 2
    assert sizing.ledger.free_cores.sum() >= 16


def test_scores_are_moved_by_their_deviation_to_the_side_of_caution() -> None:
    nodes = cluster({"top": 1})
    tolerated, caused = (known([mean] * len(SOURCES), 0.1) for mean in (0.5, 0.3))
    scored = profile(RATES, SPEEDS, tolerated=tolerated, caused=caused)
    found = requested(5e3, scored, nodes, caution=Caution(confidence=0.95))
    assert found.tolerated == pytest.approx([0.5 - 1.645 * 0.1] * len(SOURCES), abs=1e-3)
    assert found.caused == pytest.approx([0.3 + 1.645 * 0.1] * len(SOURCES), abs=1e-3)


@pytest.mark.parametrize(
    ("performance", "status"),
    [(19.001e3, PlacingStatus.SHORT), (19e3, PlacingStatus.SHORT), (18.999e3, PlacingStatus.QUEUED)],
)
def test_95_percent_of_the_need_are_enough_to_run(performance: float, status: PlacingStatus) -> None:
    nodes = cluster({"top": 1})
    request = requested(20e3, profile({8: performance}, SPEEDS), nodes)
    (found,) = admit_all([request], NodeLedger(nodes), QUASAR)
    assert found.status is status


@pytest.mark.parametrize(("useless", "count"), [(7, 2), (8, 1)])
def test_a_walk_ends_after_eight_nodes_that_win_nothing(useless: int, count: int) -> None:
    """Two replicas reach 70% of their sum: a slow second one costs more than it adds."""
    nodes = cluster({"top": 2, "low": useless})
    about = profile({8: 20e3}, {"top": 1.0, "low": 0.2}, efficiency=[1.0, 0.7])
    sizing = Sizing(requested(1e6, about, nodes), NodeLedger(nodes))
    take(sizing, [(0, 0), *((node, 0) for node in range(2, 2 + useless)), (1, 0)])
    assert len(sizing.replicas) == count


def test_a_node_that_adds_nothing_is_left_out_also_after_one_that_takes_away() -> None:
    nodes = cluster({"top": 1, "low": 1, "middle": 1})
    about = profile({8: 20e3}, {"top": 1.0, "low": 0.2, "middle": 0.25}, efficiency=[1.0, 0.7])
    sizing = Sizing(requested(1e6, about, nodes), NodeLedger(nodes))
    take(sizing, [(node, 0) for node in range(3)])  # 20, and with the others 16.8 and 17.5
    assert [one.node for one in sizing.replicas] == [0]


@pytest.mark.parametrize(("off", "known"), [(0.9e-6, True), (1.5e-6, False)])
def test_a_written_size_may_be_off_by_a_millionth(off: float, known: bool) -> None:
    nodes = cluster({"top": 2})
    asked = ask("a", 20e3, nodes)
    placement = written(nodes, admit_all([asked], NodeLedger(nodes), QUASAR))
    (workload,) = placement.workloads
    (replica,) = workload.replicas
    for amount in ("cores", "memory_gb"):
        moved = msgspec.structs.replace(replica, **{amount: getattr(replica, amount) - off})
        changed = msgspec.structs.replace(
            placement, workloads=[msgspec.structs.replace(workload, replicas=[moved])]
        )
        assert bool(resume(changed, {"a": asked}, NodeLedger(nodes))) == known
        over = msgspec.structs.replace(replica, **{amount: getattr(placement.nodes[0], amount) + off})
        full = msgspec.structs.replace(
            placement, workloads=[msgspec.structs.replace(workload, replicas=[over])]
        )
        if known:
            assert Placement.from_json(full.to_json(), where="p") == full
        else:
            with pytest.raises(InputError, match="has no room for it"):
                Placement.from_json(full.to_json(), where="p")


def test_what_cannot_run_on_is_left_out_of_what_is_resumed() -> None:
    nodes = cluster({"top": 3})
    asked = ask("a", 58e3, nodes)
    placement = written(nodes, admit_all([asked, ask("gone", 1e3, nodes)], NodeLedger(nodes), QUASAR))
    (workload, *_) = placement.workloads
    assert len(workload.replicas) == 3
    (sizing,) = resume(placement, {"a": ask("a", 58e3, nodes, max_replicas=2)}, NodeLedger(nodes))
    assert len(sizing.replicas) == 2
    full = NodeLedger(nodes)
    occupy(full, 1, cores=4.0)
    (sizing,) = resume(placement, {"a": asked}, full)
    assert sorted(one.node for one in sizing.replicas) == [0, 2]
    assert total_cost(placement) == pytest.approx(sum(one.cost_per_hour for one in placement.workloads))


def test_best_effort_work_stays_where_a_free_node_is_as_good() -> None:
    nodes = cluster({"top": 2})
    ledger = NodeLedger(nodes)
    (filled,) = admit_all([ask("filler", None, nodes, max_replicas=1)], ledger, QUASAR)
    there = filled.sizing.replicas[0].node
    (new,) = admit_all([ask("new", 20e3, nodes)], ledger, QUASAR, [filled.sizing])
    assert (new.status, new.evicted) == (PlacingStatus.MET, [])
    assert [one.node for one in filled.sizing.replicas] == [there]
    assert [one.node for one in new.sizing.replicas] == [1 - there]


def test_trimming_looks_at_every_replica_unless_some_are_to_stay() -> None:
    nodes = cluster({"top": 2})
    for kept, sizes in ((0, [0]), (1, [2])):
        sizing = Sizing(ask("a", 5e3, nodes), NodeLedger(nodes))
        sizing.add(0, 2)
        if kept:
            trim(sizing, kept)
        else:
            trim(sizing)
        assert [one.size for one in sizing.replicas] == sizes


@pytest.mark.parametrize("priorities", [(0, 5), (5, 0)])
def test_of_best_effort_work_the_highest_priority_gets_the_room_that_is_left(
    priorities: tuple[int, int],
) -> None:
    nodes = cluster({"top": 1}, cores=8)
    asked = [
        requested(None, profile({8: 20e3}, SPEEDS, name=f"of-{one}"), nodes, priority=one, max_replicas=1)
        for one in priorities
    ]
    found = admit_all(asked, NodeLedger(nodes), QUASAR)
    assert [one.request.name for one in found if one.sizing.replicas] == ["of-5"]
    assert [one.request.name for one in found] == [one.name for one in asked]


@pytest.mark.parametrize(("others", "proposed"), [(15, "small"), (16, "large-0")])
def test_of_many_classes_of_new_nodes_those_that_perform_most_for_their_cost_are_tried(
    others: int, proposed: str
) -> None:
    """The best size costs less on a large node; a whole small node costs less, and so does a small size."""
    classes = (
        NodeClass(name="small", cores=8, memory_gb=64, cost_per_hour=1.0),
        *(
            NodeClass(name=f"large-{number}", cores=16, memory_gb=4, cost_per_hour=1.1)
            for number in range(others)
        ),
    )
    nodes = Cluster(classes, (Node("small-0", "small"),))
    request = requested(30e3, profile(RATES, {one.name: 1.0 for one in classes}), nodes)
    (waiting,) = admit_all([request], NodeLedger(nodes), QUASAR)
    added = nodes_to_add(waiting, QUASAR, [])
    assert added is not None
    assert (added.node_class, added.count) == (proposed, 1)


def test_new_nodes_are_counted_beside_the_replicas_that_a_waiting_workload_has() -> None:
    nodes = cluster({"top": 1})
    request, ledger = ask("a", 40e3, nodes), NodeLedger(nodes)
    sizing = Sizing(request, ledger)
    sizing.add(0, 0)  # 6 of 40; a new node adds 20
    (waiting,) = admit_all([request], ledger, QUASAR, [sizing])
    assert waiting.status is PlacingStatus.QUEUED
    assert [(one.node, one.size) for one in waiting.sizing.replicas] == [(0, 0)]
    added = nodes_to_add(waiting, QUASAR, [])
    assert added is not None
    assert added.count == 2


def test_a_workload_for_which_best_effort_work_makes_room_is_placed_anew() -> None:
    """At first there are two cores on the second node; with room, one replica on the first is enough."""
    nodes = cluster({"top": 2})
    ledger = NodeLedger(nodes)
    fillers = [
        Sizing(requested(None, profile({cores: 1e3}, SPEEDS, name=name), nodes), ledger)
        for name, cores in (("large", 8), ("small", 6))
    ]
    for node, filler in enumerate(fillers):
        filler.add(node, 0)
    (placed,) = admit_all([ask("new", 20e3, nodes)], ledger, QUASAR, fillers)
    assert placed.status is PlacingStatus.MET
    assert [(one.node, one.size) for one in placed.sizing.replicas] == [(0, 2)]
    assert [name for name, _ in placed.evicted] == ["large"]
    assert [len(filler.replicas) for filler in fillers] == [0, 1]


def test_outcomes_tell_performance_beside_neighbours_that_came_later() -> None:
    nodes = cluster({"top": 1})
    quiet = profile({4: 10e3}, SPEEDS, name="quiet", tolerated=over_sources(1.0, disk=0.5))
    loud = profile({4: 10e3}, SPEEDS, name="loud", caused=over_sources(0.0, disk=0.3))
    asked = [requested(9e3, one, nodes) for one in (quiet, loud)]
    first, second = admit_all(asked, NodeLedger(nodes), QUASAR)
    assert (first.status, second.status) == (PlacingStatus.MET, PlacingStatus.MET)
    assert first.sizing.forecast().performance == pytest.approx(10e3 * (1 - 0.05 * (0.3 / 0.5) ** 4))


@dataclass
class PlacesJointly:
    """Scheduler that places workloads only in joint improvement: one replica each, on the first node."""

    name = "places-jointly"
    newcomers: list[tuple[str, int]] = field(default_factory=list)

    def place(self, sizing: Sizing) -> None:
        """Place nothing."""

    def satisfied(self, sizing: Sizing) -> bool:
        """Whether the target is met."""
        return sizing.meets()

    def improve(self, newcomers: Sequence[Newcomer]) -> None:
        """Place a replica of each that has none, beside the ones before."""
        for one in newcomers:
            self.newcomers.append((one.sizing.request.name, one.kept))
            if not one.kept:
                one.sizing.add(0, 0)
            assert one.sizing.meets()


def test_workloads_with_a_target_are_improved_together_before_they_are_told_to_wait() -> None:
    """The first one meets its target until the noisy one comes, and waits."""
    nodes = cluster({"top": 1})
    ledger = NodeLedger(nodes)
    quiet = profile({1: 10e3}, SPEEDS, name="quiet", tolerated=over_sources(1.0, disk=0.5))
    loud = profile({1: 10e3}, SPEEDS, name="loud", caused=over_sources(0.0, disk=0.3))
    plain = {name: profile({1: 10e3}, SPEEDS, name=name) for name in ("new", "old", "filler")}
    old = Sizing(requested(9e3, plain["old"], nodes), ledger)
    old.add(0, 0)
    asked = [
        requested(None, plain["filler"], nodes),
        requested(9.95e3, quiet, nodes),
        requested(9e3, plain["new"], nodes),
        old.request,
        requested(9e3, loud, nodes, priority=-1),
    ]
    chosen = PlacesJointly()
    found = admit_all(asked, ledger, chosen, [old])
    assert chosen.newcomers == [("quiet", 0), ("new", 0), ("old", 1), ("loud", 0)]
    assert [one.status for one in found] == ["best-effort", "queued", "met", "met", "met"]


@pytest.mark.parametrize("count", range(2, 8))
def test_the_fewest_new_nodes_that_make_room_are_proposed(count: int) -> None:
    nodes = cluster({"top": 1})
    request = ask("a", 20e3 * (count + 1), nodes, max_replicas=count + 1)
    (waiting,) = admit_all([request], NodeLedger(nodes), QUASAR)
    added = nodes_to_add(waiting, QUASAR, [])
    assert added is not None
    assert (added.count, added.cost_per_hour) == (count, 8.0 * count)


def test_best_effort_work_stays_where_its_room_would_not_add_performance() -> None:
    """The one replica that is allowed performs as much on the free node."""
    nodes = cluster({"top": 2})
    ledger = NodeLedger(nodes)
    filler = Sizing(requested(None, profile({8: 20e3}, SPEEDS, name="filler"), nodes), ledger)
    filler.add(0, 0)
    (placed,) = admit_all([ask("new", 20.5e3, nodes, max_replicas=1)], ledger, QUASAR, [filler])
    assert (placed.status, placed.evicted) == (PlacingStatus.SHORT, [])
    assert [one.node for one in filler.replicas] == [0]
    assert [one.node for one in placed.sizing.replicas] == [1]


def test_best_effort_work_makes_room_also_where_other_such_work_has_no_replica() -> None:
    nodes = cluster({"top": 1})
    ledger = NodeLedger(nodes)
    full, none = (
        Sizing(requested(None, profile({8: 20e3}, SPEEDS, name=name), nodes, max_replicas=1), ledger)
        for name in ("full", "none")
    )
    full.add(0, 0)
    (placed,) = admit_all([ask("new", 5e3, nodes)], ledger, QUASAR, [full, none])
    assert placed.status is PlacingStatus.MET
    assert [name for name, _ in placed.evicted] == ["full"]
