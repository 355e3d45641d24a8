"""Trial of replicas with nodes of their own: it decides as replicas that are drawn do."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, strategies as st

from kwiken.allocator.placement.headroom import Caution
from kwiken.allocator.placement.node_ledger import DrawKind, NodeLedger
from kwiken.allocator.placement.own_nodes_trial import OwnNodesTrial
from kwiken.allocator.placement.quality import contention_on
from kwiken.allocator.placement.request import PlacementRequest
from kwiken.allocator.placement.sizing import Forecast, Sizing
from kwiken.allocator.placement.walks import offers_by_size, take
from kwiken.allocator.schedulers.names import scheduler
from kwiken.allocator.workloads.sources import SOURCES
from kwiken.allocator.workloads.workload import Spread
from kwiken.model.nodes.nodes import Cluster
from tests.support.runtime.clusters import cluster, known, over_sources, profile, requested

SPEEDS = {"top": 1.0, "even": 1.0, "low": 0.6}
NODES = {"top": 8, "even": 3, "low": 9}


def drawn(rng: np.random.Generator, nodes: Cluster, name: str) -> PlacementRequest:
    """Workload with random curves, scores and deviations; some scale out better and better, some are corrected.

    Work is counted in units of very different size.
    """
    sigma, unit = float(rng.choice([0.0, 0.02, 0.3])), float(rng.choice([1.0, 2.0**-14]))
    rates = {1: 3e3, 2: 5.5e3, 4: 10e3, 3: float(rng.uniform(5e3, 11e3))}
    about = profile(
        {cores: unit * rate for cores, rate in rates.items()},
        SPEEDS,
        name=name,
        efficiency=[1 / (1 + sigma * n) if sigma else (n + 1) ** -rng.uniform(-0.5, 1) for n in range(14)],
        tolerated=known(rng.uniform(0.3, 1.0, len(SOURCES))),
        caused=known(rng.uniform(0, float(rng.choice([0.15, 0.6])), len(SOURCES))),
    )
    caution = Caution(confidence=0.9, later_loss=float(rng.choice([0.0, 0.02, 0.05, 0.2])))
    spread = Spread.ZONE if rng.random() < 0.25 else Spread.NODE
    need = None if rng.random() < 0.1 else unit * float(rng.uniform(2e3, 60e3))
    found = requested(need, about, nodes, caution=caution, spread=spread)
    if rng.random() < 0.7:
        some = float(rng.random() < 0.7)  # else few sizes and classes alone are uncertain
        found = replace(
            found,
            base_deviation=some * float(rng.uniform(0, 0.2)),
            size_deviation=rng.uniform(0, 0.2, len(found.size_deviation)) * (rng.random() < 0.4 + some),
            class_deviation=rng.uniform(0, 0.2, len(found.class_deviation)) * (rng.random(3) < 0.3 + some),
            count_deviation=some * rng.uniform(0, 0.2, len(found.count_deviation)),
        )
    if rng.random() < 0.3:
        cells = list(product(range(len(found.cores)), range(1, 15), range(len(SPEEDS))))
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
        if rng.random() < 0.5:
            assert trial.performance() == anew(sizing, trial).performance()


@given(st.integers(0, 2**32 - 1))
def test_contention_costs_a_trial_as_much_as_a_replica_that_is_placed(seed: int) -> None:
    rng = np.random.default_rng(seed)
    supposed, sizing = begun(rng)
    trial = OwnNodesTrial(supposed, np.arange(0, 20, 2))
    for node in range(20):
        if node not in at(sizing) and sizing.takes(node, 0):
            sizing.add(node, 0)
            assert trial.left(node, 0) == pytest.approx(sizing.left(node, 0), rel=1e-12)


@given(st.integers(0, 2**32 - 1))
def test_targets_a_little_below_and_above_are_told_apart_after_any_changes(seed: int) -> None:
    """Some replicas are in no sum yet when the trial is asked."""
    rng = np.random.default_rng(seed)
    sizing, _ = begun(rng)
    asked = sizing.request
    for turn in range(8):
        sizing.renew(asked)
        there = after_changes(sizing, seed + turn)
        if not there.replicas:
            continue
        place = int(rng.integers(len(there.replicas)))
        size = None if rng.random() < 0.3 else int(rng.integers(len(asked.cores)))
        cases: list[tuple[Forecast, bool]] = [(there.forecast(), False)]
        if size != there.replicas[place].size and (size is None or there.has_room(place, size)):
            cases.append((there.supposed(place, size), True))
        for found, changed in cases:
            surely = found.performance / (1.0 + asked.caution.headroom(found.deviation))
            for share, met in ((1.0 - 3e-4, True), (1.0 + 3e-4, False)) if surely else ():
                sizing.renew(replace(asked, required=surely * share))
                trial = after_changes(sizing, seed + turn)
                told = trial.first_that_meets(place, [size]) == 0 if changed else trial.meets()
                assert told == met


def after_changes(sizing: Sizing, seed: int) -> OwnNodesTrial:
    """Trial after random additions, removals and changes of size, with questions in between."""
    rng = np.random.default_rng(seed)
    trial, kept = OwnNodesTrial(sizing, np.arange(20)), len(sizing.replicas)
    for _ in range(int(rng.integers(30))):
        move, count = rng.random(), len(trial.replicas)
        place = int(rng.integers(kept, max(count, kept + 1)))
        node, size = int(rng.integers(20)), int(rng.integers(len(trial.request.cores)))
        if move < 0.2:
            trial.meets()
        elif move < 0.5 and place < count:
            if move < 0.35:
                trial.remove(place)
            elif trial.has_room(place, size):
                trial.resize(place, size)
        elif node not in at(trial) and trial.takes(node, size) and count < len(trial.request.efficiency):
            trial.add(node, size)
    return trial


@pytest.mark.parametrize(
    ("need", "efficiency", "deviation", "supposed"),
    [
        (70.1e3, [1.0] * 10, 0.0, 3),  # the fourth reaches 80
        (80e3, [1.0] * 10, 0.0, 3),
        (80.1e3, [1.0] * 10, 0.0, 4),
        (80e3, [1.0] * 10, 0.1, 4),  # with headroom, 91 are needed
        (1e6, [1.0] * 6, 0.0, 5),  # the sixth is the last that is allowed
        (1e6, [1.0, 0.9, 0.6, 0.6], 0.0, 2),  # the third adds nothing
        (None, [1.0] * 10, 0.0, 8),
    ],
)
def test_replicas_are_added_without_a_forecast_up_to_the_one_that_may_meet_the_target(
    need: float | None, efficiency: list[float], deviation: float, supposed: int
) -> None:
    nodes = cluster({"top": 9})
    about = profile({8: 20e3}, {"top": 1.0}, efficiency=efficiency, deviation=deviation)
    request = requested(need, about, nodes, caution=Caution(confidence=0.9, later_loss=0.0))
    trial = OwnNodesTrial(Sizing(request, NodeLedger(nodes)), np.arange(9))
    offers = iter([(node, 0) for node in range(9)])
    next_one = trial.add_while_short(offers, {0})  # there is a replica on the first node
    assert at(trial) == list(range(1, supposed + 1))
    assert next_one == ((supposed + 1, 0) if supposed < 8 else None)
    assert trial.performance() == pytest.approx(20e3 * supposed * efficiency[supposed - 1])


def test_a_replica_that_replaces_another_has_the_correction_of_its_own_size() -> None:
    nodes = cluster({"top": 3})
    request = requested(1e3, profile({2: 6e3, 4: 11e3}, {"top": 1.0}), nodes)
    request = replace(request, corrections={(0, 2, 0): -0.5, (1, 2, 0): 0.3})
    trial = OwnNodesTrial(Sizing(request, NodeLedger(nodes)), np.arange(3))
    for node, size in ((0, 0), (1, 1)):
        trial.add(node, size)
    assert trial.performance() == pytest.approx(6e3 * math.exp(-0.5) + 11e3 * math.exp(0.3))
    trial.remove(0)
    trial.add(2, 1)
    assert trial.performance() == pytest.approx(2 * 11e3 * math.exp(0.3))
    trial.resize(0, 0)
    assert trial.performance() == pytest.approx(6e3 * math.exp(-0.5) + 11e3 * math.exp(0.3))


def test_a_target_is_judged_by_the_corrections_of_the_replicas_that_are_left() -> None:
    nodes = cluster({"top": 3})
    about = profile({2: 6e3, 4: 11e3}, {"top": 1.0})
    corrections = {(0, 2, 0): -0.5, (1, 2, 0): 0.3}  # of two: 3.6 and 14.8
    for need, sizes, met in ((18e3, (0, 1, 0), True), (20e3, (1, 1), False)):
        request = replace(requested(need, about, nodes), corrections=corrections)
        trial = OwnNodesTrial(Sizing(request, NodeLedger(nodes)), np.arange(3))
        for node, size in enumerate(sizes):
            trial.add(node, size)
        assert trial.meets()
        if len(sizes) > 2:
            trial.remove(2)
        else:
            trial.resize(0, 0)
        assert trial.meets() == met


def test_what_is_left_without_the_only_uncertain_replica_is_certain() -> None:
    """Rounding may leave something of the variance of the replica that goes, which must not count."""
    nodes = cluster({"top": 1, "low": 1})
    for rate in np.random.default_rng(0).uniform(1e3, 9e3, 50).tolist():
        request = requested(0.999 * rate, profile({8: rate}, {"top": 1.0, "low": 0.7}), nodes)
        request = replace(request, class_deviation=np.array([0.0, 0.1]))
        trial = OwnNodesTrial(Sizing(request, NodeLedger(nodes)), np.arange(2))
        trial.add(0, 0)
        trial.add(1, 0)
        assert trial.first_that_meets(1, [None]) == 0


def test_what_is_kept_free_for_later_neighbours_is_not_counted_on() -> None:
    """Four replicas of 20 with 6% kept free reach 75."""
    nodes = cluster({"top": 9})
    request = requested(78e3, profile({8: 20e3}, {"top": 1.0}), nodes, caution=Caution(0.5, later_loss=0.06))
    trial = OwnNodesTrial(Sizing(request, NodeLedger(nodes)), np.arange(9))
    assert trial.add_while_short(iter([(node, 0) for node in range(9)]), set()) == (4, 0)
    assert at(trial) == [0, 1, 2, 3]


def test_a_first_offer_that_adds_nothing_is_not_added() -> None:
    nodes = cluster({"top": 3})
    request = requested(30e3, profile({8: 20e3}, {"top": 1.0}, efficiency=[1.0, 0.5, 0.5]), nodes)
    sizing = Sizing(request, NodeLedger(nodes))
    sizing.add(0, 0)
    trial = OwnNodesTrial(sizing, np.arange(3))
    assert trial.add_while_short(iter([(1, 0), (2, 0)]), {0}) == (1, 0)
    assert at(trial) == [0]


def test_best_effort_work_takes_no_node_where_contention_leaves_nothing() -> None:
    """The replica's own copies press where the first node is pressed already."""
    nodes = cluster({"top": 2})
    ledger = NodeLedger(nodes)
    for node, score in enumerate(({"disk": 0.9}, {"network": 0.92})):
        pressing = profile({1: 1e3}, SPEEDS, name=f"r{node}", caused=over_sources(0.0, **score))
        Sizing(requested(None, pressing, nodes), ledger).add(node, 0)
    about = profile({1: 1e3}, SPEEDS, tolerated=over_sources(0.0), caused=over_sources(0.0, disk=0.9))
    request = replace(requested(None, about, nodes), shares={DrawKind.REISSUES: 0.2})
    sizing = Sizing(request, ledger)
    trial = OwnNodesTrial(sizing, np.arange(2))
    assert trial.left(0, 0) == 0.0
    assert trial.left(1, 0) > 0.0
    assert trial.add_while_short(iter([(0, 0), (1, 0)]), set()) == (0, 0)
    assert at(trial) == []
    scheduler("thrifty").place(sizing)
    assert at(sizing) == [1]


def at(sizing: Sizing) -> list[int]:
    """Nodes of the replicas."""
    return [one.node for one in sizing.replicas]


def anew(sizing: Sizing, trial: Sizing) -> OwnNodesTrial:
    """The same replicas, supposed one after another, without what came and went in between."""
    found = OwnNodesTrial(sizing, np.arange(20))
    for one in trial.replicas[len(sizing.replicas) :]:
        found.add(one.node, one.size)
    return found
