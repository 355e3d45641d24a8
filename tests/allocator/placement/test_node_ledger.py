"""The ledger of nodes: sums, slack of residents, and the source's worked examples."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, strategies as st

from kwiken.allocator.placement.node_ledger import Draw, DrawKind, NodeLedger
from kwiken.allocator.placement.sizing import Sizing
from kwiken.allocator.workloads.profile import Size
from kwiken.allocator.workloads.sources import SOURCES
from kwiken.allocator.workloads.workload import Spread
from kwiken.base.arrays import Floats
from tests.support.runtime.clusters import CORES, MEMORY_GB, cluster, profile, requested


def scores(*values: float, rest: float = 0.0) -> Floats:
    return np.array([*values, *[rest] * (len(SOURCES) - len(values))])


def draw(node: int, caused: Floats, tolerated: Floats | None, *, cores: float = 1.0) -> Draw:
    return Draw(DrawKind.REPLICA, "w", node, cores, 1.0, caused, tolerated)


def test_worked_example_of_slack() -> None:
    ledger = NodeLedger(cluster({"top": 1}))
    ledger.take(draw(0, scores(0.1, 0.2, 0.05), scores(0.7, 0.5, 0.9, rest=1)))
    ledger.take(draw(0, scores(0.15, 0.1, 0.3), scores(0.6, 0.8, 0.7, rest=1)))
    np.testing.assert_allclose(ledger.pressure[:3, 0], [0.25, 0.3, 0.35])
    # The residual tolerance: what the most delicate resident tolerates, less what the other one exerts.
    np.testing.assert_allclose(ledger.slack[:3, 0], [0.5, 0.4, 0.6])
    np.testing.assert_allclose(ledger.slack[:3, 0] - [0.3, 0.2, 0.1], [0.2, 0.2, 0.5])


def test_residents_count_what_they_are_exposed_to_already() -> None:
    ledger = NodeLedger(cluster({"top": 1}))
    for _ in range(3):
        ledger.take(draw(0, scores(0.2), scores(0.5, rest=1)))
    newcomer = scores(0.3)
    # By tolerance alone the newcomer would pass, 0.5 against 0.3; each resident would see 0.7.
    assert np.isclose(ledger.slack[0, 0] - newcomer[0], -0.2)
    assert not ledger.bears(0, newcomer)
    assert ledger.bears(0, scores(0.1))


def test_work_without_a_promise_bears_anything() -> None:
    ledger = NodeLedger(cluster({"top": 1}))
    ledger.take(draw(0, scores(0.9, rest=0.9), None))
    assert ledger.bears(0, scores(rest=1.0))


@given(st.lists(st.tuples(st.integers(0, 2), st.booleans(), st.integers(0, 2**32 - 1)), max_size=60))
def test_any_sequence_equals_a_recomputation(steps: list[tuple[int, bool, int]]) -> None:
    ledger = NodeLedger(cluster({"top": 3}))
    changes, last_change = 0, [0, 0, 0]
    for node, leave, seed in steps:
        rng = np.random.default_rng(seed)
        residents = ledger.residents(node)
        if (leave and residents) or ledger.fits(node, 0.7, 3.0):
            changes += 1
            last_change[node] = changes
        if leave and residents:
            ledger.release(residents[int(rng.integers(len(residents)))])
        elif ledger.fits(node, 0.7, 3.0):
            promise = rng.uniform(0, 1, len(SOURCES)) if rng.random() < 0.7 else None
            ledger.take(
                Draw(DrawKind.REPLICA, "w", node, 0.7, 3.0, rng.uniform(0, 0.4, len(SOURCES)), promise)
            )
    assert (ledger.changes, ledger.last_change.tolist()) == (changes, last_change)
    for node in range(3):
        residents = ledger.residents(node)
        pressure = np.sum([one.caused for one in residents], axis=0) if residents else np.zeros(len(SOURCES))
        np.testing.assert_allclose(ledger.pressure[:, node], pressure, atol=1e-12)
        np.testing.assert_allclose(ledger.free_cores[node], CORES - 0.7 * len(residents))
        np.testing.assert_allclose(ledger.free_memory_gb[node], MEMORY_GB - 3 * len(residents))
        promised = [one.tolerated - (pressure - one.caused) for one in residents if one.tolerated is not None]
        slack = np.min(promised, axis=0) if promised else np.full(len(SOURCES), np.inf)
        np.testing.assert_allclose(ledger.slack[:, node], slack, atol=1e-12)


def test_a_node_is_sold_beyond_its_cores_only_where_that_is_said_and_never_beyond_its_memory() -> None:
    ledger = NodeLedger(cluster({"top": 1}))
    with pytest.raises(AssertionError, match="no room for w"):
        ledger.take(draw(0, scores(), None, cores=CORES + 1))
    ledger.take(draw(0, scores(), None, cores=CORES + 1), oversell=True)
    assert ledger.free_cores[0] == -1
    with pytest.raises(AssertionError, match="no room for w"):
        ledger.take(Draw(DrawKind.REPLICA, "w", 0, 0.0, MEMORY_GB, scores(), None), oversell=True)
    sizing = Sizing(requested(1e3, profile({1: 1e3}, {"top": 1.0}), ledger.cluster), ledger)
    with pytest.raises(AssertionError, match="no room for w"):
        sizing.add(0, 0)
    sizing.add(0, 0, oversell=True)
    assert ledger.free_cores[0] == -2


def test_of_several_replicas_those_that_fit_are_placed_in_turn() -> None:
    nodes = cluster({"top": 2})
    about = profile({2: 1e3, 4: 2e3, 6: 3e3}, {"top": 1.0})
    sizing = Sizing(requested(1e3, about, nodes, spread=Spread.NONE), NodeLedger(nodes))
    sizing.add_all([(0, 2), (0, 1), (1, 1), (0, 0)])
    assert [(one.node, one.size) for one in sizing.replicas] == [(0, 2), (1, 1), (0, 0)]


def test_a_replica_on_an_oversold_node_may_have_another_size_of_no_more_cores() -> None:
    nodes = cluster({"top": 1})
    sizes = (Size(1.0, 1.0), Size(2.0, 1.0), Size(2.0, 4.0), Size(4.0, 4.0))
    about = replace(profile({1: 1e3, 2: 2e3, 3: 3e3, 4: 4e3}, {"top": 1.0}), sizes=sizes)
    ledger = NodeLedger(nodes)
    sizing = Sizing(requested(1e3, about, nodes), ledger)
    sizing.add(0, 2)
    ledger.take(draw(0, scores(), None, cores=CORES), oversell=True)
    for size, cores, memory_gb in ((1, 2.0, 1.0), (2, 2.0, 4.0), (0, 1.0, 1.0)):
        sizing.resize(0, size)
        assert ledger.free_cores[0] == -cores
        assert ledger.free_memory_gb[0] == MEMORY_GB - 1.0 - memory_gb
    with pytest.raises(AssertionError, match="no room for w"):
        sizing.resize(0, 3)
