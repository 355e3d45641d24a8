"""Lower convex, non-increasing hull of points: anchors and invariants."""

from __future__ import annotations

import numpy as np
from hypothesis import given, strategies as st

from kwiken.tail.curves.curve import lower_hull

SHARES = st.integers(0, 10**7).map(lambda count: count / 10**7)  # of at most as many requests
POINTS = st.lists(
    st.tuples(SHARES, st.floats(0, 1e6)), min_size=1, max_size=30, unique_by=lambda point: point[0]
).map(sorted)


def test_bridges_a_flat_part_that_a_greedy_search_would_stall_on() -> None:
    x = np.array([0.0, 0.01, 0.02, 0.03, 0.1])
    y = np.array([100.0, 100.0, 100.0, 10.0, 5.0])
    hull, vertices = lower_hull(x, y)
    assert np.allclose(hull, [100, 70, 40, 10, 5])
    assert vertices.tolist() == [True, False, False, True, True]


def test_stays_flat_beyond_the_lowest_point() -> None:
    hull, vertices = lower_hull(np.array([0.0, 0.5, 1.0]), np.array([3.0, 1.0, 2.0]))
    assert hull.tolist() == [3, 1, 1]
    assert vertices.tolist() == [True, True, False]


def test_one_point_is_its_own_hull() -> None:
    hull, vertices = lower_hull(np.array([0.0]), np.array([4.0]))
    assert hull.tolist() == [4]
    assert vertices.all()


@given(POINTS)
def test_is_below_the_points_convex_and_falling(points: list[tuple[float, float]]) -> None:
    x, y = np.array([p[0] for p in points]), np.array([p[1] for p in points])
    hull, vertices = lower_hull(x, y)
    slack = 1e-9 * (1 + y.max())
    assert (hull <= y).all()
    assert np.array_equal(hull[vertices], y[vertices])
    assert (np.diff(hull) <= slack).all()
    for i in range(len(x) - 2):
        weight = (x[i + 1] - x[i]) / (x[i + 2] - x[i])
        assert hull[i + 1] <= (1 - weight) * hull[i] + weight * hull[i + 2] + slack


@given(POINTS)
def test_hull_of_the_hull_is_the_hull(points: list[tuple[float, float]]) -> None:
    x, y = np.array([p[0] for p in points]), np.array([p[1] for p in points])
    once, _ = lower_hull(x, y)
    twice, _ = lower_hull(x, once)
    assert np.allclose(once, twice, rtol=1e-12, atol=1e-9)
