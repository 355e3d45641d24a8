"""Trial of replicas that may share nodes: equal to replicas that are drawn, to the last bit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, strategies as st

from kwiken.allocator.placement.node_ledger import DrawKind, NodeLedger
from kwiken.allocator.placement.own_nodes_trial import OwnNodesTrial
from kwiken.allocator.placement.request import PlacementRequest
from kwiken.allocator.placement.shared_trial import SharedNodesTrial
from kwiken.allocator.placement.sizing import Sizing
from kwiken.allocator.workloads.profile import Size
from kwiken.allocator.workloads.sources import SOURCES
from kwiken.allocator.workloads.workload import Spread
from kwiken.model.nodes.nodes import Cluster
from tests.support.runtime.clusters import cluster, known, over_sources, profile, requested

SPEEDS = {"top": 2.0, "even": 1.0, "low": 0.5}


def drawn(rng: np.random.Generator, nodes: Cluster, name: str) -> PlacementRequest:
    """Workload with random scores, whose replicas may share nodes; some are best-effort, some reissue.

    In some, a size that performs less needs more memory.
    """
    strong = rng.uniform(0.05, 0.5)
    about = profile(
        {1: 3e3, 2: 5.5e3, 4: 10e3},
        SPEEDS,
        name=name,
        tolerated=known(np.minimum(rng.uniform(0.3, 1.3, len(SOURCES)), 1.0)),
        caused=known(rng.uniform(0, strong, len(SOURCES)) * (rng.random(len(SOURCES)) < 0.8)),
    )
    if rng.random() < 0.5:
        about = replace(
            about, sizes=(Size(1.0, 1.0), Size(2.0, float(rng.choice([32.0, 64.0]))), Size(4.0, 2.0))
        )
    need = None if rng.random() < 0.3 else float(rng.uniform(2e3, 40e3))
    found = requested(need, about, nodes, spread=Spread.NONE)
    if rng.random() < 0.4:
        found = replace(found, shares={DrawKind.REISSUES: 0.07, DrawKind.CATCH_UP: 0.13})
    return found


def told(sizing: Sizing) -> tuple[object, ...]:
    """All that a trial tells of its nodes and replicas."""
    nodes, sizes = range(len(sizing.ledger.cluster.nodes)), range(len(sizing.request.cores))
    forecast = sizing.forecast()
    return (
        [sizing.free(node) for node in nodes],
        [sizing.takes(node, size) for node in nodes for size in sizes],
        [sizing.next_on(node, largest) for node in nodes for largest in (None, 0)],
        [(one.node, one.size, sizing.left(one.node, one.size)) for one in sizing.replicas],
        (forecast.performance, forecast.deviation, forecast.needed, forecast.met, sizing.cost),
    )


def begun(rng: np.random.Generator) -> tuple[Sizing, Sizing]:
    """Two equal worlds beside another workload, with some replicas placed already."""
    nodes = cluster({"top": 2, "even": 1, "low": 1})
    request, other = drawn(rng, nodes, "tried"), drawn(rng, nodes, "other")
    found = Sizing(request, NodeLedger(nodes)), Sizing(request, NodeLedger(nodes))
    for owner in (other, request):
        size, some = int(rng.integers(len(owner.cores))), np.flatnonzero(rng.random(4) < 0.5).tolist()
        for one in found:
            placed = one if owner is request else Sizing(owner, one.ledger)
            for node in some:
                if placed.takes(node, size):
                    placed.add(node, size)
    return found


@given(st.integers(0, 2**32 - 1))
@example(15320)  # a resized replica presses less where its neighbours are at their limits, and more elsewhere
def test_a_trial_tells_what_drawn_replicas_tell(seed: int) -> None:
    rng = np.random.default_rng(seed)
    supposed, sizing = begun(rng)
    kept, trial = len(sizing.replicas), SharedNodesTrial(supposed)
    both = (sizing, trial)
    for _ in range(25):
        move, count = rng.random(), len(sizing.replicas)
        place, size = (
            int(rng.integers(kept, max(count, kept + 1))),
            int(rng.integers(len(sizing.request.cores))),
        )
        node = int(rng.integers(4))
        if move < 0.1:
            for one in both:
                one.clear(kept)
        elif move < 0.5 and place < count:
            change(both, place, None if move < 0.3 else size)
        elif sizing.takes(node, size) and count < len(sizing.request.efficiency):
            for one in both:
                one.add(node, size)
        assert told(trial) == told(sizing)


def change(both: tuple[Sizing, Sizing], place: int, size: int | None) -> None:
    """Drop a replica or give it another size, once both tell the same of it."""
    sizing, trial = both
    room = size is None or sizing.has_room(place, size)
    if size != sizing.replicas[place].size:
        enough = 0 if room and sizing.supposed(place, size).met else None
        assert trial.first_that_meets(place, [size]) == enough
        assert sizing.first_that_meets(place, [size]) == enough
    assert room == (size is None or trial.has_room(place, size))
    for one in both if room else ():
        if size is None:
            one.remove(place)
        else:
            one.resize(place, size)


@pytest.mark.parametrize("spread", [Spread.NONE, Spread.NODE])
def test_a_trial_drops_all_replicas_unless_some_are_to_stay(spread: Spread) -> None:
    nodes = cluster({"top": 3})
    request = requested(3e3, profile({1: 1e3}, {"top": 1.0}), nodes, spread=spread)
    sizing = Sizing(request, NodeLedger(nodes))
    trial = SharedNodesTrial(sizing) if spread is Spread.NONE else OwnNodesTrial(sizing, np.arange(3))
    for keep, left in ((2, 2), (1, 1), (None, 0)):
        for node in range(len(trial.replicas), 3):
            trial.add(node, 0)
        assert trial.forecast().performance == pytest.approx(3e3)
        if keep is None:
            trial.clear()
        else:
            trial.clear(keep)
        assert [one.node for one in trial.replicas] == list(range(left))
        assert trial.forecast().performance == pytest.approx(left * 1e3)


def test_a_trial_begins_with_what_was_measured_of_the_replicas_that_stand() -> None:
    """A neighbour left since, which the replicas do not know before they are measured again."""
    nodes = cluster({"top": 1})
    bears, causes = (
        profile({1: 1e3}, {"top": 1.0}, tolerated=over_sources(0.5)),
        profile({1: 1e3}, {"top": 1.0}, name="other", caused=over_sources(0.5)),
    )
    ledger = NodeLedger(nodes)
    sizing, other = (
        Sizing(requested(need, about, nodes, spread=Spread.NONE), ledger)
        for need, about in ((800.0, bears), (None, causes))
    )
    sizing.add(0, 0)
    other.add(0, 0)
    before = sizing.forecast().performance
    other.remove(0)
    assert sizing.forecast().performance == before
    assert told(SharedNodesTrial(sizing)) == told(sizing)
    sizing.refresh()
    assert sizing.forecast().performance > before
    assert told(SharedNodesTrial(sizing)) == told(sizing)
