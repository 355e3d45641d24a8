"""Hierarchical chains: counts of transitions, sums that levels keep, landing, subsets with a cloud."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from papers.echo.chains import Racks, expected_map, subset, transitions

RACKS = Racks(np.repeat(np.arange(6), 4), np.arange(6) // 2)


def matrix(seed: int, count: int = 24) -> np.ndarray:
    found = np.random.default_rng(seed).pareto(1.0, (count, count))
    np.fill_diagonal(found, 0.0)
    return np.asarray(found)


def test_transitions_are_those_of_the_formulas() -> None:
    assert transitions(4, 2, 2, 3) == 22
    assert transitions(100, 10, 48, 1) == 100
    assert transitions(100, 10, 48, 2) == 1090
    assert transitions(100, 10, 48, 3) == 231_390
    assert round(100 * (1 - transitions(100, 10, 48, 2) / 100**2), 1) == 89.1
    assert round(100 * (1 - transitions(100, 20, 48, 2) / 100**2), 1) == 91.2


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_landing_by_share_keeps_what_each_server_sends_and_receives(seed: int) -> None:
    traffic = matrix(seed)
    found = expected_map(traffic, RACKS)
    assert found.sum(axis=0) == pytest.approx(traffic.sum(axis=0), rel=1e-9)
    assert found.sum(axis=1) == pytest.approx(traffic.sum(axis=1), rel=1e-9)


@pytest.mark.parametrize("levels", [1, 2, 3])
def test_every_number_of_levels_keeps_the_traffic_between_groups(levels: int) -> None:
    traffic = matrix(1)
    found = expected_map(traffic, RACKS, levels)
    onto = np.eye(3)[RACKS.server_group]
    assert onto.T @ found @ onto == pytest.approx(onto.T @ traffic @ onto, rel=1e-9)


def test_traffic_that_stays_in_racks_is_kept_exactly_by_three_levels_alone() -> None:
    traffic = matrix(2) * (RACKS.rack[:, None] == RACKS.rack)
    assert expected_map(traffic, RACKS) == pytest.approx(traffic)
    assert np.abs(expected_map(traffic, RACKS, 1) - traffic).sum() > 0.1 * traffic.sum()


def test_uniform_traffic_is_the_same_at_all_levels() -> None:
    traffic = np.ones((24, 24))
    for levels in (1, 2, 3):
        assert expected_map(traffic, RACKS, levels) == pytest.approx(traffic)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000), count=st.integers(1, 23))
def test_a_cloud_keeps_the_totals_of_any_subset(seed: int, count: int) -> None:
    traffic = matrix(seed)
    servers = np.sort(np.random.default_rng(seed).choice(24, size=count, replace=False))
    found = expected_map(subset(traffic, servers, cloud=True), RACKS.among(servers, cloud=True))
    assert found.sum(axis=1)[:-1] == pytest.approx(traffic.sum(axis=1)[servers], rel=1e-9)
    assert found.sum(axis=0)[:-1] == pytest.approx(traffic.sum(axis=0)[servers], rel=1e-9)
    alone = subset(traffic, servers, cloud=False)
    assert (alone.sum(axis=1) <= traffic.sum(axis=1)[servers]).all()
