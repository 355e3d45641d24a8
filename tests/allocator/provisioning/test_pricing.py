"""Bills and break-evens: exact anchors of the specification, and idle times."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from kwiken.allocator.provisioning.offers import NodeOffer, Terms
from kwiken.allocator.provisioning.pricing import (
    Commitment,
    best_by_weeks,
    bill,
)
from kwiken.allocator.provisioning.retention import idle_gaps_s, keep_idle_s, retention_cost_s, ski_rental_s
from papers.hcloud.costs import break_even_weeks, sustained_use_factor

OFFER = NodeOffer(
    name="n",
    node_class="c",
    terms=Terms.ON_DEMAND,
    cores=4,
    price_per_hour=3.6,
    boot_s=15,
    min_billed_s=60,
)


def test_break_evens_are_those_of_the_specification() -> None:
    assert break_even_weeks(2.74, 210, 221) == pytest.approx(18.1, abs=0.1)
    assert break_even_weeks(2.74, 1200, 400) == pytest.approx(57, abs=0.2)
    assert break_even_weeks(2.74, 800, 759) == pytest.approx(20, abs=0.1)
    assert break_even_weeks(2.74, 280, 213) == pytest.approx(25, abs=0.1)


def test_a_reservation_is_paid_for_whole_terms() -> None:
    reserved = Commitment(100.0, 0.0, 365)
    assert reserved.committed(1) == reserved.committed(52) == pytest.approx(8760 * 100)
    assert reserved.committed(53) == pytest.approx(2 * 8760 * 100)
    assert Commitment(0.0, 5.0, 1).committed(2) == pytest.approx(2 * 168 * 5)


def test_the_cheapest_changes_with_the_weeks() -> None:
    strategies = {"rent": Commitment(0.0, 10.0, 1), "reserve": Commitment(4.0, 0.0, 365)}
    assert best_by_weeks(strategies, 60)[:2] == [(1, "rent"), (21, "reserve")]


@pytest.mark.parametrize(("share", "factor"), [(0.25, 1.0), (0.5, 0.9), (0.75, 0.8), (1.0, 0.7)])
def test_sustained_use(share: float, factor: float) -> None:
    assert sustained_use_factor(share) == pytest.approx(factor)


@pytest.mark.parametrize(("up_s", "billed_s"), [(0.0, 60), (59.2, 60), (60.2, 61), (3600.0, 3600)])
def test_seconds_are_billed_whole_from_a_least_time(up_s: float, billed_s: float) -> None:
    assert bill(OFFER, up_s) == pytest.approx(0.001 * billed_s)


def test_gaps_are_those_between_two_needs() -> None:
    nodes = np.array([2, 1, 1, 2, 0, 2])
    assert sorted(idle_gaps_s(nodes.astype(float), 10.0)) == [10.0, 10.0, 20.0]


def test_idle_nodes_are_kept_by_ski_rental_before_there_are_gaps() -> None:
    assert keep_idle_s(OFFER, np.array([])) == ski_rental_s(OFFER) == 150.0


@given(st.lists(st.floats(1, 1000), min_size=20, max_size=60))
def test_learned_times_cost_no_more_than_ski_rental(gaps: list[float]) -> None:
    gaps_s = np.array(gaps)
    learned = retention_cost_s(gaps_s, keep_idle_s(OFFER, gaps_s), OFFER.boot_s)
    assert learned <= retention_cost_s(gaps_s, ski_rental_s(OFFER), OFFER.boot_s) + 1e-9
    perfect = np.minimum(gaps_s, ski_rental_s(OFFER)).sum()
    assert retention_cost_s(gaps_s, ski_rental_s(OFFER), OFFER.boot_s) <= 2 * perfect + 1e-9
