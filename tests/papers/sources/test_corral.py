"""Corral's reproduction: generators, ablations of the orders that fail, and the parts that are listed."""

from __future__ import annotations

import pytest

from papers.corral import ablation, gap_ablation, selector_ablation
from papers.corral.requests import (
    RequestAdmission,
    RequestSettings,
    drawn_requests,
)
from papers.corral.workloads import ONLINE_S, START_S, w1, w2
from papers.sources import reproduction


def test_a_rate_changes_the_time_of_tasks_alone() -> None:
    for slow, fast in (
        (w1(20, 5), w1(20, 5, rate=40e6)),
        (w2(5), w2(5, rate=40e6)),
    ):
        for one, other in zip(slow, fast, strict=True):
            assert one.input_bytes == other.input_bytes
            for before, after in zip(one.stages, other.stages, strict=True):
                assert (before.tasks, before.shuffled_bytes) == (after.tasks, after.shuffled_bytes)
                assert before.task_s - START_S == pytest.approx(4 * (after.task_s - START_S))


def test_every_part_is_listed_once() -> None:
    names = [part.name for part in reproduction("corral", seeds=1).parts]
    assert len(set(names)) == len(names)
    assert {"batch", "online", "flows", "rates of tasks"} <= set(names)
    assert {"sizes of tuples", "loads of quicker tuples", "gap of W2"} <= set(names)


@pytest.mark.parametrize("largest", [1.0, 2.0])
def test_a_greatest_size_takes_tuples_away_and_changes_nothing_else(largest: float) -> None:
    every = drawn_requests(RequestSettings(requests=20), 5)
    bound = drawn_requests(RequestSettings(requests=20, largest=largest), 5)
    for one, other in zip(every, bound, strict=True):
        assert (one.base, one.arrival_s, one.input_bytes) == (other.base, other.arrival_s, other.input_bytes)
        kept = [offer for offer in one.offers[1:] if offer.size <= largest * one.base.size]
        assert list(other.offers[1:]) == kept


def _taken(rejected: float, goodput: float) -> RequestAdmission:
    return RequestAdmission(rejected, goodput, 0.0, 1.0, 0.0, slot_time=1.2)


def test_rows_of_sizes_and_loads_say_where_an_order_holds() -> None:
    good = {"Baseline": _taken(0.3, 1.0), "Corral-R": _taken(0.2, 1.5), "Corral-I": _taken(0.1, 2.0)}
    bad = {**good, "Corral-R": _taken(0.4, 0.9)}
    points = len(selector_ablation.POINTS)
    one_bad = [good, good, bad, good, good]  # at full occupancy
    sizes = selector_ablation.conclude_sizes([[[good] * points], [one_bad], [[bad] * points]])
    orders = [row.verdict for row in sizes.rows if row.kind == "order"]
    assert orders == ["held", "held", "held", "failed", "held", "held", "failed", "failed", "failed"]
    quick = {"Corral-I": _taken(0.1, 2.0), "Corral-T": _taken(0.1, 2.5)}
    tied = {**quick, "Corral-T": _taken(0.1, 2.01)}
    loads = selector_ablation.conclude_loads([[tied], [quick], [quick]])
    assert [row.verdict for row in loads.rows if row.kind == "order"] == ["failed", "held", "held"]


def test_a_giant_in_parts_keeps_its_bytes_and_nearly_its_tasks() -> None:
    (giant,) = [job for job in w2(5, span_s=ONLINE_S) if job.name == "giant-0"]
    parts = gap_ablation.parts_of(giant)
    assert len(parts) == len({part.name for part in parts}) == gap_ablation.PARTS_OF_GIANT
    assert sum(part.input_bytes for part in parts) == pytest.approx(giant.input_bytes)
    for place, stage in enumerate(giant.stages):
        mine = [part.stages[place] for part in parts]
        assert sum(each.shuffled_bytes for each in mine) == pytest.approx(stage.shuffled_bytes)
        assert sum(each.tasks for each in mine) == pytest.approx(stage.tasks, rel=1e-3)


def test_rows_of_the_gap_say_whether_it_is_halved() -> None:
    found = gap_ablation.conclude_gaps([[(0.1, 0.2), (0.11, 0.2)]] * len(gap_ablation.CASES))
    assert [row.verdict for row in found.rows if row.kind == "order"] == ["failed"] * 4


def test_rows_of_the_ablation_say_where_an_order_holds() -> None:
    seeds = [{"W1 batch": -30.0, "W1 online": -0.5, "W2 batch": 20.0, "W1 flows": 5.0, "giants": 3.0}] * 2
    found = ablation.conclude_rates([seeds] * len(ablation.RATES_MB_PER_S))
    orders = {row.metric.split(": ", 2)[2]: row.verdict for row in found.rows if row.kind == "order"}
    assert orders["Corral before Yarn-CS, W1 batch, seeds of 2"] == "held"
    assert orders["Corral before Yarn-CS, W1 online, seeds of 2"] == "failed"
    assert orders["Corral before Yarn-CS, W2 batch, seeds of 2"] == "failed"


@pytest.mark.slow
def test_giants_get_three_racks_where_tasks_are_quick() -> None:
    assert ablation.at_rate(10, 300)["giants"] < ablation.at_rate(40, 300)["giants"] == 3
