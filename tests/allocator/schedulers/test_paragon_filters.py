"""Filters of Paragon: backtracking against the sequential specification, and schedulers that know one side."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from kwiken.allocator.placement.node_ledger import NodeLedger
from kwiken.allocator.placement.quality import FEW_NODES, contention_on, node_scores
from kwiken.allocator.placement.sizing import Sizing
from kwiken.allocator.workloads.sources import SOURCES
from kwiken.base.arrays import Bools, Floats
from papers.worlds.schedulers.names import scheduler
from papers.worlds.schedulers.paragon import (
    STEP_OF_TOLERANCE,
    ParagonScheduler,
    _tolerable,
    _unharmed,
)
from papers.worlds.schedulers.statistical import StatisticalScheduler
from tests.support.allocation.filled_ledger import fill
from tests.support.runtime.clusters import cluster, known, over_sources, profile, requested

SPEEDS = {"top": 1.0, "low": 0.6}


def sequential(difference: Floats, hardness: Floats) -> Bools:
    """Paragon section 3.7, steps 2 and 7, one source and one step of slack at a time."""
    order = np.argsort(-hardness, kind="stable")
    allowed = np.zeros(len(order))

    def passing(levels: int) -> Bools:
        rows = order[:levels]
        return np.asarray(np.all(difference[rows] >= -allowed[rows, None] - 1e-9, axis=0))

    for level in range(1, len(order) + 1):
        for back in range(level, 0, -1):
            if passing(level).any():
                break
            worst = -float(difference[order[back - 1]].min())
            for step in range(max(0, math.ceil((worst - 1e-9) / STEP_OF_TOLERANCE)) + 1):
                allowed[order[back - 1]] = step * STEP_OF_TOLERANCE
                if passing(level).any():
                    break
    return passing(len(order))


@given(st.integers(1, 5), st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_backtracking_relaxes_as_the_sequential_specification_does(
    sources: int, nodes: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    difference = rng.integers(-90, 60, (sources, nodes)) / 100
    hardness = rng.random(sources)
    found = _tolerable(difference, hardness)
    assert found.any()
    assert found.tolist() == sequential(difference, hardness).tolist()


def mixed() -> NodeLedger:
    """Two fast nodes, the first with a noisy resident, and two slow ones."""
    ledger = NodeLedger(cluster({"top": 2, "low": 2}))
    noisy = profile({1: 1e3}, SPEEDS, name="noisy", caused=over_sources(0.0, disk=0.8))
    Sizing(requested(1e3, noisy, ledger.cluster), ledger).add(0, 0)
    return ledger


def chosen(name: str, ledger: NodeLedger, tolerated: float) -> int:
    new = profile({1: 1e3}, SPEEDS, tolerated=over_sources(1.0, disk=tolerated))
    sizing = Sizing(requested(500, new, ledger.cluster), ledger)
    scheduler(name).place(sizing)
    (replica,) = sizing.replicas
    return replica.node


def test_a_scheduler_that_knows_platforms_only_takes_the_best_class_whatever_runs_there() -> None:
    assert chosen("heterogeneity-only", mixed(), tolerated=0.1) == 0


def test_a_scheduler_that_knows_interference_only_takes_the_tightest_fit_of_any_class() -> None:
    assert chosen("interference-only", mixed(), tolerated=0.9) == 0
    ledger = mixed()
    quiet = profile({1: 1e3}, SPEEDS, name="quiet", caused=over_sources(0.0, disk=0.4))
    Sizing(requested(1e3, quiet, ledger.cluster), ledger).add(3, 0)
    assert chosen("interference-only", ledger, tolerated=0.5) == 3
    assert chosen("paragon", ledger, tolerated=0.5) == 1


def test_without_contention_paragon_takes_the_class_that_platforms_alone_choose() -> None:
    for fast in (0, 1, 3):
        classes = {"low": 2, "top": fast} if fast else {"low": 2}
        ledger = NodeLedger(cluster(classes))
        nodes = [chosen(name, ledger, tolerated=1.0) for name in ("paragon", "heterogeneity-only")]
        assert ledger.cluster.class_of[nodes[0]] == ledger.cluster.class_of[nodes[1]]


def test_few_nodes_and_many_are_scored_alike() -> None:
    rng = np.random.default_rng(3)
    pressure = rng.uniform(0, 1.2, (len(SOURCES), 400))
    slack = np.maximum(rng.uniform(-0.2, 1, pressure.shape), -pressure)
    nodes = cluster({"top": 200, "low": 200}, cores=10.0)
    large = fill(NodeLedger(nodes), pressure=pressure, slack=slack, free_cores=rng.uniform(0, 10, 400))
    assert len(large.free_cores) > FEW_NODES
    for place in range(20):
        tolerated, caused = rng.uniform(0.2, 1.4, len(SOURCES)), rng.uniform(-0.2, 0.3, len(SOURCES))
        about = profile(
            {1: 1e3, 4: 3e3},
            SPEEDS,
            tolerated=known(np.minimum(tolerated, 1)),
            caused=known(np.maximum(caused, 0)),
        )
        request = requested(500 if place % 2 else None, about, large.cluster)
        whole = node_scores(request, large, contention_on(request, large))
        some = np.arange(place, 400, 7)
        found = node_scores(request, large, contention_on(request, large, some))
        assert found.size.tolist() == whole.size[some].tolist()
        assert found.quality == pytest.approx(whole.quality[some])


def test_a_statistical_choice_examines_64_nodes_however_large_the_cluster_is() -> None:
    """So the chosen node is among the best tenth but for one placement in 849."""
    drawn: list[int] = []

    class Counted(np.random.Generator):
        def integers(self, *args: Any, **how: Any) -> Any:
            drawn.append(how["size"])
            return super().integers(*args, **how)

    nodes = cluster({"top": 300})
    sizing = Sizing(requested(3e3, profile({1: 1e3}, {"top": 1.0}), nodes), NodeLedger(nodes))
    StatisticalScheduler(Counted(np.random.PCG64(0))).place(sizing)
    assert drawn == [64] * 3
    assert pytest.approx(849, abs=1) == 1 / 0.9**64


def test_of_no_nodes_none_passes() -> None:
    assert _tolerable(np.zeros((2, 0)), np.ones(2)).tolist() == []


def test_both_sides_have_to_tolerate_each_other() -> None:
    """The first node has a delicate resident, and the second a noisy one; the third is empty."""
    nodes = cluster({"top": 3})
    ledger = NodeLedger(nodes)
    delicate = profile({1: 1e3}, {"top": 1.0}, name="delicate", tolerated=over_sources(1.0, disk=0.2))
    noisy = profile({1: 1e3}, {"top": 1.0}, name="noisy", caused=over_sources(0.0, network=0.6))
    for node, one in enumerate((delicate, noisy)):
        Sizing(requested(1e3, one, nodes), ledger).add(node, 0)
    about = profile(
        {1: 1e3},
        {"top": 1.0},
        tolerated=over_sources(1.0, network=0.5),
        caused=over_sources(0.0, disk=0.3),
    )
    sizing = Sizing(requested(1e3, about, nodes), ledger)
    assert _unharmed(sizing, np.arange(3), 0.0).tolist() == [2]


def test_a_replica_waits_where_every_node_left_would_be_a_violation_and_none_may_be() -> None:
    for violates, nodes in ((True, [1, 2, 3, 0]), (False, [1, 2, 3])):
        ledger = mixed()
        new = profile({1: 1e3}, SPEEDS, tolerated=over_sources(1.0, disk=0.2))
        sizing = Sizing(requested(9e3, new, ledger.cluster, max_replicas=4), ledger)
        ParagonScheduler(violates=violates).place(sizing)
        assert [one.node for one in sizing.replicas] == nodes


def test_as_many_classes_are_looked_at_as_the_replicas_need() -> None:
    """Three replicas on two fast nodes and a slow one, although the slow ones are looked at for the last only."""
    nodes = cluster({"low": 2, "top": 2})
    sizing = Sizing(requested(9e3, profile({1: 1e3}, SPEEDS), nodes, max_replicas=3), NodeLedger(nodes))
    ParagonScheduler(violates=False).place(sizing)
    assert [one.node for one in sizing.replicas] == [2, 3, 0]


def test_an_empty_node_bears_any_pressure_and_a_margin() -> None:
    nodes = cluster({"top": 1})
    loud = profile({1: 1e3}, {"top": 1.0}, caused=over_sources(1.0))
    sizing = Sizing(requested(500, loud, nodes), NodeLedger(nodes))
    ParagonScheduler(margin=0.1, violates=False).place(sizing)
    assert [one.node for one in sizing.replicas] == [0]


def test_pressure_that_is_just_borne_on_either_side_is_no_violation() -> None:
    """With a margin of a quarter, 0.5 is borne beside 0.25."""
    nodes = cluster({"top": 1})
    for margin, pressure, count in ((0.0, 0.5, 1), (0.25, 0.25, 1), (0.0, 0.51, 0), (0.25, 0.26, 0)):
        for noisy, delicate in ((0, 1), (1, 0)):
            ledger = NodeLedger(nodes)
            both = [
                profile({1: 1e3}, {"top": 1.0}, name="noisy", caused=over_sources(0.0, disk=pressure)),
                profile({1: 1e3}, {"top": 1.0}, name="delicate", tolerated=over_sources(1.0, disk=0.5)),
            ]
            Sizing(requested(500, both[noisy], nodes), ledger).add(0, 0)
            sizing = Sizing(requested(500, both[delicate], nodes), ledger)
            ParagonScheduler(margin=margin, violates=False).place(sizing)
            assert len(sizing.replicas) == count
