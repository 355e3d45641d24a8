"""Anti-affinity: open nodes and the most replicas, beside every choice of nodes that the rule allows."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from kwiken.allocator.placement.anti_affinity import AntiAffinity
from kwiken.allocator.workloads.workload import Spread
from kwiken.model.nodes.nodes import Cluster, Node, NodeClass
from papers.worlds.schedulers.exact import large_groups


def nodes_in(zones: list[str]) -> Cluster:
    nodes = tuple(Node(f"n{place}", "c", zone) for place, zone in enumerate(zones))
    return Cluster((NodeClass(name="c", cores=1.0, memory_gb=1.0),), nodes)


def allowed(spread: Spread, zones: list[str], where: tuple[int, ...]) -> bool:
    """Whether replicas on some nodes, one each, keep the rule; a node without a zone is alone in its own."""
    named = [zones[node] for node in where if zones[node]]
    return spread is not Spread.ZONE or len(set(named)) == len(named)


ZONES = st.lists(st.sampled_from(["", "a", "b", "c"]), min_size=1, max_size=6)


@pytest.mark.parametrize("spread", Spread)
@given(zones=ZONES, data=st.data())
def test_a_node_is_open_if_one_more_replica_there_keeps_the_rule(
    spread: Spread, zones: list[str], data: st.DataObject
) -> None:
    everywhere = range(len(zones))
    occupied: list[int] = []
    for node in data.draw(st.lists(st.sampled_from(everywhere), unique=True)):
        if allowed(spread, zones, (*occupied, node)):
            occupied.append(node)
    found = AntiAffinity(spread, nodes_in(zones)).open_nodes(occupied)
    for node in everywhere:
        again = node in occupied and spread is not Spread.NONE
        others = tuple({*occupied, node})
        assert found[node] == (not again and allowed(spread, zones, others))


@pytest.mark.parametrize("spread", Spread)
@given(zones=ZONES, data=st.data())
def test_the_most_replicas_are_those_of_the_largest_choice_that_is_allowed(
    spread: Spread, zones: list[str], data: st.DataObject
) -> None:
    fitting = data.draw(st.lists(st.integers(0, 3), min_size=len(zones), max_size=len(zones)))
    places = [place for place, count in enumerate(fitting) if count]
    choices = [
        where
        for count in range(len(places) + 1)
        for where in combinations(places, count)
        if allowed(spread, zones, where)
    ]
    most = max(len(where) for where in choices)
    anti_affinity = AntiAffinity(spread, nodes_in(zones))
    found = anti_affinity.most_replicas(np.arange(len(zones)), np.array(fitting, dtype=np.float64))
    assert found == (sum(fitting) if spread is Spread.NONE else most)


def test_only_zones_make_groups_of_several_nodes() -> None:
    nodes = nodes_in(["a", "", "a", "b"])
    assert large_groups(AntiAffinity(Spread.ZONE, nodes)) == [[0, 2]]
    assert large_groups(AntiAffinity(Spread.NODE, nodes)) == []
    assert large_groups(AntiAffinity(Spread.NONE, nodes)) == []
