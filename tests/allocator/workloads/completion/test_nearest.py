"""Nearest rows, compared with a scan of all rows and the medians of their columns."""

from __future__ import annotations

import statistics

import numpy as np
import pytest
from hypothesis import given, strategies as st

from kwiken.allocator.workloads.completion.gaussian import MIN_VARIANCE, EntryErrors
from kwiken.allocator.workloads.completion.nearest import NearestModel, NearestRows
from kwiken.base.arrays import Floats


def rows(seed: int, count: int = 9, size: int = 5) -> Floats:
    return np.random.default_rng(seed).normal(0, 0.5, (count, size))


def scanned(model: NearestModel, columns: list[int], values: list[float]) -> list[tuple[float, int]]:
    """Distances and numbers of the nearest rows, those as near as the last one included."""
    found = []
    for number, row in enumerate(model.rows.tolist()):
        apart = [row[column] - value for column, value in zip(columns, values, strict=True)]
        middle = statistics.fmean(apart) if model.level else 0.0
        found.append((statistics.fmean((one - middle) ** 2 for one in apart) ** 0.5, number))
    found.sort()
    last = found[min(model.count or len(found), len(found)) - 1][0]
    return [one for one in found if one[0] <= last + 1e-9]


@given(
    st.integers(0, 1000),
    st.sampled_from([1, 2, 4, 9, 12, None]),
    st.lists(st.integers(0, 4), min_size=1, max_size=4, unique=True),
    st.booleans(),
    st.booleans(),
)
def test_a_row_is_the_median_of_its_neighbours(
    seed: int, count: int | None, columns: list[int], level: bool, stated: bool
) -> None:
    known, at = rows(seed), np.array(columns)
    rng = np.random.default_rng(seed)
    values, repeats = rng.normal(size=len(at)), rng.integers(1, 5, len(at)).astype(float)
    own = rng.uniform(0, 0.2, len(at)) if stated else None
    model = NearestRows(count).fit(known, level=level)
    near = scanned(model, columns, values.tolist())
    numbers, distances = model.neighbours(at, values)
    assert distances == pytest.approx([apart for apart, _ in near])
    assert sorted(numbers.tolist()) == sorted(number for _, number in near)
    aligned = [
        [value - (statistics.fmean(row[at]) if level else 0.0) for value in row.tolist()] for row in known
    ]
    errors = 4e-4 / repeats + (0.0 if own is None else own)
    found = model.complete(at, values, EntryErrors(repeats, own))
    shift = statistics.fmean(values) if level else 0.0
    for column in range(5):
        told = [aligned[number][column] for _, number in near]
        middle, over_all = statistics.median(told), [row[column] for row in aligned]
        whole = statistics.median(over_all)
        spread = statistics.fmean((one - whole) ** 2 for one in over_all)
        variance = (sum((one - middle) ** 2 for one in told) + 2 * spread) / (len(told) - 1 + 2)
        variance *= 1 + 1 / len(told)
        expected, mean = variance, middle + shift
        if level:
            expected += errors.mean() / len(at)
        if column in columns:
            place = columns.index(column)
            trust = 1.0 if own is None else (variance + 1e-10) / (variance + 1e-10 + errors[place])
            mean += trust * (values[place] - mean)
            expected = trust * errors[place]
        assert found.mean[column] == pytest.approx(mean)
        assert found.covariance[column, column] == pytest.approx(expected)
    hidden = np.setdiff1d(np.arange(5), at)
    assert not found.covariance[np.ix_(at, hidden)].any()
    assert not found.covariance[np.ix_(hidden, at)].any()
    means, deviations = model.predict(at, np.array([values, values + 1.0]))
    for mean, deviation, entries in zip(means, deviations, (values, values + 1.0), strict=True):
        alone = model.complete(at, entries)
        assert mean == pytest.approx(alone.mean)
        assert deviation == pytest.approx(alone.deviation)
        assert (mean[at] == entries).all()


def test_rows_that_are_equally_near_stand_in_their_order() -> None:
    known = np.array([[0.0, 3.0], [2.0, 1.0], [0.5, 5.0], [1.5, 2.0], [4.0, 9.0], [1.5, 7.0]])
    numbers, distances = NearestRows(3).fit(known, level=False).neighbours(np.array([0]), np.array([1.0]))
    assert numbers.tolist() == [2, 3, 5]
    numbers, distances = NearestRows(4).fit(known, level=False).neighbours(np.array([0]), np.array([1.0]))
    assert numbers.tolist() == [2, 3, 5, 0, 1]
    assert distances.tolist() == [0.5, 0.5, 0.5, 1.0, 1.0]


def test_an_uncertain_entry_is_that_of_its_neighbours_where_all_of_them_agree() -> None:
    errors = EntryErrors(variances=np.array([0.1, 0.2]))
    model = NearestRows(3).fit(np.full((6, 4), 0.5), level=False)
    found = model.complete(np.array([1, 2]), np.array([0.7, 0.1]), errors)
    assert found.mean == pytest.approx(0.5, abs=1e-8)
    assert found.covariance.diagonal() == pytest.approx([0.0, MIN_VARIANCE, MIN_VARIANCE, 0.0], rel=1e-6)


def test_five_neighbours_are_taken_by_default() -> None:
    known = np.array([[float(place), 100.0 * place] for place in range(1, 9)])
    found = NearestRows().fit(known, level=False).complete(np.array([0]), np.array([0.0]))
    assert found.mean[1] == 300.0  # the third of five


@given(st.integers(0, 1000), st.booleans())
def test_the_order_of_rows_and_columns_and_the_unit_do_not_matter(seed: int, level: bool) -> None:
    known, rng, at = rows(seed), np.random.default_rng(seed), np.array([1, 4])
    values, order, columns = rng.normal(size=2), rng.permutation(9), rng.permutation(5)
    once = NearestRows(4).fit(known, level=level).complete(at, values)
    shift = 7.0 if level else 0.0
    turned = NearestRows(4).fit(known[order][:, columns] + 3 * shift, level=level)
    again = turned.complete(np.argsort(columns)[at], values + shift)
    assert again.mean == pytest.approx(once.mean[columns] + shift)
    assert again.covariance == pytest.approx(once.covariance[np.ix_(columns, columns)], abs=1e-12)
    assert np.linalg.eigvalsh(once.covariance).min() >= -1e-9
