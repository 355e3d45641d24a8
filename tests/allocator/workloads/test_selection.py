"""Choice of a method by held-out error, and calibration of standard deviations."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from kwiken.allocator.workloads.classification import first_columns
from kwiken.allocator.workloads.completion.gaussian import ColumnMeans, FoldIn
from kwiken.allocator.workloads.completion.selection import candidates, choose, held_out
from kwiken.allocator.workloads.completion.tails import MAX_SCALE, calibration
from kwiken.base.errors import InputError
from papers.paragon.tables import platforms, scores
from papers.quasar.tables import matrix
from papers.worlds.populations.platforms import platform_rows


@pytest.mark.parametrize(("kind", "rank"), [("platforms", 1), ("platforms", 2), ("scores", 2)])
def test_ninety_percent_intervals_hold_for_new_rows(kind: str, rank: int) -> None:
    shares = []
    for seed in range(8):
        episode = platforms(seed, rank) if kind == "platforms" else scores(seed, rank)
        columns = episode.designed(2)
        shares.append(episode.covered(*episode.chosen(columns), columns))
    assert 0.86 <= float(np.mean(shares)) <= 0.97


def test_intervals_of_speedup_hold_for_new_rows() -> None:
    shares = []
    for seed in range(4):
        episode = matrix("scale-out", seed)
        columns = np.tile(np.array([0, 7]), (len(episode.new), 1))
        shares.append(episode.covered(*episode.chosen(columns), columns))
    assert 0.8 <= float(np.mean(shares)) <= 0.98


def test_the_scalability_law_is_chosen_where_curves_follow_the_law() -> None:
    episode = matrix("scale-out", 1, 0.005)
    chosen = choose(episode.known, np.array([0, 3]), candidates(episode.replicas), level=True)
    assert chosen.name.startswith("scalability law")
    assert chosen.error == min(chosen.errors.values())


def test_column_means_are_chosen_where_columns_have_nothing_in_common() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(30, 8))
    chosen = choose(rows, np.array([0, 1]), (ColumnMeans(), FoldIn(2, 1e-3)), level=False)
    assert chosen.name == "column means"


def test_a_row_is_judged_without_itself() -> None:
    rows = np.random.default_rng(0).normal(size=(12, 6))
    columns = np.array([0, 1])
    missed = held_out(rows, columns, FoldIn(3, 1e-3), level=False).missed
    assert missed.shape == (12, 4)
    within = FoldIn(3, 1e-3).fit(rows, level=False).predict(columns, rows[:, columns])[0] - rows
    assert np.abs(missed).mean() > np.abs(within[:, 2:]).mean()


def test_calibration_widens_deviations_that_are_too_narrow() -> None:
    rng = np.random.default_rng(0)
    missed = rng.normal(0, 3.0, (4000, 5))
    assert calibration(missed, np.ones_like(missed), np.arange(4000)) == pytest.approx(3.0, rel=0.03)
    assert calibration(missed, np.zeros_like(missed), np.arange(4000)) == MAX_SCALE


@pytest.mark.parametrize("level", [True, False])
def test_designed_columns_predict_better_than_random_ones(level: bool) -> None:
    designed, random = [], []
    for seed in range(10):
        episode = platforms(seed, 1) if level else scores(seed, 2)
        columns = episode.designed(2)
        designed.append(np.mean(episode.errors(episode.fold_in(columns), columns)))
        columns = episode.random_columns(np.random.default_rng(seed), 2)
        random.append(np.mean(episode.errors(episode.fold_in(columns), columns)))
    assert np.mean(designed) < 0.75 * np.mean(random)


def test_designed_columns_start_with_those_that_are_given() -> None:
    rows = platform_rows(np.random.default_rng(2), 20, 2)
    columns = first_columns(rows, 4, level=True, given=np.array([6, 1]))
    assert columns.tolist()[:2] == [6, 1]
    assert len(set(columns.tolist())) == 4


def test_too_few_known_rows_are_refused() -> None:
    with pytest.raises(InputError, match="needs 3 or more workloads that are measured whole, not 2"):
        choose(np.zeros((2, 4)), np.array([0]), (ColumnMeans(),), level=False)


@given(
    rows=st.integers(3, 6),
    columns=st.integers(2, 5),
    kind=st.sampled_from(["random", "alike", "flat", "huge"]),
    seed=st.integers(0, 1000),
)
def test_any_small_history_gives_finite_predictions(rows: int, columns: int, kind: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = {
        "random": rng.normal(0, 1, (rows, columns)),
        "alike": np.tile(rng.normal(0, 1, columns), (rows, 1)),
        "flat": np.zeros((rows, columns)),
        "huge": rng.normal(0, 15, (rows, columns)),
    }[kind]
    for level in (True, False):
        replicas = tuple(range(1, columns + 1)) if level else None
        at = np.array(sorted(rng.permutation(columns)[: max(1, columns - 1)].tolist()))
        chosen = choose(values, at, candidates(replicas), level=level)
        found = chosen.complete(at, values[0, at] + 0.1)
        assert np.isfinite(found.mean).all()
        assert np.isfinite(found.deviation).all()
        assert (found.covariance.diagonal() >= -1e-6).all()


def test_the_mean_of_two_kinds_of_methods_is_that_of_the_best_of_each() -> None:
    rows = np.random.default_rng(0).normal(size=(12, 1)) @ np.ones((1, 5))
    rows += 0.01 * np.random.default_rng(1).normal(size=rows.shape)
    folded = [FoldIn(1, ridge) for ridge in (1e-3, 1e3)]
    found = choose(rows, np.array([0, 1]), [*folded, ColumnMeans()], level=False, joins=True)
    good, bad = (one.name for one in folded)
    assert found.errors[good] < found.errors[bad]
    assert set(found.errors) == {good, bad, ColumnMeans().name, f"mean of {good}; {ColumnMeans().name}"}
