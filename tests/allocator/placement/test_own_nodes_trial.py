"""Trial of replicas with nodes of their own: it decides as replicas that are drawn do."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, strategies as st

from kwiken.allocator.placement import (
    Caution,
    DrawKind,
    NodeLedger,
    OwnNodesTrial,
    PlacementRequest,
    Sizing,
    contention_on,
    offers_by_size,
    take,
)
from kwiken.allocator.workloads import SOURCES, Spread
from kwiken.model.nodes import Cluster
from tests.support.runtime.clusters import cluster, known, profile, requested

SPEEDS = {"top": 1.0, "even": 1.0, "low": 0.6}
NODES = {"top": 8, "even": 3, "low": 9}


def drawn(rng: np.random.Generator, nodes: Cluster, name: str) -> PlacementRequest:
    """Workload with random curves, scores and deviations; some have a flat scale-out, some corrections."""
    sigma = float(rng.choice([0.0, 0.02, 0.3]))
    about = profile(
        {1: 3e3, 2: 5.5e3, 4: 10e3, 3: float(rng.uniform(5e3, 11e3))},
        SPEEDS,
        name=name,
        efficiency=[1 / (1 + sigma * n) if sigma else 1 / (n + 1) ** rng.random() for n in range(14)],
        tolerated=known(rng.uniform(0.3, 1.0, len(SOURCES))),
        caused=known(rng.uniform(0, 0.15, len(SOURCES))),
    )
    caution = Caution(confidence=0.9, later_loss=float(rng.choice([0.0, 0.02, 0.05, 0.2])))
    spread = Spread.ZONE if rng.random() < 0.25 else Spread.NODE
    need = None if rng.random() < 0.1 else float(rng.uniform(2e3, 60e3))
    found = requested(need, about, nodes, caution=caution, spread=spread)
    if rng.random() < 0.7:
        found = replace(
            found,
            base_deviation=float(rng.uniform(0, 0.2)),
            size_deviation=rng.uniform(0, 0.2, len(found.size_deviation)),
            class_deviation=rng.uniform(0, 0.2, len(found.class_deviation)),
            count_deviation=rng.uniform(0, 0.2, len(found.count_deviation)),
        )
    if rng.random() < 0.2:
        cells = [(size, count, 0) for size in range(len(found.cores)) for count in range(1, 6)]
        found = replace(found, corrections={cell: float(rng.normal(0, 0.1)) for cell in cells})
    return replace(found, shares={DrawKind.REISSUES: 0.07}) if rng.random() < 0.3 else found


def begun(rng: np.random.Generator) -> tuple[Sizing, Sizing]:
    """Two equal worlds beside another workload, with up to two replicas placed already."""
    nodes = cluster(NODES, zones=9)
    request, other = drawn(rng, nodes, "tried"), drawn(rng, nodes, "other")
    found = Sizing(request, NodeLedger(nodes)), Sizing(request, NodeLedger(nodes))
    loaded = np.flatnonzero(rng.random(len(nodes.nodes)) < 0.4).tolist()
    first = rng.choice(len(nodes.nodes), int(rng.integers(3)), replace=False).tolist()
    for one in found:
        resident = Sizing(other, one.ledger)
        for node in loaded:
            resident.add(node, 0)
        for node in first:
            if one.takes(node, 0) and one.open_nodes()[node]:
                one.add(node, 0)
    return found


@given(st.integers(0, 2**32 - 1))
def test_walks_on_a_trial_take_the_same_replicas(seed: int) -> None:
    rng = np.random.default_rng(seed)
    supposed, sizing = begun(rng)
    request, kept = sizing.request, len(sizing.replicas)
    contention = contention_on(request, sizing.ledger)
    trial = OwnNodesTrial(supposed, contention.nodes[: int(rng.integers(21))])
    both = [offers_by_size(request, one.ledger, contention) for one in (sizing, supposed)]
    for there, here in zip(*both, strict=True):
        take(sizing, there)
        take(trial, here)
        chosen = [(one.node, one.size) for one in sizing.replicas]
        assert [(one.node, one.size) for one in trial.replicas] == chosen
        assert (trial.meets(), trial.cost) == (sizing.meets(), sizing.cost)
        # Pressure is summed in another order.
        found, expected = trial.forecast(), sizing.forecast()
        assert found.performance == pytest.approx(expected.performance, rel=1e-12)
        assert found.deviation == pytest.approx(expected.deviation, rel=1e-12)
        trial.clear(kept)
        sizing.clear(kept)


@given(st.integers(0, 2**32 - 1))
def test_changes_are_judged_as_by_a_forecast(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizing, _ = begun(rng)
    request, kept = sizing.request, len(sizing.replicas)
    trial = OwnNodesTrial(sizing, np.arange(20))
    for node in rng.permutation(20).tolist():
        sizes = [size for size in range(len(request.cores)) if trial.takes(node, size)]
        if sizes and len(trial.replicas) < len(request.efficiency) and node not in at(trial):
            trial.add(node, sizes[int(rng.integers(len(sizes)))])
    while len(trial.replicas) > kept:
        assert trial.meets() == (request.required > 0 and anew(sizing, trial).forecast().met)
        place = int(rng.integers(kept, len(trial.replicas)))
        others: list[int | None] = [None, *range(len(request.cores))]
        others.remove(trial.replicas[place].size)
        for size in others:
            room = size is None or trial.has_room(place, size)
            met = anew(sizing, trial).supposed(place, size).met
            assert trial.first_that_meets(place, [size]) == (0 if room and met else None)
        size = others[int(rng.integers(len(others)))]
        if size is None or rng.random() < 0.5:
            trial.remove(place)
        elif trial.has_room(place, size):
            trial.resize(place, size)
        assert trial.performance() == pytest.approx(anew(sizing, trial).performance(), rel=1e-12)


def at(sizing: Sizing) -> list[int]:
    """Nodes of the replicas."""
    return [one.node for one in sizing.replicas]


def anew(sizing: Sizing, trial: Sizing) -> OwnNodesTrial:
    """The same replicas, supposed one after another, without what came and went in between."""
    found = OwnNodesTrial(sizing, np.arange(20))
    for one in trial.replicas[len(sizing.replicas) :]:
        found.add(one.node, one.size)
    return found
