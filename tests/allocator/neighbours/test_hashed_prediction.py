"""Prediction from hashed neighbours: the published example, properties of the median, and training sets."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from kwiken.base.errors import InputError
from papers.lsh.prediction import HashedPredictor, training_rows

EXAMPLE = np.array(
    [
        [0.1, 0.3, 0.7, 0.6, 0.1, 0.3],
        [0.7, 0.6, 0.4, 0.5, 0.9, 0.7],
        [0.2, 0.4, 0.6, 0.5, 0.3, 0.2],
        [0.5, 0.2, 0.4, 0.1, 0.8, 0.6],
        [0.7, 0.6, 0.1, 0.2, 0.5, 0.5],
    ]
)
FIRST_TWO = np.array([0, 1])


def test_the_published_example() -> None:
    found = HashedPredictor(EXAMPLE, FIRST_TWO, radius=0.2).predict(np.array([0.2, 0.3]))
    assert sorted(found.neighbours.tolist()) == [0, 2]
    assert not found.alone
    assert found.row == pytest.approx([0.2, 0.3, 0.65, 0.55, 0.20, 0.25])


def test_one_neighbour_is_copied() -> None:
    found = HashedPredictor(EXAMPLE, FIRST_TWO, count=1).predict(EXAMPLE[3, FIRST_TWO])
    assert found.row == pytest.approx(EXAMPLE[3])


def test_a_row_far_from_all_takes_the_nearest_at_any_distance_and_says_so() -> None:
    found = HashedPredictor(EXAMPLE, FIRST_TWO, radius=0.01).predict(np.array([1.0, 0.0]))
    assert found.alone
    assert ((found.row >= 0) & (found.row <= 1)).all()


def test_one_neighbour_that_is_off_moves_the_median_by_no_more_than_the_next() -> None:
    rows = np.tile(np.array([0.5, 0.5, 0.2]), (5, 1))
    rows[:, 2] = [0.2, 0.21, 0.22, 0.23, 1.0]
    found = HashedPredictor(rows, FIRST_TWO).predict(np.array([0.5, 0.5]))
    assert found.row[2] == pytest.approx(0.22)


@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.integers(1, 12))
def test_a_training_set_has_as_many_rows_as_asked_each_once(seed: int, count: int, clusters: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.random((40, 4))
    kept = training_rows(rows, count, clusters, rng=rng)
    assert len(set(kept.tolist())) == count
    assert kept.tolist() == sorted(kept.tolist())


def test_every_cluster_is_in_the_training_set() -> None:
    rng = np.random.default_rng(1)
    centres = np.array([[0.1, 0.1], [0.9, 0.1], [0.1, 0.9], [0.9, 0.9]])
    rows = np.vstack(
        [centre + rng.normal(0, 0.01, (size, 2)) for centre, size in zip(centres, (50, 3, 3, 3), strict=True)]
    )
    kept = rows[training_rows(rows, 8, 4, rng=rng)]
    for centre in centres:
        assert (np.linalg.norm(kept - centre, axis=1) < 0.1).any()


def test_nothing_to_predict_from_is_refused() -> None:
    for rows, columns, count in (
        (EXAMPLE[:0], FIRST_TWO, 5),
        (EXAMPLE, FIRST_TWO[:0], 5),
        (EXAMPLE, FIRST_TWO, 0),
    ):
        with pytest.raises(InputError, match="at least"):
            HashedPredictor(rows, columns, count=count)
    with pytest.raises(InputError, match="1 to 5 rows can be kept, not 6"):
        training_rows(EXAMPLE, 6, rng=np.random.default_rng(0))
