"""Gaussian models of rows, compared with closed forms.

A row with a level has an unknown constant, so only contrasts (differences within the row) are compared with a model
without levels.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from kwiken.allocator.workloads.completion.gaussian import (
    BayesianRows,
    ColumnMeans,
    Completer,
    Completion,
    EntryErrors,
    FoldIn,
    GaussianModel,
)
from kwiken.base.arrays import Floats
from tests.support.allocation.low_rank_rows import low_rank_rows

NONE = np.array([], dtype=np.int64)


def contrasts(size: int) -> Floats:
    """(n - 1, n) differences of each column from the first."""
    return np.column_stack([-np.ones(size - 1), np.eye(size - 1)])


@pytest.mark.parametrize("level", [True, False])
@pytest.mark.parametrize("freedom", [np.inf, 3.0])
def test_a_row_without_entries_is_the_mean_row_with_its_prior(level: bool, freedom: float) -> None:
    root = low_rank_rows(0, 4, 4)
    model = GaussianModel(np.arange(4.0), root @ root.T, 0.01, level, freedom)
    found = model.complete(NONE, np.array([]))
    assert found.mean.tolist() == model.mean.tolist()
    assert found.covariance == pytest.approx(model.covariance)
    assert found.noise == 0.01
    means, deviations = model.predict(NONE, np.zeros((2, 0)))
    assert means.tolist() == [model.mean.tolist()] * 2
    assert deviations == pytest.approx(np.tile(np.sqrt(model.covariance.diagonal() + 0.01), (2, 1)))


@pytest.mark.parametrize("freedom", [np.inf, 3.0])
def test_one_entry_of_a_row_with_a_level_tells_the_level_alone(freedom: float) -> None:
    """Differences of other columns from the entry have the same prediction, whatever its value."""
    root = low_rank_rows(1, 4, 4)
    model = GaussianModel(np.arange(4.0), root @ root.T, 0.01, level=True, freedom=freedom)
    apart = np.eye(4) - np.outer(np.ones(4), [0, 1, 0, 0])
    expected = apart @ model.covariance @ apart.T + 0.01
    for value in (0.3, -100.0):
        found = model.complete(np.array([1]), np.array([value]))
        assert found.mean == pytest.approx(model.mean - 1.0 + value)
        assert found.covariance == pytest.approx(expected)


@given(
    st.integers(0, 1000),
    st.lists(st.integers(0, 5), min_size=2, max_size=4, unique=True),
    st.booleans(),
)
def test_a_row_with_a_level_is_predicted_from_differences_of_its_entries(
    seed: int, columns: list[int], exact: bool
) -> None:
    """Differences within a row are those that a Gaussian without a level has, given differences of its entries."""
    rng, at = np.random.default_rng(seed), np.array(columns)
    root = rng.normal(size=(6, 6))
    model = GaussianModel(rng.normal(size=6), root @ root.T, 0.2, level=True, freedom=4.0)
    values = rng.normal(size=len(at))
    repeats, own = rng.integers(1, 4, len(at)).astype(float), rng.uniform(0, 0.3, len(at))
    errors = EntryErrors(repeats, None if exact else own)
    noise = 0.2 / repeats + (0.0 if exact else own)
    outer, inner = contrasts(6), contrasts(len(at))
    taken = inner @ np.eye(6)[at]  # differences of entries, as forms of the row
    weights = np.linalg.inv(taken @ model.covariance @ taken.T + inner @ np.diag(noise) @ inner.T)
    rest = inner @ values - taken @ model.mean
    gain = outer @ model.covariance @ taken.T @ weights
    factor = (4.0 + rest @ weights @ rest) / (4.0 + len(at) - 1)
    found = model.complete(at, values, errors)
    if exact:
        assert found.mean[at].tolist() == values.tolist()
    else:
        assert outer @ found.mean == pytest.approx(outer @ model.mean + gain @ rest, abs=1e-8)
    covariance = outer @ model.covariance @ outer.T - gain @ taken @ model.covariance @ outer.T
    assert outer @ found.covariance @ outer.T == pytest.approx(factor * covariance, abs=1e-8)
    assert found.noise == pytest.approx(factor * 0.2)
    plain, (means, deviations) = model.complete(at, values), model.predict(at, np.array([values] * 2))
    assert means == pytest.approx(np.array([plain.mean] * 2))
    assert deviations == pytest.approx(np.array([plain.deviation] * 2))


def test_variances_below_0_by_rounding_count_as_0_and_only_unmeasured_columns_have_noise() -> None:
    found = Completion(np.zeros(3), np.diag([-1e-18, 0.16, -1e-18]), 0.09, np.array([0]))
    assert found.deviation == pytest.approx([0.0, 0.5, 0.3])
    assert found.scaled(3.0).deviation == pytest.approx([0.0, 1.5, 0.9])
    assert found.scaled(3.0).noise == pytest.approx(0.81)


@pytest.mark.parametrize("level", [True, False])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_few_rows_tell_a_spread_with_few_degrees_of_freedom(count: int, level: bool) -> None:
    """One row has no spread; degrees of freedom are 1 at least."""
    rows = low_rank_rows(2, count)
    free = rows - rows.mean(axis=1, keepdims=True) if level else rows
    sample = np.cov(free.T) if count > 1 else np.zeros((5, 5))
    model = BayesianRows(0.25, 0.01).fit(rows, level=level)
    assert model.covariance == pytest.approx(0.75 * sample + 0.25 * np.trace(sample) / 5 * np.eye(5))
    assert model.freedom == pytest.approx(max(count - 1 + 0.25 * count, 1.0))


def test_two_rows_and_hardly_any_prior_leave_little_more_than_one_degree_of_freedom() -> None:
    assert BayesianRows(0.05, 0.01).fit(low_rank_rows(3, 2), level=False).freedom == pytest.approx(1.1)


@pytest.mark.parametrize("level", [True, False])
@pytest.mark.parametrize("count", [1, 2, 9])
def test_uncertain_rows_are_learned_by_eight_rounds_of_expectation_maximisation(
    count: int, level: bool
) -> None:
    """With a level, true rows are estimated from differences within each row; without one, from all entries."""
    known, share = low_rank_rows(4, count) + 3.0, 0.1
    deviations = np.random.default_rng(4).uniform(0.0, 0.5, known.shape)
    told = contrasts(5) if level else np.eye(5)
    centre = np.eye(5) - 0.2 if level else np.eye(5)

    def fitted(rows: Floats, spread: Floats) -> tuple[Floats, Floats]:
        free = rows @ centre
        mean = free.mean(axis=0)
        sample = ((free - mean).T @ (free - mean) + spread) / max(count - 1, 1)
        return mean, (1 - share) * sample + share * np.trace(sample) / 5 * np.eye(5)

    mean, covariance = fitted(known, np.zeros((5, 5)))
    for _ in range(8):
        latent, spread = [], np.zeros((5, 5))
        for row, deviation in zip(known, deviations, strict=True):
            seen = told @ (covariance + np.diag(deviation**2 + 1e-10)) @ told.T
            gain = centre @ covariance @ told.T @ np.linalg.inv(seen)
            latent.append(centre @ mean + gain @ told @ (row - mean))
            spread += centre @ covariance @ centre - gain @ told @ covariance @ centre
        mean, covariance = fitted(np.array(latent), spread)
    model = BayesianRows(share, 1e-3).fit(known, level=level, deviations=deviations)
    assert model.mean == pytest.approx(mean)
    assert model.covariance == pytest.approx(covariance, abs=1e-9)


@pytest.mark.parametrize("level", [True, False])
@pytest.mark.parametrize(("count", "size"), [(2, 5), (4, 3), (33, 3), (60, 3), (400, 3)])
@pytest.mark.parametrize("scale", [1e-3, 1.0])
def test_a_rank_beyond_the_columns_keeps_the_whole_covariance(
    count: int, size: int, scale: float, level: bool
) -> None:
    """Whichever way rows are factored; those with a level have a direction without any spread."""
    for seed in range(5):
        rows = scale * low_rank_rows(seed, count, size)
        free = rows - rows.mean(axis=1, keepdims=True) if level else rows
        model = FoldIn(size, 0.01).fit(rows, level=level)
        assert model.mean == pytest.approx(free.mean(axis=0), abs=1e-12)
        assert model.covariance == pytest.approx(np.cov(free.T, bias=True), rel=1e-6, abs=1e-9 * scale**2)
        (first,) = np.linalg.svd(free - free.mean(axis=0))[2][:1]
        single = FoldIn(1, 0.01).fit(rows, level=level).covariance
        assert single == pytest.approx(
            np.outer(first, first) * (first @ model.covariance @ first), rel=1e-6, abs=1e-9 * scale**2
        )


@pytest.mark.parametrize("method", [ColumnMeans(), FoldIn(2, 1e-2), BayesianRows(0.1, 0.01)], ids=str)
@given(st.integers(0, 1000))
def test_rows_and_columns_in_another_order_teach_the_same(method: Completer, seed: int) -> None:
    rng, rows = np.random.default_rng(seed), low_rank_rows(seed, 9)
    order, columns = rng.permutation(9), rng.permutation(5)
    at, values = np.array([0, 2]), rows[0, [0, 2]]
    once = method.fit(rows, level=True).complete(at, values)
    again = method.fit(rows[order][:, columns], level=True).complete(np.argsort(columns)[at], values)
    assert again.mean == pytest.approx(once.mean[columns])
    assert again.covariance == pytest.approx(once.covariance[np.ix_(columns, columns)])
