"""Published gradient descent: number of epochs, when it stops, and several new rows at once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kwiken.allocator.workloads.completion.gaussian import FoldIn
from papers.paragon.gradient_descent import GradientDescent
from tests.support.allocation.low_rank_rows import low_rank_rows
from tests.support.allocation.plain_descent import descended

TWO = np.array([1, 3])


def test_a_descent_that_does_not_settle_ends_after_four_hundred_epochs() -> None:
    rows, new = low_rank_rows(1, 3, 4), low_rank_rows(2, 1, 4)[0]
    plain = descended(rows, TWO.tolist(), new[TWO].tolist(), 1, level=True, tolerance=0.0)
    found = GradientDescent(1, tolerance=0.0).fit(rows, level=True).complete(TWO, new[TWO])
    assert found.mean == pytest.approx(plain, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("level", [True, False])
@pytest.mark.parametrize("known", [2, 6])
def test_rows_with_entries_of_their_own_descend_each_alone(known: int, level: bool) -> None:
    rows, new = low_rank_rows(3, known), low_rank_rows(4, 3)
    columns = np.array([[0, 1, 4], [2, 3, 4], [4, 1, 0]])
    values = np.take_along_axis(new, columns, axis=1)
    settings = GradientDescent(2, rate=0.1, penalty=0.02, max_epochs=12, tolerance=0.0, seed=5)
    found = settings.fit(rows, level=level).complete_all(columns, values)
    for at, told, row in zip(columns.tolist(), values.tolist(), found, strict=True):
        plain = descended(
            rows, at, told, 2, level=level, rate=0.1, penalty=0.02, epochs=12, tolerance=0.0, seed=5
        )
        assert row == pytest.approx(plain, rel=1e-9, abs=1e-12)


def test_all_rows_descend_until_their_errors_together_settle() -> None:
    """One row settles long before the other, and both descend until the sum of their errors settles."""
    rows, new = low_rank_rows(5, 6), np.array([low_rank_rows(6, 1)[0], 30 * low_rank_rows(7, 1)[0]])
    model = GradientDescent(1, tolerance=1e-2).fit(rows, level=False)
    found = model.predict(TWO, new[:, TWO])[0]
    ends = []
    for epochs in range(2, 400):
        once = GradientDescent(1, tolerance=0.0, max_epochs=epochs).fit(rows, level=False)
        ends.append(once.predict(TWO, new[:, TWO])[0])
        if np.allclose(ends[-1], found, rtol=1e-12):
            break
    assert len(ends) < 100
    assert ends[-1] == pytest.approx(found)
    alone = model.predict(TWO, new[:1, TWO])[0]
    assert np.abs(alone - found[:1]).max() > 1e-9


@pytest.mark.parametrize(("count", "size"), [(2, 5), (5, 2)])
def test_a_rank_is_at_most_the_number_of_rows_and_of_columns(count: int, size: int) -> None:
    rows, at = low_rank_rows(8, count, size), np.array([1])
    most, beyond = (
        GradientDescent(rank, max_epochs=5).fit(rows, level=False).complete(at, np.array([0.4]))
        for rank in (2, 9)
    )
    assert beyond.mean == pytest.approx(most.mean)


def test_rows_that_are_all_zero_stay_so() -> None:
    found = GradientDescent(1).fit(np.zeros((3, 4)), level=False).complete(TWO, np.zeros(2))
    assert not found.mean.any()


def test_deviations_are_those_of_ridge_regression_of_the_same_penalty() -> None:
    rows, new = low_rank_rows(9, 6), low_rank_rows(10, 2)
    descent = GradientDescent(2, penalty=0.07, max_epochs=1)
    model, folded = descent.fit(rows, level=True), FoldIn(2, 0.07).fit(rows, level=True)
    assert model.predict(TWO, new[:, TWO])[1] == pytest.approx(folded.predict(TWO, new[:, TWO])[1])
    assert model.complete(TWO, new[0, TWO]).noise == 0.07
    other = replace(descent, seed=1).fit(rows, level=True)
    assert np.abs(other.predict(TWO, new[:, TWO])[0] - model.predict(TWO, new[:, TWO])[0]).max() > 1e-6
