"""Schedulers beside an enumeration of all placements, on clusters that are small enough."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from kwiken.allocator.placement.headroom import Caution
from kwiken.allocator.placement.node_ledger import DrawKind, NodeLedger
from kwiken.allocator.placement.order import admit_all
from kwiken.allocator.placement.quality import contention_on
from kwiken.allocator.placement.request import PlacementRequest
from kwiken.allocator.placement.sizing import Sizing
from kwiken.allocator.placement.walks import by_quality, walk
from kwiken.allocator.schedulers.default_scheduler import MIN_SHORTLIST
from kwiken.allocator.schedulers.sampled import SampledScheduler
from kwiken.allocator.workloads.sources import SOURCES
from kwiken.allocator.workloads.workload import Spread
from kwiken.model.nodes.nodes import Cluster
from kwiken.model.nodes.placement import PlacingStatus
from papers.worlds.schedulers.exact import solve
from papers.worlds.schedulers.names import SCHEDULERS, scheduler
from tests.support.allocation.filled_ledger import fill, on_source
from tests.support.models import plain_schedulers as plain
from tests.support.runtime.clusters import cluster, known, over_sources, profile, requested

SPEEDS = {"top": 1.0, "low": 0.6}
CAUTION = Caution(confidence=0.5, later_loss=0.05)
NODES = cluster({"top": 2, "low": 1}, zones=2)


def drawn(rng: np.random.Generator, name: str, spread: Spread, nodes: Cluster = NODES) -> PlacementRequest:
    about = profile(
        {2: 4e3, 4: 7e3},
        SPEEDS,
        name=name,
        efficiency=[1.0, 0.95, 0.85],
        tolerated=known(rng.uniform(0.3, 1.0, len(SOURCES))),
        caused=known(rng.uniform(0, 0.35, len(SOURCES))),
    )
    found = requested(float(rng.uniform(2e3, 15e3)), about, nodes, caution=CAUTION, spread=spread)
    found.cost[:] = rng.uniform(0.5, 2.0, found.cost.shape)
    return replace(found, shares={DrawKind.REISSUES: 0.1}) if rng.random() < 0.3 else found


def placements(request: PlacementRequest) -> Iterator[list[tuple[int, int]]]:
    """All sets of replicas, at most three, and on different nodes, unless replicas may share them."""
    options = list(itertools.product(range(3), range(2)))
    for count in (1, 2, 3):
        choose = itertools.combinations_with_replacement
        for some in choose(options, count):
            nodes = [node for node, _ in some]
            apart = {node % 2 if request.workload.spread is Spread.ZONE else node for node in nodes}
            if request.workload.spread is Spread.NONE or len(apart) == count:
                yield list(some)


def cheapest(requests: list[PlacementRequest], resident: PlacementRequest | None) -> float:
    """Least cost of a placement that keeps every rule and meets every target; infinite for none."""
    best = math.inf
    for chosen in itertools.product(*(list(placements(one)) for one in requests)):
        ledger = NodeLedger(NODES)
        if resident is not None:
            Sizing(resident, ledger).add(0, 0)
        sizings, fits = [Sizing(request, ledger) for request in requests], True
        for sizing, some in zip(sizings, chosen, strict=True):
            for node, size in some:
                if not sizing.takes(node, size):
                    fits = False
                    break
                sizing.add(node, size)
        if not fits or (ledger.slack < -1e-9).any():
            continue
        for sizing in sizings:
            sizing.refresh()
        # Each replica is beside no more than it tolerates.
        borne = all(
            np.all(
                np.minimum(ledger.pressure[:, one.node] - one.draws[0].caused, 1.0)
                <= sizing.request.tolerance[:, one.size, NODES.class_of[one.node]] + 1e-9
            )
            for sizing in sizings
            for one in sizing.replicas
        )
        if borne and all(sizing.meets() for sizing in sizings):
            best = min(best, sum(sizing.cost for sizing in sizings))
    return best


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from(list(Spread)), st.booleans())
def test_exact_placement_is_the_cheapest_of_all(seed: int, spread: Spread, beside: bool) -> None:
    rng = np.random.default_rng(seed)
    request = drawn(rng, "w", spread)
    resident = drawn(rng, "resident", Spread.NONE) if beside else None
    ledger = NodeLedger(NODES)
    if resident is not None:
        Sizing(resident, ledger).add(0, 0)
    found = solve([request], ledger)
    least = cheapest([request], resident)
    assert found.cost == pytest.approx(least)
    assert found.bound == pytest.approx(least, rel=1e-5)
    sizing = Sizing(request, ledger)
    scheduler("exact").place(sizing)
    assert bool(sizing.replicas) == math.isfinite(least)
    if sizing.replicas:
        sizing.refresh()
        assert scheduler("exact").satisfied(sizing)
        assert sizing.cost == pytest.approx(least)


@settings(max_examples=6, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_exact_placement_of_two_workloads_is_the_cheapest_of_all(seed: int) -> None:
    rng = np.random.default_rng(seed)
    requests = [drawn(rng, name, Spread.NODE) for name in ("a", "b")]
    assert solve(requests, NodeLedger(NODES)).cost == pytest.approx(cheapest(requests, None))


def test_a_workload_of_two_nodes_has_them_in_an_exact_placement_too() -> None:
    rng = np.random.default_rng(1)
    few = drawn(rng, "w", Spread.NODE)
    apart = replace(few, required=2e3, workload=msgspec.structs.replace(few.workload, min_nodes=2))
    assert solve([apart], NodeLedger(NODES)).counts[0].sum() == 2


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([Spread.NODE, Spread.NONE, Spread.ZONE]))
def test_a_shortlist_of_many_nodes_costs_nothing(seed: int, spread: Spread) -> None:
    """On more nodes than are listed, as cheap as by looking at all of them."""
    rng = np.random.default_rng(seed)
    nodes = cluster({"top": 50, "low": 70}, zones=9)
    assert len(nodes.nodes) > MIN_SHORTLIST
    request = drawn(rng, "w", spread, nodes)
    fast, slow = (Sizing(request, ledger_of(nodes, seed)) for _ in range(2))
    scheduler("thrifty").place(fast)
    plain.thrifty(slow)
    assert fast.forecast().met == slow.forecast().met
    assert fast.cost == pytest.approx(slow.cost)


def ledger_of(nodes: Cluster, seed: int) -> NodeLedger:
    """Nodes under random pressure, some of them full."""
    rng = np.random.default_rng([seed, 1])
    count = len(nodes.nodes)
    pressure = rng.uniform(0, 0.5, (len(SOURCES), count))
    return fill(NodeLedger(nodes), pressure=pressure, free_cores=rng.choice([0.0, 2.0, 4.0, 8.0], count))


def test_a_workload_that_the_listed_nodes_do_not_hold_gets_others() -> None:
    """All nodes together hold what 64 of them do not."""
    nodes = cluster({"top": 200}, cores=2)
    request = requested(
        190 * 4e3, profile({2: 4e3}, {"top": 1.0}, efficiency=[1.0] * 200), nodes, max_replicas=200
    )
    sizing = Sizing(request, NodeLedger(nodes))
    scheduler("thrifty").place(sizing)
    assert len(sizing.replicas) == 190


def test_sampled_placement_tells_the_rank_of_what_it_took() -> None:
    nodes = cluster({"top": 30})
    ledger = fill(NodeLedger(nodes), pressure=on_source(np.linspace(0.0, 0.9, 30)))
    request = requested(5e3, profile({2: 6e3}, {"top": 1.0}), nodes)
    ranks = []
    for seed in range(300):
        chosen = SampledScheduler(np.random.default_rng(seed), scanned=True)
        sizing = Sizing(request, ledger)
        chosen.place(sizing)
        (replica,) = sizing.replicas
        (rank,) = chosen.ranks
        assert rank == pytest.approx((29 - replica.node) / 29)
        ranks.append(rank)
        sizing.clear()
    draws = SampledScheduler(np.random.default_rng(0)).guarantee.draws
    if draws < 30:
        assert np.mean(ranks) == pytest.approx(draws / (draws + 1), abs=0.03)


@pytest.mark.parametrize("unit", [1.0, 1e-6])
def test_sampled_placement_looks_at_all_nodes_where_the_sample_holds_none(unit: float) -> None:
    nodes = cluster({"top": 400})
    ledger = fill(NodeLedger(nodes), pressure=on_source([*[0.9] * 399, 0.1]))
    delicate = profile({2: 6e3 * unit}, {"top": 1.0}, tolerated=over_sources(0.5))
    sizing = Sizing(requested(5e3 * unit, delicate, nodes), ledger)
    scheduler("sampled", seed=1).place(sizing)
    assert [one.node for one in sizing.replicas] == [399]
    more = Sizing(requested(20e3 * unit, delicate, nodes), ledger)
    scheduler("sampled", seed=1).place(more)
    assert len(more.replicas) < 4
    assert not scheduler("sampled", seed=1).satisfied(more)


def test_schedulers_have_the_names_of_a_placement() -> None:
    for name in SCHEDULERS:
        assert scheduler(name).name == name


@pytest.mark.parametrize("name", ["quasar", "thrifty"])
def test_evicted_work_that_helps_only_in_part_makes_room_for_what_is_nearly_enough(name: str) -> None:
    """Two nodes give 40 of 41.5 thousand, and half of one is taken by best-effort work."""
    nodes = cluster({"top": 2})
    ledger = NodeLedger(nodes)
    filler = requested(None, profile({4: 1e3}, {"top": 1.0}, name="filler"), nodes, max_replicas=1)
    running = [one.sizing for one in admit_all([filler], ledger, scheduler(name))]
    asked = requested(41.5e3, profile({2: 6e3, 4: 11e3, 8: 20e3}, {"top": 1.0}, name="w"), nodes)
    (found,) = admit_all([asked], ledger, scheduler(name), running)
    assert found.status is PlacingStatus.SHORT
    assert found.sizing.forecast().performance == pytest.approx(40e3)
    assert [filled for filled, _ in found.evicted] == ["filler"]
    assert running[0].replicas == []


def test_a_walk_with_a_largest_size_uses_no_larger_one() -> None:
    nodes = cluster({"top": 6})
    request = requested(20e3, profile({2: 6e3, 4: 11e3, 8: 20e3}, {"top": 1.0}), nodes)
    for largest, count in ((0, 4), (1, 2), (2, 1), (None, 1)):
        sizing = Sizing(request, NodeLedger(nodes))
        walk(sizing, by_quality, largest, contention_on(request, sizing.ledger))
        assert len(sizing.replicas) == count
        assert sizing.meets()


@pytest.mark.parametrize("alone", [True, False])
def test_an_exact_search_ends_after_20_seconds_for_one_workload_and_a_minute_for_several(
    alone: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    import scipy.optimize

    limits: list[float] = []
    milp = scipy.optimize.milp

    def limited(*args: Any, options: dict[str, float], **how: Any) -> Any:
        limits.append(options["time_limit"])
        return milp(*args, options=options, **how)

    monkeypatch.setattr(scipy.optimize, "milp", limited)
    nodes = cluster({"top": 2})
    request = requested(1e3, profile({1: 1e3}, {"top": 1.0}), nodes)
    if alone:
        scheduler("exact").place(Sizing(request, NodeLedger(nodes)))
    else:
        solve([request], NodeLedger(nodes))
    assert limits == [20.0 if alone else 60.0]


def test_a_sampled_choice_is_compared_with_a_full_scan_only_where_that_is_asked_for() -> None:
    rng = np.random.default_rng(0)
    for chosen, ranks in ((SampledScheduler(rng), 0), (SampledScheduler(rng, scanned=True), 2)):
        chosen.place(Sizing(requested(2e3, profile({1: 1e3}, SPEEDS), NODES), NodeLedger(NODES)))
        assert len(chosen.ranks) == ranks


def test_up_to_66_nodes_with_room_are_all_looked_at() -> None:
    """The promise of one of the best tenth, but for one time in 1,000; of equal nodes the first is taken."""
    for count, drawn_first in ((66, True), (67, False)):
        nodes = cluster({"top": count})
        taken = set()
        for seed in range(5):
            sizing = Sizing(requested(1e3, profile({1: 1e3}, {"top": 1.0}), nodes), NodeLedger(nodes))
            scheduler("sampled", seed=seed).place(sizing)
            taken |= {one.node for one in sizing.replicas}
        assert (taken == {0}) is drawn_first


def test_a_choice_among_one_node_has_no_rank() -> None:
    nodes = cluster({"top": 1})
    chosen = SampledScheduler(np.random.default_rng(0), scanned=True)
    sizing = Sizing(requested(1e3, profile({1: 1e3}, {"top": 1.0}), nodes), NodeLedger(nodes))
    chosen.place(sizing)
    assert len(sizing.replicas) == 1
    assert chosen.ranks == []
