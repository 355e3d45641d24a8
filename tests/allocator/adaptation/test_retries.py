"""Starts that failed: where and when they are tried again, and when a failure is forgotten."""

from __future__ import annotations

from kwiken.allocator.adaptation.actions import Resize, Shortage, Start
from kwiken.allocator.adaptation.adaptation import Adaptation
from tests.allocator.adaptation.test_adaptation import ask, seen, started, where
from tests.support.runtime.clusters import cluster

LOAD = 400.0
MISSED = seen(50.0, LOAD)


def tried_again(nodes: int = 2) -> Adaptation:
    """A workload whose only replica could not be started at 0 s, and was placed again at 20 s."""
    there = cluster({"quick": nodes})
    adaptation = started(there, ask("w", LOAD, there))
    (key,) = where(adaptation)
    assert adaptation.start_failed("w", key, 0.0) == []
    (start,) = adaptation.observe(20.0, {})
    assert isinstance(start, Start)
    return adaptation


def test_after_a_start_that_went_well_the_next_failure_waits_20_s_again() -> None:
    adaptation = tried_again()
    assert adaptation.observe(60.0, {}) == []  # the replica runs
    (key,) = where(adaptation)
    adaptation.start_failed("w", key, 1000.0)
    assert adaptation.observe(1019.0, {}) == []
    assert [type(one) for one in adaptation.observe(1020.0, {})] == [Start]


def test_a_second_start_is_given_20_s_to_show() -> None:
    adaptation = tried_again()
    for now_s in (25.0, 30.0, 35.0, 39.0, 43.0):
        assert adaptation.observe(now_s, {"w": MISSED}) == []
    assert adaptation.observe(48.0, {"w": MISSED}) != []


def test_a_start_that_went_well_is_no_change_that_a_miss_has_to_wait_for() -> None:
    """The pause of the second start ends at 60 s, when the replica has long run."""
    adaptation = tried_again()
    assert adaptation.observe(55.0, {"w": MISSED}) == []
    assert [type(one) for one in adaptation.observe(60.0, {"w": MISSED})] == [Resize]


def test_a_start_is_tried_on_the_same_node_where_there_is_no_other() -> None:
    adaptation = tried_again(nodes=1)
    assert {node for node, _ in where(adaptation).values()} == {"quick-0"}


def test_a_start_is_tried_on_the_same_node_for_what_the_others_have_no_room_for() -> None:
    """Each node has room for half of the load: one replica goes back to where it could not be started."""
    nodes = cluster({"quick": 2})
    adaptation = started(nodes, ask("w", 1600, nodes))
    (failed, *_) = (key for key, (node, _) in where(adaptation).items() if node == "quick-1")
    adaptation.start_failed("w", failed, 0.0)
    (start,) = adaptation.observe(20.0, {})
    assert isinstance(start, Start)
    assert start.node == "quick-1"
    assert start.reason == "a replica could not be started on quick-1"


def test_a_shortage_that_a_failed_start_leaves_is_told() -> None:
    """A job has taken the room meanwhile."""
    nodes = cluster({"quick": 1})
    adaptation = started(nodes, ask("w", LOAD, nodes))
    (key,) = where(adaptation)
    adaptation.start_failed("w", key, 0.0)
    rooms = adaptation.job_room({"quick-0": 1.0})
    rooms.take("job", "quick-0", 8.0, 1.0, {})
    (short,) = adaptation.observe(20.0, {})
    assert isinstance(short, Shortage)
    assert short.reason == (
        "a replica could not be started on quick-0; 400/s are needed, and the nodes can give 0/s"
    )
    rooms.release("job")
    assert adaptation.observe(59.0, {}) == []
    assert [type(one) for one in adaptation.observe(60.0, {})] == [Start]


def test_best_effort_work_that_could_not_be_started_is_not_tried_again() -> None:
    nodes = cluster({"quick": 1})
    adaptation = started(nodes, ask("batch", None, nodes, max_replicas=1))
    (key,) = where(adaptation, "batch")
    assert adaptation.start_failed("batch", key, 0.0) == []
    for window in range(30):
        assert adaptation.observe(5.0 * window, {}) == []
    assert where(adaptation, "batch") == {}
