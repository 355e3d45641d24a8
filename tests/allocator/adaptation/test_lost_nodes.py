"""Lost nodes: where their replicas go, in which order, and what comes back with a node."""

from __future__ import annotations

import pytest

from kwiken.allocator.adaptation.actions import Shortage, Start, Stop
from kwiken.allocator.adaptation.watch import WINDOW_S
from kwiken.allocator.workloads.workload import Spread
from tests.allocator.adaptation.test_adaptation import ask, seen, started, where
from tests.support.runtime.clusters import cluster


def test_replicas_of_a_lost_node_are_placed_elsewhere_at_once() -> None:
    nodes = cluster({"quick": 2})
    adaptation = started(nodes, ask("w", 400, nodes, spread=Spread.NODE))
    (node,) = {node for node, _ in where(adaptation).values()}
    actions = adaptation.nodes_lost([node], 10.0)
    assert [type(action) for action in actions] == [Start]
    assert f"node {node} was lost" in actions[0].line
    assert node not in {other for other, _ in where(adaptation).values()}
    assert adaptation.performance("w")[0] >= 400
    assert adaptation.node_back(node) == []  # nothing needs it


def test_without_room_elsewhere_the_shortage_is_told_once_and_ends_when_the_node_is_back() -> None:
    nodes = cluster({"quick": 2})
    adaptation = started(nodes, ask("w", 1500, nodes))
    (lost,) = [action for action in adaptation.nodes_lost(["quick-1"], 0.0) if isinstance(action, Shortage)]
    assert lost.line == ("w: no room: node quick-1 was lost; 1500/s are needed, and the nodes can give 800/s")
    for window in range(100):
        assert adaptation.observe(window * WINDOW_S, {"w": seen(50.0, 1500.0)}) == []
    assert {type(action) for action in adaptation.node_back("quick-1")} == {Start}
    assert adaptation.performance("w")[0] >= 1500 * (1 - 1e-9)


@pytest.mark.parametrize(("first", "second"), [(5, 0), (0, 5)])
def test_the_room_that_is_left_goes_to_the_workload_of_higher_priority(first: int, second: int) -> None:
    nodes = cluster({"quick": 3})
    requests = [ask(name, 500, nodes, priority=rank) for name, rank in (("a", first), ("b", second))]
    adaptation = started(nodes, *requests)
    lost = sorted({node for name in "ab" for node, _ in where(adaptation, name).values()})
    assert len(lost) == 2
    (short,) = [action for action in adaptation.nodes_lost(lost, 0.0) if isinstance(action, Shortage)]
    assert short.workload == ("b" if first > second else "a")
    assert f"nodes {', '.join(lost)} were lost" in short.line


def test_a_target_is_met_in_place_of_best_effort_work_which_gets_what_is_left() -> None:
    nodes = cluster({"quick": 2})
    adaptation = started(nodes, ask("batch", None, nodes, max_replicas=1), ask("w", 200, nodes))
    (lost,) = {node for node, _ in where(adaptation).values()}
    assert lost not in {node for node, _ in where(adaptation, "batch").values()}
    actions = adaptation.nodes_lost([lost], 0.0)
    assert [(type(action), action.workload) for action in actions] == [
        (Stop, "batch"),
        (Start, "w"),
        (Start, "batch"),
    ]
    assert adaptation.performance("w")[0] >= 200


def test_a_lost_node_offers_neither_cores_nor_memory() -> None:
    nodes = cluster({"quick": 2})
    adaptation = started(nodes, ask("w", 400, nodes))
    adaptation.nodes_lost(["quick-0"], 0.0)
    ledger = adaptation.replicas.ledger
    assert (ledger.free_cores[0], ledger.free_memory_gb[0]) == (0.0, 0.0)


def test_too_few_nodes_are_told_only_where_performance_is_enough() -> None:
    nodes = cluster({"quick": 2})
    for rate, words in ((800.0, "can give 800/s, but on too few nodes"), (1500.0, "can give 800/s")):
        adaptation = started(nodes, ask("w", rate, nodes, spread=Spread.NODE, min_nodes=2))
        (short,) = [one for one in adaptation.nodes_lost(["quick-1"], 0.0) if isinstance(one, Shortage)]
        assert short.line.endswith(words)


def test_the_loss_of_an_empty_node_starts_nothing() -> None:
    """Best-effort work that could not be started has room, and waits for another reason."""
    nodes = cluster({"quick": 2})
    adaptation = started(nodes, ask("w", 400, nodes), ask("batch", None, nodes, max_replicas=1))
    (key,) = where(adaptation, "batch")
    adaptation.start_failed("batch", key, 0.0)
    (used,) = {node for node, _ in where(adaptation).values()}
    (empty,) = {node.name for node in nodes.nodes} - {used}
    assert adaptation.nodes_lost([empty], 1.0) == []
    (start,) = adaptation.node_back(empty)
    assert (start.workload, start.reason) == ("batch", f"node {empty} is back")


def test_a_workload_whose_node_was_lost_is_given_20_s() -> None:
    nodes = cluster({"quick": 3})
    adaptation = started(nodes, ask("w", 400, nodes), ask("x", 800, nodes))
    (lost,) = {node for node, _ in where(adaptation).values()}
    assert adaptation.nodes_lost([lost], 0.0)
    for now_s in (5.0, 10.0, 15.0, 20.0):
        assert adaptation.observe(now_s, {"w": seen(50.0, 400.0)}) == []
    assert adaptation.observe(25.0, {"w": seen(50.0, 400.0)}) != []


def test_what_is_lacking_is_said_as_replicas_on_new_nodes_of_the_classes_that_there_are() -> None:
    nodes = cluster({"quick": 2, "slow": 0})
    adaptation = started(nodes, ask("w", 1500, nodes), ask("batch", None, nodes, max_replicas=1))
    assert adaptation.on_new_nodes() == {"w": [], "batch": []}
    adaptation.nodes_lost(["quick-1"], 0.0)
    new = adaptation.on_new_nodes()["w"]
    assert {node_class for node_class, _ in new} == {"quick"}
    performance, needed = adaptation.performance("w")
    assert performance < needed
    adaptation.node_back("quick-1")
    assert adaptation.performance("w")[0] >= needed * (1 - 1e-9)
    back = sum(cores for _, node, cores in adaptation.keys["w"] if node == "quick-1")
    assert sum(cores for _, cores in new) == pytest.approx(back)  # as it has on the node that is back


def test_a_workload_that_lacks_nodes_alone_is_said_one_more_replica() -> None:
    nodes = cluster({"quick": 2})
    adaptation = started(nodes, ask("w", 100, nodes, spread=Spread.NODE, min_nodes=2))
    adaptation.nodes_lost(["quick-1"], 0.0)
    assert len(adaptation.on_new_nodes()["w"]) == 1


def test_a_replica_that_stands_elsewhere_counts_there() -> None:
    nodes = cluster({"quick": 1, "slow": 1})
    adaptation = started(nodes, ask("w", 400, nodes))
    [(key, (node, cores))] = where(adaptation).items()
    assert node == "quick-0"
    before = adaptation.performance("w")[0]
    adaptation.stands("w", key, "slow-0")
    assert where(adaptation) == {key: ("slow-0", cores)}
    assert adaptation.performance("w")[0] == pytest.approx(before / 2)
    assert adaptation.nodes_lost(["quick-0"], 0.0) == []
