"""Headroom: the source's law, and targets met as often as promised."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, strategies as st

from kwiken.allocator.placement.headroom import SOURCE_CAUTION, Caution
from kwiken.allocator.placement.node_ledger import NodeLedger
from kwiken.allocator.placement.quality import contention_on
from kwiken.allocator.placement.sizing import Sizing
from kwiken.allocator.placement.walks import by_quality, walk
from kwiken.allocator.workloads.completion.tails import ErrorTails
from kwiken.allocator.workloads.profile import Correction, Estimate
from tests.support.runtime.clusters import cluster, over_sources, profile, requested

SIGMA = 0.085


def reaching(headroom: float, share: float) -> float:
    errors = np.random.default_rng(0).normal(0, SIGMA, 400_000)
    return float(np.mean((1 + headroom) * np.exp(errors) >= share))


def test_law_of_the_source() -> None:
    """Without headroom 73% of the jobs reach 95% of the target; 95% do with 9%."""
    counted = Caution(confidence=0.95, shortfall=0.05, later_loss=0.0)
    assert reaching(0.0, 0.95) == pytest.approx(0.73, abs=0.02)
    assert counted.headroom(SIGMA) == pytest.approx(0.09, abs=0.005)
    assert reaching(counted.headroom(SIGMA), 0.95) == pytest.approx(0.95, abs=0.002)
    assert counted.probability(1.0, SIGMA) == pytest.approx(0.727, abs=0.001)
    assert SOURCE_CAUTION.headroom(SIGMA) == 0.0


@given(st.floats(0.5, 0.999), st.floats(0, 0.3), st.floats(0.001, 0.5), st.sampled_from([1.0, 3.0, math.inf]))
def test_headroom_gives_the_confidence(
    confidence: float, shortfall: float, deviation: float, freedom: float
) -> None:
    caution = Caution(confidence=confidence, shortfall=shortfall, later_loss=0.0, tails=ErrorTails(freedom))
    chance = caution.probability(1 + caution.headroom(deviation), deviation)
    assert chance >= confidence - 1e-9
    if caution.headroom(deviation) > 0:
        assert chance == pytest.approx(confidence)


@pytest.mark.parametrize(
    ("name", "low", "high"), [("confidence", 0.5, 0.9999), ("shortfall", 0.0, 0.5), ("later_loss", 0.0, 0.5)]
)
def test_caution_out_of_range_is_refused(name: str, low: float, high: float) -> None:
    for value in (low, high):
        assert getattr(replace(Caution(), **{name: value}), name) == value  # type: ignore[arg-type]
    for value in (low - 1e-6, high + 1e-6, float("nan")):
        with pytest.raises(ValueError, match=name):
            replace(Caution(), **{name: value})  # type: ignore[arg-type]


def test_a_shortfall_does_not_lower_what_a_certain_prediction_needs() -> None:
    assert Caution(shortfall=0.05).headroom(0.0) == 0.0


def test_errors_of_a_size_and_of_a_class_are_common_to_the_replicas_that_have_it() -> None:
    """Two replicas alike err alike; two of different sizes, or on different classes, err by half the variance."""
    found = profile({1.0: 100.0, 2.0: 100.0, 4.0: 200.0}, {"top": 1.0, "low": 1.0}, deviation=0.01)
    nodes = cluster({"top": 3, "low": 3})
    for part, apart in (("up", ((0, 0), (1, 1))), ("het", ((0, 0), (3, 0)))):
        estimate = getattr(found, part)
        uncertain = replace(found, **{part: replace(estimate, deviation=np.full(len(estimate.mean), SIGMA))})
        sized = requested(150.0, uncertain, nodes)
        for places, variance in (((apart[0], (1, apart[0][1])), SIGMA**2), (apart, SIGMA**2 / 2)):
            sizing = Sizing(sized, NodeLedger(nodes))
            for node, size in places:
                sizing.add(node, size)
            total = sizing.forecast()
            assert total.deviation**2 == pytest.approx(variance + 0.01**2)


def test_placed_workloads_meet_targets_as_often_as_promised() -> None:
    nodes = cluster({"top": 40})
    rng = np.random.default_rng(3)
    for caution, low, high in (
        (SOURCE_CAUTION, 0.45, 0.75),
        (Caution(confidence=0.9, later_loss=0.0), 0.88, 0.98),
    ):
        met = []
        for _ in range(400):
            rate = float(rng.uniform(5e3, 200e3))
            about = profile({1: 3e3, 2: 5.6e3, 4: 10.5e3, 6: 15e3, 8: 20e3}, {"top": 1.0}, deviation=SIGMA)
            sizing = Sizing(requested(rate, about, nodes, caution=caution), NodeLedger(nodes))
            walk(sizing, by_quality)
            truth = sizing.forecast().performance * np.exp(rng.normal(0, SIGMA))
            met.append(truth >= rate)
        assert low <= np.mean(met) <= high


def test_only_parts_that_are_uncertain_tell_the_tails_also_where_one_entry_is_certain() -> None:
    nodes = cluster({"top": 1})
    heavy = ErrorTails(freedom=3.0, narrowing=1.0)
    about = profile({1: 1e3, 2: 2e3}, {"top": 1.0})
    partly = Estimate(about.up.mean, np.array([0.0, 0.2]), heavy)
    assert requested(1e3, replace(about, up=partly), nodes).caution.tails == heavy
    certain = Estimate(about.up.mean, np.zeros(2), heavy)
    assert requested(1e3, replace(about, up=certain), nodes).caution.tails != heavy


def test_corrections_of_other_sizes_and_classes_are_left_out() -> None:
    nodes = cluster({"top": 1})
    about = profile({1: 1e3, 2: 2e3}, {"top": 1.0, "elsewhere": 1.0})
    few, many = about.sizes
    given = tuple(
        Correction(size=size, replicas=1, node_class=name, mean=0.1)
        for size, name in ((many, "top"), (few, "elsewhere"))
    )
    found = requested(1e3, replace(about, corrections=given), nodes)
    assert found.corrections == {(1, 1, 0): 0.1}
    small = requested(1e3, replace(about, corrections=given), cluster({"top": 1}, cores=1))
    assert small.corrections == {}  # where two cores fit nowhere


def test_sizes_are_nested_where_cores_and_memory_never_fall() -> None:
    one = requested(1e3, profile({1: 1e3, 2: 2e3, 4: 3e3}, {"top": 1.0}), cluster({"top": 1}))
    assert one.nested
    assert replace(one, cores=np.array([1.0, 2.0, 2.0]), memory_gb=np.array([1.0, 1.0, 4.0])).nested
    assert not replace(one, cores=np.array([1.0, 4.0, 2.0])).nested
    assert not replace(one, memory_gb=np.array([1.0, 4.0, 2.0])).nested


def test_full_pressure_at_a_source_that_is_tolerated_refuses_nobody_whatever_others_tolerate() -> None:
    nodes = cluster({"top": 1})
    ledger = NodeLedger(nodes)
    for name in ("a", "b"):
        loud = profile({1: 1e3}, {"top": 1.0}, name=name, caused=over_sources(0.0, network=0.8))
        Sizing(requested(None, loud, nodes), ledger).add(0, 0)
    quiet = profile({1: 1e3}, {"top": 1.0}, tolerated=over_sources(1.0, disk=0.5))
    found = contention_on(requested(1e3, quiet, nodes), ledger)
    assert not found.refused[0]
    assert found.loss[0] == pytest.approx(0.05)


@pytest.mark.parametrize(
    ("ratio", "shortfall", "chance"),
    [
        (1.0, 0.0, 1.0),
        (0.999, 0.0, 0.0),
        (1.5, 0.0, 1.0),
        (0.95, 0.05, 1.0),
        (0.94, 0.05, 0.0),
        (0.0, 0.0, 0.0),
    ],
)
def test_a_certain_prediction_meets_its_target_or_not(ratio: float, shortfall: float, chance: float) -> None:
    assert Caution(shortfall=shortfall).probability(ratio, 0.0) == chance
