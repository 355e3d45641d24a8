"""Room for jobs in the ledger of an adaptation: taken beside replicas, given back, and not on lost nodes."""

from __future__ import annotations

import pytest

from kwiken.allocator.adaptation.adaptation import Adaptation
from kwiken.allocator.adaptation.job_room import JobRoom
from kwiken.allocator.placement.node_ledger import NodeLedger
from kwiken.allocator.placement.order import admit_all
from kwiken.allocator.placement.placement_document import document
from kwiken.allocator.schedulers.names import scheduler
from kwiken.model.nodes.nodes import Cluster, Node, NodeClass
from tests.support.runtime.clusters import cluster as cluster_of, over_sources, profile, requested

THRIFTY = scheduler("thrifty")


def adapted(tolerated: float = 1.0) -> tuple[Adaptation, JobRoom, dict[str, float]]:
    """One replica on one of two nodes; room for jobs, and the free cores by node."""
    nodes = cluster_of({"quick": 1, "slow": 1}, cores=4)
    found = profile({1: 100.0}, {"quick": 1.0, "slow": 0.5}, tolerated=over_sources(tolerated))
    request = requested(80.0, found, nodes)
    placement = document(
        nodes,
        admit_all([request], NodeLedger(nodes), scheduler("thrifty")),
        scheduler="thrifty",
        confidence=0.5,
    )
    adaptation = Adaptation([request], nodes, placement, scheduler("thrifty"))
    room = adaptation.job_room({"quick-0": 1.0, "slow-0": 0.5})
    return adaptation, room, {one.node: one.cores for one in room.rooms()}


def test_jobs_and_replicas_draw_from_one_ledger() -> None:
    _, room, before = adapted()
    assert sum(before.values()) < 8.0
    assert room.suits("slow-0", before["slow-0"], 0.0, {})
    room.take("job", "slow-0", 2.0, 1.0, {"disk": 0.5})
    assert {one.node: one.cores for one in room.rooms()}["slow-0"] == before["slow-0"] - 2.0
    assert room.nodes == {"slow-0"}
    room.release("job")
    assert {one.node: one.cores for one in room.rooms()} == pytest.approx(before)


def test_what_a_job_held_on_a_lost_node_stays_blocked() -> None:
    adaptation, room, _ = adapted()
    room.take("job", "slow-0", 1.0, 1.0, {})
    adaptation.nodes_lost(["slow-0"], 0.0)
    assert "slow-0" not in {one.node for one in room.rooms()}
    room.release("job")
    assert "slow-0" not in {one.node for one in room.rooms()}
    assert not room.suits("slow-0", 0.5, 0.0, {})
    assert adaptation.prepare(0.0, {"w": 120.0}) != []
    assert {node for _, node, _ in adaptation.keys["w"]} == {"quick-0"}  # and nothing else is placed there
    adaptation.node_back("slow-0")
    assert {one.node: one.cores for one in room.rooms()}["slow-0"] > 0


def test_a_node_could_hold_what_it_has_were_it_empty() -> None:
    _, room, _ = adapted()
    assert room.speed("quick-0") == 1.0
    assert room.speed("slow-0") == 0.5
    assert room.could_hold(4.0, 64.0)
    assert not room.could_hold(4.1, 1.0)
    assert not room.could_hold(1.0, 64.1)


def test_a_job_suits_where_room_is_and_residents_bear_it() -> None:
    _, room, free = adapted(tolerated=0.3)
    assert room.suits("quick-0", free["quick-0"], 1.0, {"disk": 0.3})
    assert not room.suits("quick-0", free["quick-0"], 1.0, {"disk": 0.31})
    assert not room.suits("quick-0", free["quick-0"] + 0.1, 1.0, {})
    assert not room.suits("slow-0", 1.0, 64.1, {})
    assert room.suits("slow-0", 4.0, 64.0, {"disk": 1.0})  # nobody is there
    assert not room.suits("nowhere", 1.0, 1.0, {})


def test_a_job_that_runs_already_takes_what_there_is() -> None:
    _, room, free = adapted()
    room.take("large", "slow-0", 100.0, 1000.0, {})
    assert "slow-0" not in {one.node for one in room.rooms()}
    room.take("more", "slow-0", 1.0, 0.0, {})
    room.release("large")
    left = {one.node: (one.cores, one.memory_gb) for one in room.rooms()}
    assert left["slow-0"] == (free["slow-0"], 64.0)
    assert room.nodes == {"slow-0"}
    room.release("more")
    assert room.nodes == set()


def test_a_node_has_room_while_part_of_a_core_is_free() -> None:
    _, room, _ = adapted()
    room.take("most", "slow-0", 3.5, 1.0, {})
    assert {one.node: one.cores for one in room.rooms()}["slow-0"] == 0.5
    room.take("rest", "slow-0", 0.5, 1.0, {})
    assert "slow-0" not in {one.node for one in room.rooms()}


def test_one_node_that_could_hold_a_job_is_enough() -> None:
    classes = NodeClass(name="large", cores=8, memory_gb=8), NodeClass(name="small", cores=2, memory_gb=16)
    nodes = Cluster(classes, (Node("a", "large"), Node("b", "small")))
    room = Adaptation([], nodes, document(nodes, [], scheduler="t", confidence=0.5), THRIFTY).job_room({})
    assert room.could_hold(8.0, 8.0)
    assert room.could_hold(2.0, 16.0)
    assert not room.could_hold(8.0, 16.0)  # of one node
