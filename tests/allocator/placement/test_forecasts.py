"""Requests, forecasts, losses and explanations beside plain computations from their definitions."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product
from statistics import median

import numpy as np
import pytest
from hypothesis import given, strategies as st

from kwiken.allocator.placement.explanations import explain_placement
from kwiken.allocator.placement.headroom import Caution
from kwiken.allocator.placement.node_ledger import DrawKind, NodeLedger
from kwiken.allocator.placement.order import PlacedOrNot, admit_all, nodes_to_add
from kwiken.allocator.placement.placement_document import document
from kwiken.allocator.placement.quality import (
    NO_SIZE,
    contention_loss,
    contention_on,
    node_scores,
    worst_loss,
)
from kwiken.allocator.placement.request import PlacementRequest, request_for
from kwiken.allocator.placement.sizing import Sizing
from kwiken.allocator.placement.walks import by_cost, by_quality, offers_by_size
from kwiken.allocator.workloads.completion.tails import ErrorTails
from kwiken.allocator.workloads.profile import Correction, Size, WorkloadProfile
from kwiken.allocator.workloads.sources import SOURCES
from kwiken.allocator.workloads.workload import Spread
from kwiken.model.nodes.nodes import Cluster, Node, NodeClass
from papers.worlds.schedulers.names import scheduler
from tests.support.allocation.filled_ledger import fill, occupy
from tests.support.runtime.clusters import cluster, known, over_sources, profile, requested, workload

SPEEDS = {"top": 1.0, "low": 0.6}
CLASSES = (
    NodeClass(name="top", cores=8.0, memory_gb=16.0, cost_per_hour=0.8),
    NodeClass(name="low", cores=4.0, memory_gb=32.0, cost_per_hour=0.2),
)
UNEQUAL = Cluster(CLASSES, tuple(Node(f"n{n}", "top" if n < 3 else "low") for n in range(7)))
CAUTION = Caution(confidence=0.9, shortfall=0.02, later_loss=0.03)


def uncertain(seed: int) -> WorkloadProfile:
    """Profile with a deviation of each part, scores, and some sizes of more memory."""
    rng = np.random.default_rng(seed)
    found = profile(
        {1: 3e3, 2: 5.5e3, 4: 10e3},
        SPEEDS,
        efficiency=[1 / (1 + 0.04 * n) for n in range(12)],
        tolerated=known(rng.uniform(0.3, 1.0, len(SOURCES)), 0.05),
        caused=known(rng.uniform(0, 0.2, len(SOURCES)), 0.02),
        deviation=0.03,
    )
    return replace(
        found,
        sizes=(Size(1.0, 1.0), Size(2.0, 4.0), Size(4.0, 2.0)),
        up=replace(found.up, deviation=rng.uniform(0, 0.1, 3)),
        het=replace(found.het, deviation=rng.uniform(0, 0.2, 2)),
        out=replace(found.out, deviation=rng.uniform(0, 0.05, 12)),
    )


def sized(seed: int, *, spread: Spread = Spread.NONE, rate: float = 20e3) -> PlacementRequest:
    return request_for(workload(rate, spread=spread, memory_gb=1.5), uncertain(seed), UNEQUAL, CAUTION)


def test_a_request_is_the_profile_on_the_classes_of_the_cluster() -> None:
    about, found = uncertain(0), sized(0)
    assert found.required == 20e3
    assert found.cores.tolist() == [1.0, 2.0, 4.0]
    assert found.memory_gb.tolist() == [1.5, 4.0, 2.0]  # the workload needs 1.5 GB
    assert found.base == 10e3
    assert found.class_factor == pytest.approx([1.0, 0.6])
    expected = np.outer([3e3, 5.5e3, 10e3], [1.0, 0.6])
    assert found.rate == pytest.approx(expected)
    assert found.capacity == pytest.approx(expected)
    # Half of a node's price is for its cores, half for its memory.
    prices = [
        [
            price * (cores / all_cores + gb / all_gb) / 2
            for price, all_cores, all_gb in ((0.8, 8, 16), (0.2, 4, 32))
        ]
        for cores, gb in ((1.0, 1.5), (2.0, 4.0), (4.0, 2.0))
    ]
    assert found.cost == pytest.approx(np.array(prices))
    assert found.efficiency == pytest.approx([1 / (1 + 0.04 * n) for n in range(12)])
    assert found.base_deviation == 0.03
    assert found.size_deviation.tolist() == about.up.deviation.tolist()
    assert found.class_deviation.tolist() == about.het.deviation.tolist()
    assert found.count_deviation == pytest.approx(about.out.deviation)
    deviations = 1.2815515655446004  # of a confidence of 90%
    assert found.tolerated == pytest.approx(about.tolerated.mean - deviations * 0.05)
    assert found.caused == pytest.approx(about.caused.mean + deviations * 0.02)
    assert found.caution == CAUTION
    assert found.nested is False
    cores = tuple(NodeClass(name=one.name, cores=one.cores, memory_gb=one.memory_gb) for one in CLASSES)
    plain = request_for(workload(20e3), about, Cluster(cores, UNEQUAL.nodes), CAUTION)
    assert plain.cost[0].tolist() == [8 * (1 / 8 + 1 / 16) / 2, 4 * (1 / 4 + 1 / 32) / 2]


def test_scores_stay_shares_and_tolerance_above_nothing() -> None:
    wide = replace(
        uncertain(1), tolerated=known([0.01] * len(SOURCES), 1.0), caused=known([0.9] * len(SOURCES), 1.0)
    )
    found = request_for(workload(1e3), wide, UNEQUAL, CAUTION)
    assert set(found.tolerated) == {1e-9}
    assert set(found.caused) == {1.0}
    beyond = replace(wide, tolerated=known([1.3] * len(SOURCES)), caused=known([-0.2] * len(SOURCES)))
    found = request_for(workload(1e3), beyond, UNEQUAL, CAUTION)
    assert set(found.tolerated) == {1.0}
    assert set(found.caused) == {0.0}


def test_sizes_that_another_one_makes_useless_are_left_out() -> None:
    about = profile({1: 1e3, 2: 1.9e3, 4: 1.8e3, 6: 5e3, 16: 9e3}, SPEEDS)
    found = request_for(workload(1e3), about, UNEQUAL, CAUTION)
    assert found.cores.tolist() == [1.0, 2.0, 6.0]  # 4 cores do less than 2, and 16 are on no node
    whole = request_for(workload(1e3, memory_gb=32.0), about, UNEQUAL, CAUTION)
    assert whole.cores.tolist() == [1.0, 2.0]  # on a node of 4 cores and just this memory
    sizes = (Size(1.0, 1.0), Size(2.0, 1.0), Size(2.0, 2.0), Size(2.0, 8.0), Size(2.0, 40.0))
    memory = replace(about, sizes=sizes, up=known([0.0, 0.5, 0.4, 0.9, 1.0]))
    found = request_for(workload(1e3, memory_gb=1.0), memory, UNEQUAL, CAUTION)
    assert list(zip(found.cores.tolist(), found.memory_gb.tolist(), strict=True)) == [
        (1.0, 1.0),
        (2.0, 1.0),
        (2.0, 8.0),
    ]


def test_the_tails_are_those_that_ask_for_most_of_the_parts_that_are_uncertain() -> None:
    about = uncertain(2)
    heavy = replace(
        about,
        up=replace(about.up, tails=ErrorTails(5.0)),
        out=replace(about.out, tails=ErrorTails(3.0), deviation=np.zeros(12)),
    )
    sure = replace(CAUTION, confidence=0.999)
    assert request_for(workload(1e3), heavy, UNEQUAL, sure).caution.tails == ErrorTails(5.0)
    assert sized(2).caution.tails == ErrorTails()
    # Below the 95th percentile narrow errors ask for less than normal ones.
    narrow = replace(about, up=replace(about.up, tails=ErrorTails(math.inf, 2.0)))
    unsure = replace(CAUTION, confidence=0.8)
    assert request_for(workload(1e3), narrow, UNEQUAL, unsure).caution.tails == ErrorTails()


def test_counts_between_those_of_the_profile_are_read_off_its_curve() -> None:
    about = replace(
        uncertain(3),
        replicas=np.array([1, 4, 16]),
        out=replace(known(np.log([1.0, 3.0, 6.0])), deviation=np.array([0.0, 0.02, 0.06])),
    )
    found = request_for(workload(1e3, max_replicas=9), about, UNEQUAL, CAUTION)
    assert len(found.efficiency) == 9
    assert found.efficiency[1] == pytest.approx(math.exp(0.5 * math.log(3.0)) / 2)
    assert found.efficiency[3] == pytest.approx(0.75)
    assert found.efficiency[7] == pytest.approx(math.sqrt(3.0 * 6.0) / 8)
    assert found.count_deviation[[0, 1, 3, 7]] == pytest.approx([0.0, 0.01, 0.02, 0.04])


def test_the_typical_size_performs_most_for_its_cost_where_it_can_meet_the_target() -> None:
    for rate, seed in ((5e3, 4), (20e3, 4), (60e3, 4), (80e3, 4), (1e6, 4)):
        found = sized(seed, rate=rate)
        typical = [median(row) for row in found.rate.tolist()]
        together = [share * (n + 1) for n, share in enumerate(found.efficiency.tolist())]
        able = [size for size in range(3) if typical[size] * max(together) >= rate]
        worth = [typical[size] / np.mean(found.cost[size]) for size in range(3)]
        expected = max(able or range(3), key=lambda size: worth[size])
        assert found.typical_size == expected
        enough = [n + 1 for n, share in enumerate(together) if share * typical[expected] >= rate * (1 - 1e-9)]
        assert found.typical_count == (enough[0] if enough else None)


def test_a_sure_rate_leaves_out_the_headroom_of_all_deviations_together() -> None:
    request = replace(sized(3), base_deviation=0.05)
    for size, node_class in product(range(3), range(2)):
        parts = (
            request.base_deviation,
            median(request.count_deviation.tolist()),
            float(request.size_deviation[size]),
            float(request.class_deviation[node_class]),
        )
        headroom = request.caution.headroom(math.hypot(*parts))
        sure = float(request.rate[size, node_class]) / (1 + headroom)
        assert request.sure_rate[size, node_class] == pytest.approx(sure)


def test_the_target_itself_is_enough_for_a_typical_count() -> None:
    request = requested(60e3, profile({4: 11e3, 8: 20e3}, SPEEDS), cluster({"top": 1}), max_replicas=3)
    assert (request.typical_size, request.typical_count) == (1, 3)


def test_extra_work_draws_cores_and_copies_press() -> None:
    request = replace(sized(5), shares={DrawKind.REISSUES: 0.1, DrawKind.CATCH_UP: 0.25})
    assert request.work == pytest.approx(1.35)
    assert request.all_cores == pytest.approx(1.35 * request.cores)
    assert request.all_pressure == pytest.approx(1.1 * request.pressure)
    own, copies, late = request.draws(2, 1, 0)
    assert [(one.kind, one.cores, one.memory_gb) for one in (own, copies, late)] == [
        (DrawKind.REPLICA, 2.0, 4.0),
        (DrawKind.REISSUES, pytest.approx(0.2), 0.0),
        (DrawKind.CATCH_UP, pytest.approx(0.5), 0.0),
    ]
    assert {one.node for one in (own, copies, late)} == {2}
    assert own.tolerated == pytest.approx(request.tolerance[:, 1, 0])
    assert own.caused == pytest.approx(request.pressure[:, 1, 0])
    assert copies.tolerated is late.tolerated is None
    assert copies.caused == pytest.approx(0.1 * own.caused)
    assert not late.caused.any()
    ledger = NodeLedger(UNEQUAL)
    sizing = Sizing(request, ledger)
    sizing.add(2, 1)
    assert ledger.free_cores[2] == pytest.approx(8 - 2.7)
    assert sizing.cost == pytest.approx(1.35 * float(request.cost[1, 0]))
    one_kind = replace(request, shares={DrawKind.REISSUES: 0.1, DrawKind.CATCH_UP: 0.0})
    assert [one.kind for one in one_kind.draws(2, 1, 0)] == [DrawKind.REPLICA, DrawKind.REISSUES]


def plainly(
    request: PlacementRequest, ledger: NodeLedger, some: list[tuple[int, int]], drawn: list[int]
) -> tuple[float, float]:
    """Performance and deviation of some replicas, of which the ledger has these sizes, beside others."""
    if not some:
        return 0.0, 0.0
    rates, by_size, by_class = [], [0.0] * 3, [0.0] * 2
    for (node, size), now in zip(some, drawn, strict=True):
        kind = 0 if node < 3 else 1
        outside = ledger.pressure[:, node] - request.pressure[:, now, kind]
        losses = []
        for pressure, limit in zip(outside, request.tolerance[:, size, kind], strict=True):
            felt = min(max(float(pressure), 0.0), 1.0)
            lost = 0.05 * min(felt / limit, 1.0) ** 4 + max(felt - limit, 0.0)
            beyond = 1 - 1 / float(pressure) if pressure > 1 and limit < 1 else 0.0
            losses.append(max(lost, beyond))
        rate = float(request.rate[size, kind]) * (1 - max(*losses, 0.03))
        rate *= math.exp(request.corrections.get((size, len(some), kind), 0.0))
        rates.append(rate)
        by_size[size] += rate
        by_class[kind] += rate
    variance = 0.03**2 + float(request.count_deviation[len(some) - 1]) ** 2
    for sums, deviations in ((by_size, request.size_deviation), (by_class, request.class_deviation)):
        variance += sum((rate * d) ** 2 for rate, d in zip(sums, deviations, strict=True)) / sum(rates) ** 2
    return float(request.efficiency[len(some) - 1]) * sum(rates), math.sqrt(variance)


@given(seed=st.integers(0, 2**32 - 1), corrected=st.booleans(), unit=st.sampled_from([1.0, 2.0**-14]))
def test_a_forecast_is_what_its_factors_say(seed: int, corrected: bool, unit: float) -> None:
    """The unit in which work is counted changes nothing."""
    rng = np.random.default_rng(seed)
    request, ledger = sized(seed % 7), NodeLedger(UNEQUAL)
    request = replace(request, required=unit * request.required, rate=unit * request.rate)
    if corrected:
        request = replace(request, corrections={(1, 2, 0): -0.5, (0, 3, 1): 0.3, (2, 3, 0): -0.2})
    other = Sizing(replace(sized(seed % 5), workload=workload(1e3, name="other")), ledger)
    sizing = Sizing(request, ledger)
    for one in (other, sizing):
        for _ in range(int(rng.integers(1, 5))):
            node, size = int(rng.integers(7)), int(rng.integers(3))
            if one.takes(node, size):
                one.add(node, size)
    sizing.refresh()
    replicas = [(one.node, one.size) for one in sizing.replicas]

    performance, deviation = plainly(request, ledger, replicas, [size for _, size in replicas])
    found = sizing.forecast()
    assert found.performance == pytest.approx(performance)
    assert sizing.performance() == found.performance
    assert found.deviation == pytest.approx(deviation)
    headroom = max(0.0, math.exp(1.2815515655446004 * deviation) * 0.98 - 1)
    assert found.needed == pytest.approx(unit * 20e3 * (1 + headroom) if replicas else unit * 20e3)
    assert sizing.meets() == (found.performance >= found.needed * (1 - 1e-9))
    assert sizing.cost == pytest.approx(
        sum(float(request.cost[size, 0 if node < 3 else 1]) for node, size in replicas)
    )
    for place in range(len(replicas)):
        for other_size in (None, 0, 1, 2):
            changed = (
                replicas[:place]
                + ([] if other_size is None else [(replicas[place][0], other_size)])
                + replicas[place + 1 :]
            )
            drawn = [size for at, (_, size) in enumerate(replicas) if at != place or other_size is not None]
            performance, deviation = plainly(request, ledger, changed, drawn)
            supposed = sizing.supposed(place, other_size)
            assert supposed.performance == pytest.approx(performance)
            assert supposed.deviation == pytest.approx(deviation)
            room = other_size is None or sizing.has_room(place, other_size)
            if other_size != replicas[place][1]:
                first = sizing.first_that_meets(place, [other_size])
                assert (first == 0) == (supposed.met and room)


@pytest.mark.parametrize(
    ("pressure", "tolerated", "loss"),
    [
        (0.0, 0.5, 0.0),
        (0.25, 0.5, 0.05 / 16),
        (0.5, 0.5, 0.05),
        (0.7, 0.5, 0.25),
        (1.0, 0.5, 0.55),
        (2.0, 0.5, 0.55),  # probes exert no more than 1
        (3.0, 0.5, 2 / 3),  # of three times what there is, each gets a third
        (1.0, 1.0, 0.05),
        (5.0, 1.0, 0.05),
        (1.0, 1e-9, 1.0),
        (-0.1, 0.5, 0.0),
    ],
)
def test_contention_costs_5_percent_at_the_tolerance_and_the_excess_beyond_it(
    pressure: float, tolerated: float, loss: float
) -> None:
    limits = np.array([tolerated, 1.0])
    assert worst_loss(np.array([pressure, 0.1]), limits) == pytest.approx(max(loss, 0.05 * 0.1**4))
    if pressure >= 0:
        assert contention_loss(np.array([[pressure], [0.0]]), limits)[0, 0] == pytest.approx(loss)
        assert contention_loss(np.array([[pressure] * 2]), np.array([[tolerated, 1.0]]))[
            0, 0
        ] == pytest.approx(loss)


@given(seed=st.integers(0, 2**32 - 1), many=st.booleans())
def test_nodes_are_scored_by_the_largest_size_that_fits(seed: int, many: bool) -> None:
    rng = np.random.default_rng(seed)
    count = 300 if many else 12
    nodes = Cluster(CLASSES, tuple(Node(f"n{n}", "top" if n % 3 else "low") for n in range(count)))
    request = sized(seed % 6, spread=Spread.NODE)
    if rng.random() < 0.5:  # so that contention turns the order of the classes, with work in large units
        request = replace(request, rate=2.0**-14 * request.rate[:, :1] * np.array([1.0, 0.98]))
    ledger = fill(
        NodeLedger(nodes),
        free_cores=np.minimum(rng.choice([0.5, 1.0, 1.5, 2.0, 3.9, 4.0, 8.0], count), nodes.cores),
        free_memory_gb=rng.choice([1.0, 1.5, 2.0, 3.0, 4.0, 16.0], count),
        pressure=rng.uniform(0, 0.35, (len(SOURCES), count)),
    )
    found = contention_on(request, ledger)
    for largest in (None, 0, 1):
        scores = node_scores(request, ledger, found, largest)
        for node in range(count):
            fitting = [
                size
                for size in range(3 if largest is None else largest + 1)
                if request.cores[size] <= ledger.free_cores[node]
                and request.memory_gb[size] <= ledger.free_memory_gb[node]
                and np.all(ledger.pressure[:, node] <= request.tolerance[:, size, nodes.class_of[node]])
            ]
            kind = int(nodes.class_of[node])
            best = max(fitting, default=NO_SIZE)
            assert scores.size[node] == best
            quality = float(request.rate[best, kind]) * (1 - found.loss[best, node]) if fitting else 0.0
            assert scores.quality[node] == pytest.approx(quality)
    offers = [list(one) for one in offers_by_size(request, ledger, found)]
    ranks = [(by_quality, None), *((by_cost, largest) for largest in (2, 1, 0))]
    for offered, (rank, largest) in zip(offers, ranks, strict=True):
        scores = node_scores(request, ledger, found, largest)
        worth = rank.of(request, scores)
        expected = [node for node in np.argsort(-worth, kind="stable").tolist() if worth[node] > 0]
        assert offered == [(node, int(scores.size[node])) for node in expected]


def explained() -> tuple[list[PlacedOrNot], NodeLedger]:
    """Two workloads on one node, and one alone that has room nowhere else."""
    nodes = cluster({"top": 1, "low": 1})
    ledger = NodeLedger(nodes)
    loud = profile({2: 5e3, 4: 9e3}, SPEEDS, name="loud", caused=over_sources(0.0, disk=0.3, l2=0.1))
    quiet = profile(
        {2: 6e3}, SPEEDS, name="quiet", tolerated=over_sources(1.0, disk=0.5, l2=0.5), efficiency=[1.0, 0.9]
    )
    placed = []
    for about, places in ((loud, [(0, 1)]), (quiet, [(0, 0), (1, 0)])):
        sizing = Sizing(requested(5e3, about, nodes), ledger)
        for node, size in places:
            sizing.add(node, size)
        placed.append(PlacedOrNot(sizing))
    for one in placed:
        one.sizing.refresh()
    return placed, ledger


def test_the_factors_of_a_replica_explain_its_rate() -> None:
    placed, ledger = explained()
    found = explain_placement(placed, ledger)
    loud, first, second = found.factors
    assert (loud.workload, loud.node, loud.cores, loud.memory_gb) == ("loud", "top-0", 4.0, 1.0)
    assert (loud.base, loud.latency, loud.contention, loud.efficiency) == (9e3, 1.0, 1.0, 1.0)
    assert (loud.size, loud.node_class, loud.rate) == pytest.approx((1.0, 1.0, 9e3))
    assert loud.source == ""
    loss = 0.05 * (0.3 / 0.5) ** 4
    assert first.contention == pytest.approx(1 - loss)
    assert (first.source, second.source) == ("disk", "")
    assert first.efficiency == second.efficiency == pytest.approx(0.9)
    assert second.node_class == pytest.approx(0.6)
    for one in found.factors:
        product = one.base * one.size * one.node_class * one.latency * one.contention * one.efficiency
        assert one.rate == pytest.approx(product)
    assert sum(one.rate for one in (first, second)) == pytest.approx(placed[1].sizing.forecast().performance)


def test_what_neighbours_cost_one_another_is_told_largest_first() -> None:
    placed, ledger = explained()
    (cost,) = explain_placement(placed, ledger).neighbours
    assert (cost.node, cost.by, cost.to, cost.source) == ("top-0", "loud", "quiet", "disk")
    assert cost.loss == pytest.approx(0.05 * (0.3 / 0.5) ** 4)
    third = Sizing(
        requested(
            1e3, profile({1: 1e3}, SPEEDS, name="third", caused=over_sources(0.0, disk=0.1)), ledger.cluster
        ),
        ledger,
    )
    third.add(0, 0)
    found = explain_placement([*placed, PlacedOrNot(third)], ledger).neighbours
    told = {(one.by, one.to): one.loss for one in found}
    assert [one.loss for one in found] == sorted((one.loss for one in found), reverse=True)
    whole = 0.05 * (0.4 / 0.5) ** 4
    assert told["loud", "quiet"] == pytest.approx(whole - 0.05 * (0.1 / 0.5) ** 4)
    assert told["third", "quiet"] == pytest.approx(whole - 0.05 * (0.3 / 0.5) ** 4)
    assert told["third", "loud"] == pytest.approx(0.05 * 0.1**4)
    assert told["loud", "third"] == pytest.approx(0.05 * 0.3**4)
    assert len(found) == 4


@pytest.mark.parametrize(("disk", "loss"), [(0.0, 0.0), (0.5, 0.05 * 0.2**4)])
def test_pressure_of_others_counts_as_0_where_a_workload_is_now_expected_to_exert_more_than_there_is(
    disk: float, loss: float
) -> None:
    nodes = cluster({"top": 1})
    ledger = NodeLedger(nodes)
    placed = []
    for name, caused in (("by", disk), ("to", 0.0)):
        about = profile({2: 5e3}, SPEEDS, name=name, caused=over_sources(0.0, disk=caused))
        sizing = Sizing(requested(5e3, about, nodes), ledger)
        sizing.add(0, 0)
        placed.append(PlacedOrNot(sizing))
    thought = profile({2: 5e3}, SPEEDS, name="to", caused=over_sources(0.0, disk=0.3))
    placed[1].sizing.renew(requested(5e3, thought, nodes))
    found = explain_placement(placed, ledger)
    assert [one.source for one in found.factors] == ["", "disk" if loss else ""]
    assert [(one.by, one.to) for one in found.neighbours] == ([("by", "to")] if loss else [])
    assert sum(one.loss for one in found.neighbours) == pytest.approx(loss)


def test_nodes_with_room_that_contention_refuses_are_counted() -> None:
    placed, ledger = explained()
    # On `top-0`, `quiet` bears 0.5, of which 0.3 is there: the smaller size of `loud` adds 0.17.
    assert explain_placement(placed, ledger).refused == {"loud": 0, "quiet": 0}
    occupy(ledger, 0, caused=over_sources(0.0, disk=0.1).mean)
    assert explain_placement(placed, ledger).refused == {"loud": 1, "quiet": 0}
    assert ledger.free_cores.tolist() == [2.0, 6.0]
    occupy(ledger, 0, memory_gb=ledger.free_memory_gb[0] - 1.0)
    assert explain_placement(placed, ledger).refused == {"loud": 1, "quiet": 0}
    occupy(ledger, 0, cores=1.0)
    assert explain_placement(placed, ledger).refused == {"loud": 0, "quiet": 0}


@pytest.mark.parametrize("rate", [30e3, 90e3, 150e3, 1e6])
@pytest.mark.parametrize("name", ["quasar", "thrifty"])
def test_as_many_nodes_are_proposed_as_are_needed(rate: float, name: str) -> None:
    """Beside a node that is in use, and best-effort work that makes room."""
    nodes = Cluster(CLASSES, (Node("n0", "low"), Node("new-1", "top")))
    about = profile(
        {2: 6e3, 4: 11e3, 8: 20e3}, SPEEDS, name="w", efficiency=[1 / (1 + 0.02 * n) for n in range(20)]
    )
    filler = requested(None, profile({2: 1e3}, SPEEDS, name="filler"), nodes, spread=Spread.NONE)
    other = requested(10e3, profile({4: 11e3}, SPEEDS, name="other"), nodes)
    chosen = scheduler(name)
    ledger = NodeLedger(nodes)
    running = [one.sizing for one in admit_all([other, filler], ledger, chosen)]
    (waiting,) = admit_all([requested(rate, about, nodes)], ledger, chosen, running)
    assert waiting.queued
    taken = {one.node for one in running[0].replicas}
    options = []
    for one in CLASSES:
        for count in range(1, 21):
            more = tuple(Node(f"more-{number}", one.name) for number in range(count))
            grown = NodeLedger(Cluster(CLASSES, (*nodes.nodes, *more)))
            for node in taken:
                for draw in ledger.residents(node):
                    if draw.owner == "other":
                        grown.take(draw)
            trial = Sizing(replace(waiting.request), grown)
            chosen.place(trial)
            if chosen.satisfied(trial):
                assert one.cost_per_hour is not None
                options.append((count * one.cost_per_hour, one.name, count))
                break
    found = nodes_to_add(waiting, chosen, ["filler"])
    if not options:
        assert found is None
        return
    assert found is not None
    cost, node_class, count = min(options)
    assert (found.node_class, found.count) == (node_class, count)
    assert found.cost_per_hour == pytest.approx(cost)


def test_a_document_tells_chances_costs_and_what_free_nodes_could_give() -> None:
    nodes = cluster({"top": 3})
    about = profile({4: 11e3, 8: 20e3}, {"top": 1.0}, name="w", deviation=0.1)
    caution = Caution(confidence=0.9, later_loss=0.0)
    asked = [
        requested(30e3, about, nodes, caution=caution),
        requested(1e6, replace(about, name="wide"), nodes, caution=caution),
    ]
    found = admit_all(asked, NodeLedger(nodes), scheduler("quasar"))
    met, waiting = document(nodes, found, scheduler="quasar", confidence=0.9).workloads
    forecast = found[0].sizing.forecast()
    assert (met.expected, met.needed) == (forecast.performance, forecast.needed)
    assert met.needed == pytest.approx(30e3 * math.exp(1.2815515655446004 * 0.1))
    assert met.probability == caution.probability(forecast.performance / 30e3, 0.1)
    assert met.cost_per_hour == pytest.approx(found[0].sizing.cost)
    assert waiting.nearest_empty == pytest.approx(60e3 / math.exp(1.2815515655446004 * 0.1))
    assert waiting.nearest < waiting.nearest_empty
    assert waiting.probability == 0.0


def test_a_renewed_request_changes_the_need_of_the_next_forecast() -> None:
    sizing = Sizing(sized(0), NodeLedger(UNEQUAL))
    sizing.add(0, 2)
    before = sizing.forecast()
    sizing.renew(sized(0, rate=40e3))
    assert sizing.forecast().performance == before.performance
    assert sizing.forecast().needed == pytest.approx(2 * before.needed)


def test_a_correction_is_found_at_its_size_count_and_class() -> None:
    about = uncertain(6)
    told = (
        Correction(size=about.sizes[2], replicas=3, node_class="low", mean=-0.4),
        Correction(size=about.sizes[0], replicas=1, node_class="top", mean=0.2),
    )
    found = request_for(workload(1e3), replace(about, corrections=told), UNEQUAL, CAUTION)
    assert found.corrections == {(2, 3, 1): -0.4, (0, 1, 0): 0.2}


def test_best_effort_work_needs_nothing_and_so_misses_nothing_without_replicas() -> None:
    nodes = cluster({"top": 1})
    for rate, met in ((None, True), (1e3, False)):
        found = Sizing(requested(rate, profile({1: 1e3}, SPEEDS), nodes), NodeLedger(nodes)).forecast()
        assert (found.performance, found.needed, found.met) == (0.0, rate or 0.0, met)
