"""Exact placement: what may stand on a node, headroom, and the result where nothing can be placed."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from kwiken.allocator.placement.headroom import Caution
from kwiken.allocator.placement.node_ledger import NodeLedger
from kwiken.allocator.placement.request import PlacementRequest
from kwiken.allocator.placement.sizing import Sizing
from kwiken.allocator.workloads.workload import Spread
from kwiken.base.errors import InputError
from papers.worlds.schedulers.exact import solve
from papers.worlds.schedulers.names import scheduler
from tests.support.allocation.filled_ledger import fill
from tests.support.runtime.clusters import cluster, over_sources, profile, requested

NODES = cluster({"cheap": 1, "dear": 1})


def asked(
    name: str = "new",
    *,
    tolerated: float = 1.0,
    caused: float = 0.0,
    promised: bool = True,
    spread: Spread = Spread.NODE,
) -> PlacementRequest:
    """Workload that one replica serves, for 1 an hour on the first node and 2 on the second."""
    about = profile(
        {1: 1e3},
        {"cheap": 1.0, "dear": 1.0},
        name=name,
        tolerated=over_sources(1.0, disk=tolerated),
        caused=over_sources(0.0, disk=caused),
    )
    found = requested(1e3 if promised else None, about, NODES, spread=spread)
    found.cost[:] = [[1.0, 2.0]]
    return found


@dataclass(frozen=True)
class Case:
    """Workloads, what stands on the first node, and the node of each workload."""

    new: list[PlacementRequest]
    there: list[PlacementRequest]
    nodes: list[int]


CASES = {
    "pressure beyond all that probes exert, for work that tolerates all": Case(
        [asked(tolerated=1.0)],
        [asked("a", caused=0.6, promised=False), asked("b", caused=0.6, promised=False)],
        [0],
    ),
    "pressure of others, for work that causes none": Case(
        [asked(tolerated=0.6)], [asked("a", caused=0.7, promised=False)], [1]
    ),
    "pressure of others that is just tolerated": Case(
        [asked(tolerated=0.7, caused=0.2)], [asked("a", caused=0.7, promised=False)], [0]
    ),
    "a resident that tolerates less": Case([asked(caused=0.3)], [asked("a", tolerated=0.2)], [1]),
    "a resident that tolerates as much": Case([asked(caused=0.3)], [asked("a", tolerated=0.3)], [0]),
    "a resident whose promise is broken already": Case(
        [asked(caused=0.1)],
        [asked("a", tolerated=0.2), asked("b", caused=0.3, promised=False)],
        [1],
    ),
    "a resident whose promise is broken already, and work that causes nothing": Case(
        [asked()],
        [asked("a", tolerated=0.2), asked("b", caused=0.3, promised=False)],
        [0],
    ),
    "a neighbour that is loud": Case(
        [asked("loud", caused=0.5), asked("quiet", tolerated=0.4)], [], [-1, -1]
    ),
    "a resident that the loud one of two harms": Case(
        [asked("quiet"), asked("loud", caused=0.5)], [asked("a", tolerated=0.1)], [0, 1]
    ),
    "pressure that one of two tolerates": Case(
        [asked("delicate", tolerated=0.5), asked("loud", caused=0.4)],
        [asked("a", caused=0.9, promised=False)],
        [1, 0],
    ),
    "pressure that neither of two tolerates": Case(
        [asked("delicate", tolerated=0.5), asked("quiet", tolerated=0.8)],
        [asked("a", caused=0.9, promised=False)],
        [1, 1],
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_an_exact_placement_keeps_what_newcomers_and_residents_tolerate(case: Case) -> None:
    """The first node is the cheaper one; -1 stands for either, where each needs its own."""
    ledger = NodeLedger(NODES)
    for one in case.there:
        Sizing(one, ledger).add(0, 0)
    found = solve(case.new, ledger)
    nodes = [int(counts[:, 0].argmax()) for counts in found.counts]
    assert all(counts.sum() == 1 for counts in found.counts)
    if -1 in case.nodes:
        assert sorted(nodes) == [0, 1]
    else:
        assert nodes == case.nodes
    assert found.cost == pytest.approx(sum(1.0 + node for node in nodes))


@pytest.mark.parametrize(
    ("free_cores", "node"), [(1.0, 0), (1 - 1e-10, 0), (1 - 1e-7, 1), (0.9, 1), (0.0, 1), (-3.0, 1)]
)
def test_an_exact_placement_takes_nothing_of_a_node_without_room(free_cores: float, node: int) -> None:
    """The first node may be sold beyond its cores; a replica has one core.

    The solver itself would take a core for one that is short by less than a millionth.
    """
    ledger = fill(NodeLedger(NODES), free_cores=[free_cores, NODES.cores[1]])
    for spread in (Spread.NODE, Spread.NONE):
        found = solve([asked(spread=spread)], ledger)
        assert [counts.sum(axis=1).tolist() for counts in found.counts] == [[1.0 - node, float(node)]]


def test_an_exact_placement_keeps_within_the_memory_of_a_node() -> None:
    about = profile({1: 1e3}, {"cheap": 1.0, "dear": 1.0})
    request = requested(3e3, about, NODES, spread=Spread.NONE, memory_gb=32.0)
    request.cost[:] = [[1.0, 2.0]]
    assert solve([request], NodeLedger(NODES)).counts[0].tolist() == [[2.0], [1.0]]


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=10, deadline=None)
def test_replicas_of_one_size_and_class_are_as_many_as_their_headroom_asks_for(seed: int) -> None:
    rng = np.random.default_rng(seed)
    nodes = cluster({"top": 8})
    caution = Caution(confidence=0.9, later_loss=0.1)
    about = profile({2: 4e3}, {"top": 1.0}, efficiency=np.sort(rng.uniform(0.7, 1.0, 8))[::-1])
    drawn = requested(float(rng.uniform(4e3, 16e3)), about, nodes, caution=caution)
    request = replace(
        drawn,
        base_deviation=float(rng.uniform(0, 0.2)),
        size_deviation=rng.uniform(0, 0.3, 1),
        class_deviation=rng.uniform(0, 0.3, 1),
        count_deviation=rng.uniform(0, 0.3, 8),
    )
    enough = []
    for count in range(1, 9):
        errors = [request.base_deviation, request.size_deviation[0], request.class_deviation[0]]
        deviation = float(np.linalg.norm([*errors, request.count_deviation[count - 1]]))
        performance = count * request.efficiency[count - 1] * request.rate[0, 0] * 0.9
        if performance >= request.required * (1.0 + caution.headroom(deviation)):
            enough.append(count)
    found = solve([request], NodeLedger(nodes))
    assert found.counts[0].sum() == (enough[0] if enough else 0)
    assert found.cost == pytest.approx(enough[0] * request.cost[0, 0] if enough else np.inf)


def test_without_time_nothing_is_placed_and_the_bound_is_below_the_least_cost() -> None:
    """The bound is infinite only where the targets cannot be met."""
    request = asked()
    request.cost[:] = 0.01
    found = solve([request], NodeLedger(NODES), time_limit_s=0.0)
    assert found.cost == np.inf
    assert 0.0 <= found.bound <= 0.01
    assert [counts.tolist() for counts in found.counts] == [[[0.0], [0.0]]]
    assert solve([replace(request, required=1e9)], NodeLedger(NODES)).bound == np.inf


def test_exact_placement_takes_20_000_variables_at_most() -> None:
    """One each for a node and a size, for a node, and for a number of replicas, of every workload."""
    nodes = cluster({"top": 2499})
    one = requested(1e3, profile({1: 1e3}, {"top": 1.0}), nodes, max_replicas=5)
    two = requested(1e3, profile({1: 1e3, 2: 2e3}, {"top": 1.0}, name="two"), nodes, max_replicas=2)
    three = replace(two, efficiency=two.efficiency[:1])
    ledger = NodeLedger(nodes)
    assert solve([one, two, three], ledger, time_limit_s=0.0).cost == np.inf
    with pytest.raises(InputError, match="at most 20000 variables; these are 20001"):
        solve([one, two, two], ledger, time_limit_s=0.0)


def test_an_exact_placement_moves_nothing_that_runs() -> None:
    sizing = Sizing(asked(), NodeLedger(NODES))
    scheduler("exact").place(sizing)
    assert [one.node for one in sizing.replicas] == [0]
    with pytest.raises(InputError, match="moves nothing that runs"):
        scheduler("exact").place(sizing)


def test_best_effort_work_gets_its_most_replicas_on_the_best_ranked_nodes() -> None:
    nodes = cluster({"low": 1, "top": 2})
    request = requested(None, profile({1: 1e3}, {"low": 0.5, "top": 1.0}), nodes, max_replicas=2)
    sizing = Sizing(request, NodeLedger(nodes))
    scheduler("exact").place(sizing)
    assert [one.node for one in sizing.replicas] == [1, 2]


def test_an_exact_placement_fills_a_node_with_small_replicas() -> None:
    about = profile({0.5: 1e3}, {"cheap": 1.0, "dear": 1.0})
    request = requested(17e3, about, NODES, spread=Spread.NONE)
    request.cost[:] = [[1.0, 2.0]]
    assert solve([request], NodeLedger(NODES)).counts[0].tolist() == [[16.0], [1.0]]
