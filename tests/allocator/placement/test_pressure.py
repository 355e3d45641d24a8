"""Pressure by size, load and class: data from outside, bounds of physics, and documents of before."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from kwiken.allocator.placement.headroom import Caution
from kwiken.allocator.placement.node_ledger import NodeLedger
from kwiken.allocator.placement.order import admit_all
from kwiken.allocator.placement.quality import NO_SIZE, contention_on
from kwiken.allocator.placement.request import request_for
from kwiken.allocator.placement.shared_trial import SharedNodesTrial
from kwiken.allocator.placement.sizing import Sizing
from kwiken.allocator.schedulers.names import SCHEDULERS, scheduler
from kwiken.allocator.workloads.profile import profiles_from_json, profiles_to_json
from kwiken.allocator.workloads.sources import SOURCES
from kwiken.allocator.workloads.workload import Spread, workloads_from_toml
from kwiken.base.errors import InputError
from kwiken.model.nodes.document import nodes_from_toml
from kwiken.model.nodes.nodes import Cluster, Node, NodeClass
from tests.support.data.public_files import public_file
from tests.support.runtime.clusters import cluster, over_sources, profile, requested

BANDWIDTH = SOURCES.index("memory-bandwidth")
PER_CORE = 0.1  # share of the node's memory bandwidth that one busy core uses, of the data in size-caused


@pytest.mark.parametrize("name", list(SCHEDULERS))
def test_no_more_bandwidth_is_promised_than_a_node_has(name: str) -> None:
    """Three replicas of eight cores on one node were promised, which ask for 2.4 times its bandwidth."""
    nodes, text, found = (public_file(f"size-caused/{each}") for each in ("nodes.toml", "w.toml", "p.json"))
    machines = nodes_from_toml(nodes.read_bytes(), where="nodes")
    profiles = profiles_from_json(found.read_bytes(), where="profiles")
    workloads = workloads_from_toml(text.read_bytes(), where="workloads")
    requests = [request_for(*pair, machines, Caution()) for pair in zip(workloads, profiles, strict=True)]
    ledger = NodeLedger(machines)
    placed = admit_all(requests, ledger, scheduler(name))
    asked = np.zeros(len(machines.nodes))
    for one in placed:
        for replica in one.sizing.replicas if one.sizing.meets() else ():
            asked[replica.node] += PER_CORE * one.request.cores[replica.size]
    assert (asked <= 1.0).all()
    # Put there by hand, three replicas have together what one node has, and no target is met.
    crowd = Sizing(replace(requests[0], spare=0.0, rate=requests[0].capacity), NodeLedger(machines))
    for _ in range(3):
        crowd.add(0, 1)
    assert crowd.performance() <= 3 * 800 / 2.4
    assert not crowd.meets()


def test_a_larger_replica_presses_more_and_tolerates_less() -> None:
    nodes = cluster({"top": 1}, cores=32)
    about = profile(
        {1: 1e3, 4: 4e3, 8: 8e3},
        {"top": 1.0},
        tolerated=over_sources(1.0, disk=0.3),
        caused=over_sources(0.0, disk=0.8),
    )
    request = requested(8e3, about, nodes, spread=Spread.NONE)
    disk = SOURCES.index("disk")
    assert request.pressure[disk, :, 0] == pytest.approx([0.1, 0.4, 0.8])
    assert request.tolerance[disk, 2, 0] == pytest.approx(0.3)  # as measured, of the reference size
    eighth = replace(about, base=1e3, up=replace(about.up, mean=about.up.mean - about.up.mean[0]))
    eighth = replace(eighth, caused=over_sources(0.0, disk=0.1))
    grown = requested(8e3, eighth, nodes, spread=Spread.NONE)
    assert grown.pressure == pytest.approx(request.pressure)
    assert grown.tolerance[disk, :, 0] == pytest.approx([0.3, 0.3 * 0.6 / 0.9, 0.3 * 0.2 / 0.9])


def test_growing_in_place_is_held_to_what_neighbours_bear_and_not_to_the_own_tolerance() -> None:
    nodes = cluster({"top": 1}, cores=32)
    loud = profile({1: 1e3, 4: 4e3}, {"top": 1.0}, caused=over_sources(0.0, disk=0.8))
    for bears, room in ((0.85, True), (0.75, False)):
        ledger = NodeLedger(nodes)
        quiet = profile({1: 1e3}, {"top": 1.0}, name="quiet", tolerated=over_sources(1.0, disk=bears))
        sizing = Sizing(requested(4e3, loud, nodes, spread=Spread.NONE), ledger)
        trial = SharedNodesTrial(sizing)
        Sizing(requested(1e3, quiet, nodes), ledger).add(0, 0)
        for one in (SharedNodesTrial(sizing), sizing):
            one.add(0, 0)
            assert one.has_room(0, 1) == room
        assert trial.next_on(0, None)[0] != NO_SIZE


def test_use_presses_and_a_reservation_does_not() -> None:
    """At half the load a replica does half the work, where performance is a capacity."""
    nodes = cluster({"top": 1})
    about = profile({1: 1e3}, {"top": 1.0}, caused=over_sources(0.0, disk=0.4))
    request = replace(requested(500.0, about, nodes), spare=100.0)
    half = request.at_load(200.0)
    assert half.pressure == pytest.approx(request.pressure * (200 / 300) / (500 / 600))


def test_the_same_use_is_a_smaller_share_of_more() -> None:
    """In GB/s and in cores: a class twice as quick moves twice the bytes, and has four times the bandwidth."""
    classes = (
        NodeClass(name="small", cores=4, memory_gb=8, has={"memory-bandwidth": 20.0}),
        NodeClass(name="large", cores=16, memory_gb=32, has={"memory-bandwidth": 80.0}),
        NodeClass(name="plain", cores=4, memory_gb=8),
    )
    nodes = Cluster(classes, tuple(Node(one.name, one.name) for one in classes))
    about = profile(
        {1: 1e3},
        {"small": 1.0, "large": 2.0, "plain": 1.0},
        caused=over_sources(0.0, **{"memory-bandwidth": 0.2, "cpu-int": 0.25, "disk": 0.1}),
    )
    stated = requested(1e3, replace(about, reference_class="small"), nodes)
    assert stated.pressure[BANDWIDTH, 0] == pytest.approx([0.2, 0.2 * 2 / 4, 0.2])
    assert stated.pressure[SOURCES.index("cpu-int"), 0] == pytest.approx([0.25, 0.25 / 4, 0.25])
    assert stated.pressure[SOURCES.index("disk"), 0] == pytest.approx([0.1] * 3)
    before = requested(1e3, about, nodes)  # of a document that does not state the class
    assert before.pressure[:, 0] == pytest.approx(np.repeat(about.caused.mean[:, None], 3, axis=1))


def test_an_amount_of_no_known_source_is_refused() -> None:
    nodes = Cluster((NodeClass(name="top", cores=4, memory_gb=8, has={"disc": 1.0}),), (Node("n", "top"),))
    with pytest.raises(InputError, match=r"class 'top': has: no source 'disc'; known: cpu-int"):
        requested(1e3, profile({1: 1e3}, {"top": 1.0}), nodes)
    with pytest.raises(ValueError, match=r"has.disk must be a finite number above 0"):
        NodeClass(name="top", cores=4, memory_gb=8, has={"disk": 0.0})


def test_a_profile_tells_its_reference_class_and_one_of_before_is_read() -> None:
    about = replace(profile({1: 1e3}, {"top": 1.0}), reference_class="top")
    text = profiles_to_json((about,))
    assert profiles_from_json(text, where="p")[0].reference_class == "top"
    raw = json.loads(text)
    del raw["profiles"][0]["reference_class"]
    assert profiles_from_json(json.dumps(raw), where="p")[0].reference_class == ""


@pytest.mark.parametrize(
    ("kept_free", "pressed", "taken"),
    [(0.05, 0.5, True), (0.05, 0.52, False), (0.2, 0.64, True), (0.2, 0.66, False)],
)
def test_neighbours_are_let_in_up_to_the_loss_that_is_bought(
    kept_free: float, pressed: float, taken: bool
) -> None:
    """Both ways round: as a newcomer beside pressure, and as a resident beside which pressure comes."""
    nodes = cluster({"top": 1}, cores=32)
    caution = Caution(confidence=0.5, later_loss=kept_free)
    quiet = profile({1: 1e3}, {"top": 1.0}, name="quiet", tolerated=over_sources(1.0, disk=0.5))
    loud = profile({1: 1e3}, {"top": 1.0}, name="loud", caused=over_sources(0.0, disk=pressed))
    for first, second in ((quiet, loud), (loud, quiet)):
        ledger = NodeLedger(nodes)
        there, comes = (
            Sizing(requested(1e3 * (1 - kept_free), one, nodes, caution=caution, spread=Spread.NONE), ledger)
            for one in (first, second)
        )
        there.add(0, 0)
        assert [one.next_on(0, None)[0] == 0 for one in (comes, SharedNodesTrial(comes))] == [taken] * 2
        if taken:  # and the capacity that was bought is enough beside one another
            comes.add(0, 0)
            there.refresh()
            assert there.meets()
            assert comes.meets()


def test_the_largest_size_that_neighbours_bear_is_ranked() -> None:
    nodes = cluster({"top": 2}, cores=32)
    ledger = NodeLedger(nodes)
    quiet = profile({1: 1e3}, {"top": 1.0}, name="quiet", tolerated=over_sources(1.0, disk=0.3))
    Sizing(requested(1e3, quiet, nodes), ledger).add(0, 0)
    loud = profile({1: 1e3, 4: 4e3}, {"top": 1.0}, caused=over_sources(0.0, disk=0.8))
    request = requested(8e3, loud, nodes)
    assert contention_on(request, ledger).refused.tolist() == [[False, False], [True, False]]
    assert [Sizing(request, ledger).next_on(node, None)[0] for node in (0, 1)] == [0, 1]
