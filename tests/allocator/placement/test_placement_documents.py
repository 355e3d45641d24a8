"""Documents: nodes in TOML and placements in JSON, with every refusal."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, strategies as st

from kwiken.allocator.placement.headroom import SOURCE_CAUTION
from kwiken.allocator.placement.node_ledger import NodeLedger
from kwiken.allocator.placement.order import admit_all
from kwiken.allocator.placement.placement_document import document
from kwiken.allocator.placement.request import request_for
from kwiken.allocator.placement.sizing import Sizing
from kwiken.allocator.workloads.workload import Measure
from kwiken.base.errors import InputError
from kwiken.model.nodes.document import nodes_from_toml
from kwiken.model.nodes.nodes import Cluster, Node, NodeClass
from kwiken.model.nodes.placement import Placement
from papers.worlds.schedulers.names import scheduler
from tests.support.allocation.stated_length import StatedLength
from tests.support.runtime.clusters import cluster, profile, requested, workload

NODES = """
[[classes]]
name = "large"
cores = 16
memory_gb = 64
[[nodes]]
name = "one"
class = "large"
zone = "a"
[[nodes]]
name = "more"
class = "large"
count = 2
"""


def test_nodes_are_read_in_order_with_counts() -> None:
    found = nodes_from_toml(NODES, where="nodes.toml")
    assert [node.name for node in found.nodes] == ["one", "more-1", "more-2"]
    assert found.zone_of(0) == "a"
    assert found.zone_of(1) != found.zone_of(2)
    assert found.cores.tolist() == [16, 16, 16]
    assert found.cost(0, 16, 64) == 16


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("cores = 16", "cores = nan", r"classes\[0\]: cores must be a finite number above 0"),
        ("cores = 16", "cores = -1", r"classes\[0\]: cores must be a finite number above 0"),
        ("cores = 16", "cores = 5e-324", r"classes\[0\]: cores must be from 1e-06 to 4096, not 5e-324"),
        ("cores = 16", "cores = 16\ncost_per_hour = 1e308", "cost_per_hour must be from 1e-06 to 1e"),
        ("memory_gb = 64", "memory_gb = inf", r"classes\[0\]: memory_gb must be a finite number"),
        ("cores = 16", "cores = 16\nspeed = -1", r"classes\[0\]: speed must be a finite number above 0"),
        ("cores = 16", "cores = 16\nspeed = nan", r"classes\[0\]: speed must be"),
        ("cores = 16", "cores = 16\ncost_per_hour = 0", "cost_per_hour must be"),
        ("cores = 16\n", "", r"classes\[0\]: missing required field `cores`"),
        ("cores = 16", "cores = 16\ncolour = 1", "unknown field `colour`"),
        (
            'class = "large"\nzone',
            'class = "huge"\nzone',
            r"nodes\[0\]\.class: no class 'huge'; known: large",
        ),
        ('name = "more"', 'name = "one"\nzone = "b"', "count"),
        ("count = 2", "count = 0", r"nodes\[1\]\.count"),
        ("count = 2", "count = 100000", "more than 100000 nodes"),
        ('zone = "a"', 'zone = "a', "broken TOML"),
        ('zone = "a"', 'zone = "a"\nzone = "b"', "broken TOML"),
    ],
)
def test_bad_nodes_are_refused(old: str, new: str, problem: str) -> None:
    text = NODES.replace(old, new)
    if problem == "count":
        text = text.replace("count = 2\n", "")
        problem = r"nodes\[1\]\.name: 'one' is given twice"
    with pytest.raises(InputError, match=f"nodes.toml: .*{problem}|nodes.toml: {problem}"):
        nodes_from_toml(text, where="nodes.toml")


@pytest.mark.parametrize(
    ("classes", "nodes", "problem"),
    [
        (("top",), (("a", "top"), ("b", "top"), ("a", "top")), "cluster: the node 'a' is given twice"),
        (("top", "low", "top"), (("a", "top"),), "cluster: the class 'top' is given twice"),
        (
            ("top", "low"),
            (("a", "top"), ("b", "fast")),
            "cluster: node 'b' has no class 'fast'; known: top, low",
        ),
    ],
)
def test_a_cluster_refuses_names_given_twice_and_unknown_classes(
    classes: tuple[str, ...], nodes: tuple[tuple[str, str], ...], problem: str
) -> None:
    kinds = tuple(NodeClass(name=name, cores=1, memory_gb=1) for name in classes)
    with pytest.raises(InputError) as caught:
        Cluster(kinds, tuple(Node(*each) for each in nodes))
    assert str(caught.value) == problem


def test_costs_are_given_for_all_classes_or_none() -> None:
    more = NODES + '[[classes]]\nname = "b"\ncores = 1\nmemory_gb = 1\ncost_per_hour = 2.0\n'
    with pytest.raises(InputError, match=r"classes\[1\]\.cost_per_hour: give one for every class"):
        nodes_from_toml(more, where="n")


def test_a_class_that_a_profile_does_not_know_needs_a_speed() -> None:
    about = profile({1: 1e3}, {"old": 1.0})
    with pytest.raises(InputError, match=r"workload 'w': .*knows the classes old, and not 'large'; .*speed"):
        request_for(workload(1e3), about, nodes_from_toml(NODES, where="n"), SOURCE_CAUTION)
    fast = nodes_from_toml(NODES.replace("cores = 16", "cores = 16\nspeed = 2"), where="n")
    found = request_for(workload(1e3), about, fast, SOURCE_CAUTION)
    assert found.rate.tolist() == [[2e3]]
    assert found.class_deviation[0] > 0


def test_target_and_profile_must_have_one_unit() -> None:
    about = profile({1: 1e3}, {"large": 1.0})
    object.__setattr__(about, "measure", Measure.IPS)
    with pytest.raises(InputError, match="workload 'w': its target is in rate and its profile in ips"):
        request_for(workload(1e3), about, nodes_from_toml(NODES, where="n"), SOURCE_CAUTION)


def placed() -> Placement:
    nodes = cluster({"top": 3}, zones=2)
    asked = [
        requested(20e3, profile({4: 11e3, 8: 20e3}, {"top": 1.0}, name="a"), nodes),
        requested(None, profile({2: 6e3}, {"top": 1.0}, name="b"), nodes),
        requested(1e6, profile({2: 6e3}, {"top": 1.0}, name="c"), nodes),
    ]
    found = admit_all(asked, NodeLedger(nodes), scheduler("quasar"))
    return document(nodes, found, scheduler="quasar", confidence=0.5)


def test_a_placement_is_read_as_it_was_written() -> None:
    placement = placed()
    assert Placement.from_json(placement.to_json(), where="p") == placement
    met, filler, waiting = placement.workloads
    assert (met.nearest, met.nearest_empty) == (0.0, 0.0)
    assert (filler.required, filler.needed, filler.probability) == (0.0, 0.0, 1.0)
    assert waiting.status == "queued"
    assert waiting.nearest == pytest.approx(12e3)  # two nodes with room
    assert waiting.nearest_empty == pytest.approx(18e3)


def edited(change: Callable[[Any], object]) -> str:
    raw = json.loads(placed().to_json())
    change(raw)
    return json.dumps(raw)


def replica_of(raw: Any, **fields: float) -> Any:
    """The first replica with other numbers; all memory of its node for cores that are as good as none."""
    return raw["workloads"][0]["replicas"][0] | ({"memory_gb": 64.0} if fields else {}) | fields


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda raw: raw.update(version=2), "version must be 1, not 2"),
        (lambda raw: raw.update(more=1), "unknown field `more`"),
        (lambda raw: raw["workloads"][0].update(status="fine"), r"workloads\[0\]\.status"),
        (lambda raw: raw["workloads"][0].update(name="b"), r"workloads\[1\]\.name: 'b' is given twice"),
        (lambda raw: raw["workloads"][0]["replicas"][0].update(node="x"), "no node 'x' in the document"),
        (lambda raw: raw["workloads"][0]["replicas"][0].update(cores=9), "node 'top-0' has no room for it"),
        (
            lambda raw: raw["workloads"][0]["replicas"][0].update(reissue_cores=1),
            "'top-0' has no room for it",
        ),
        (
            lambda raw: raw["workloads"][0]["replicas"][0].update(catch_up_cores=1),
            "'top-0' has no room for it",
        ),
        (lambda raw: raw["workloads"][0]["replicas"].append(replica_of(raw)), "'top-0' has no room for it"),
        (
            lambda raw: raw["workloads"][0]["replicas"].append(replica_of(raw, cores=1e-9)),
            "'top-0' has no room",
        ),
        (lambda raw: raw["workloads"][0]["replicas"][0].update(cores=-1), r"replicas\[0\]\.cores"),
        (lambda raw: raw["nodes"][1].update(name="top-0"), r"nodes\[1\]\.name: 'top-0' is given twice"),
        (lambda raw: raw["workloads"][0].pop("replicas"), "missing required field `replicas`"),
    ],
)
def test_bad_placements_are_refused(change: Callable[[Any], object], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        Placement.from_json(edited(change), where="p.json")


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    for read in (lambda: nodes_from_toml(text, where="x"), lambda: Placement.from_json(text, where="x")):
        with pytest.raises(InputError, match=r"^x"):
            read()


def test_what_a_placement_leaves_out_is_nothing() -> None:
    raw = json.loads(placed().to_json())
    (workload,) = raw["workloads"] = raw["workloads"][:1]
    for field in ("service", "stage", "spread", "nearest", "nearest_empty", "evicted"):
        workload.pop(field, None)
    for replica in workload["replicas"]:
        replica.update(cores=0.5, memory_gb=0.25)
        for field in ("reissue_cores", "catch_up_cores"):
            replica.pop(field, None)
    (found,) = Placement.from_json(json.dumps(raw), where="p.json").workloads
    assert (found.service, found.stage, found.spread, found.evicted) == ("", "", "none", {})
    assert (found.nearest, found.nearest_empty) == (0.0, 0.0)
    assert {(one.cores, one.memory_gb) for one in found.replicas} == {(0.5, 0.25)}
    assert all((one.reissue_cores, one.catch_up_cores) == (0.0, 0.0) for one in found.replicas)


@pytest.mark.parametrize(
    ("more", "problem"), [(0, "is not UTF-8 text"), (1, "is larger than 268435456 bytes")]
)
def test_a_document_of_more_than_256_mib_is_refused(more: int, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        Placement.from_json(StatedLength(b"\xff", (256 << 20) + more), where="p.json")


def test_a_placement_tells_how_many_replicas_of_each_workload_made_room() -> None:
    nodes = cluster({"top": 2})
    ledger = NodeLedger(nodes)
    small, large = (
        Sizing(requested(None, profile({cores: 1e3}, {"top": 1.0}, name=name), nodes), ledger)
        for name, cores in (("small", 4), ("large", 8))
    )
    for sizing, nodes_of in ((small, (0, 0)), (large, (1,))):
        for node in nodes_of:
            sizing.add(node, 0)
    new = requested(30e3, profile({8: 20e3}, {"top": 1.0}, name="new"), nodes)
    found = admit_all([new], ledger, scheduler("quasar"), [small, large])
    (told,) = document(nodes, found, scheduler="quasar", confidence=0.5).workloads
    assert told.evicted == {"small": 2, "large": 1}
