"""Completion of rows: published anchors, exact cases, and properties of every method."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from kwiken.allocator.workloads.completion.gaussian import (
    BayesianRows,
    ColumnMeans,
    Completer,
    EntryErrors,
    FoldIn,
    GaussianModel,
)
from kwiken.allocator.workloads.completion.scalability import Scalability
from kwiken.base.arrays import Floats
from papers.paragon.episodes import Episode, drawn
from papers.paragon.gradient_descent import GradientDescent
from papers.paragon.tables import descents, platforms, scores
from papers.quasar.tables import matrix
from papers.worlds.fleet.generators import replica_rows, score_rows, size_rows
from papers.worlds.populations.platforms import platform_rows

SEEDS = range(20)  # as many as the published anchors are means of
METHODS: tuple[Completer, ...] = (
    ColumnMeans(),
    FoldIn(1, 1e-3),
    FoldIn(3, 1e-2),
    BayesianRows(0.05, 4e-4),
    Scalability(tuple(range(1, 9)), 4e-4),
)


def mean_error(episodes: list[Episode], entries: int, method: str = "fold_in") -> float:
    """Mean error over new rows with random entries, over the episodes."""
    found = []
    for seed, episode in enumerate(episodes):
        columns = episode.random_columns(np.random.default_rng([seed, entries]), entries)
        found.append(np.mean(episode.errors(getattr(episode, method)(columns), columns)))
    return float(np.mean(found))


@pytest.mark.parametrize(
    ("rank", "anchors"),
    [(1, {2: 0.055, 4: 0.024}), (2, {2: 0.154, 3: 0.059, 4: 0.039}), (3, {2: 0.204, 4: 0.067})],
)
def test_platforms_are_predicted_as_well_as_specified(rank: int, anchors: dict[int, float]) -> None:
    episodes = [platforms(seed, rank) for seed in SEEDS]
    for entries, anchor in anchors.items():
        assert mean_error(episodes, entries) == pytest.approx(anchor, rel=0.25)


@pytest.mark.parametrize(
    ("rank", "anchors"),
    [(1, {1: 0.041, 2: 0.030}), (2, {1: 0.103, 2: 0.053, 4: 0.035}), (3, {2: 0.098, 4: 0.046})],
)
def test_scores_are_predicted_as_well_as_specified(rank: int, anchors: dict[int, float]) -> None:
    episodes = [scores(seed, rank) for seed in SEEDS]
    for entries, anchor in anchors.items():
        assert mean_error(episodes, entries) == pytest.approx(anchor, rel=0.25)
    if rank < 3:
        assert mean_error(episodes, 2) * 2 <= mean_error(episodes, 2, "means")


def test_the_error_of_scores_has_a_knee_at_two_entries() -> None:
    episodes = [scores(seed, 2) for seed in SEEDS]
    one, two, five, eight = (mean_error(episodes, entries) for entries in (1, 2, 5, 8))
    assert two / one < 0.75
    assert five - eight < 0.25 * (one - two)


def test_sizes_are_predicted_as_well_as_specified() -> None:
    episodes = [matrix("scale-up", seed) for seed in range(8)]
    anchors = {2: 0.235, 4: 0.097, 8: 0.046}
    found = {entries: mean_error(episodes, entries) for entries in anchors}
    for entries, anchor in anchors.items():
        assert found[entries] == pytest.approx(anchor, rel=0.25)
    assert found[2] > found[4] > found[8]
    assert mean_error(episodes, 2, "means") >= 1.3 * found[2]


@pytest.mark.parametrize(
    ("nodes", "noise", "anchor"), [((0, 1), 0.02, 0.207), ((0, 1, 2, 3), 0.02, 0.139), ((0, 3), 0.005, 0.089)]
)
def test_speedup_is_predicted_as_well_as_specified(
    nodes: tuple[int, ...], noise: float, anchor: float
) -> None:
    found = []
    for seed in range(8):
        episode = matrix("scale-out", seed, noise)
        columns = np.tile(np.array(nodes), (len(episode.new), 1))
        found.append(np.mean(episode.errors(episode.fold_in(columns), columns)))
    assert float(np.mean(found)) == pytest.approx(anchor, rel=0.3)


def test_the_scalability_law_beats_rows_on_curves_that_follow_the_law() -> None:
    rows = replica_rows(np.random.default_rng(5), 90, 0.005)
    columns = np.array([0, 3])
    law = Scalability(tuple(range(1, 101)), 2.5e-5).fit(rows[:30], level=True)
    folded = FoldIn(2, 1e-3).fit(rows[:30], level=True)
    errors = [
        np.abs(np.expm1(model.predict(columns, rows[30:, columns])[0] - rows[30:])).mean()
        for model in (law, folded)
    ]
    assert errors[0] < 0.9 * errors[1]


def test_what_the_scalability_law_does_not_fit_widens_its_intervals() -> None:
    rng = np.random.default_rng(6)
    rows = replica_rows(rng, 90, 0.005)
    rows[:, 1:] += rng.normal(0, 0.1, (len(rows), rows.shape[1] - 1))
    columns = np.array([0, 3])
    law = Scalability(tuple(range(1, 101)), 2.5e-5).fit(rows[:30], level=True)
    mean, deviation = law.predict(columns, rows[30:, columns])
    hidden = np.delete(np.arange(rows.shape[1]), columns)
    within = np.abs(mean - rows[30:])[:, hidden] <= 1.645 * deviation[:, hidden]
    assert 0.8 <= within.mean() <= 0.97
    assert deviation[:, hidden].min() >= 0.09  # of one entry, beside what is not known of the curve


def test_the_published_descent_comes_to_its_closed_form() -> None:
    rows = score_rows(np.random.default_rng(2), 14, 1)
    columns = np.array([1, 7])
    closed = FoldIn(1, 1e-3).fit(rows[:10], level=False).predict(columns, rows[10:, columns])
    descent = GradientDescent(1, max_epochs=100).fit(rows[:10], level=False)
    means, deviations = descent.predict(columns, rows[10:, columns])
    assert 0 < np.abs(means - closed[0]).mean() < 0.015
    assert (deviations[:, columns] < deviations.max()).all()
    one = descent.complete(columns, rows[10, columns])
    np.testing.assert_allclose(one.mean, means[0], atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "rank", "most"), [("scores", 2, 0.015), ("platforms", 1, 0.025), ("platforms", 2, 0.025)]
)
def test_the_published_descent_agrees_with_its_closed_form(kind: str, rank: int, most: float) -> None:
    found = descents(kind, rank, 0)
    assert 0 < found["difference"] <= most
    assert found["descent"] == pytest.approx(found["closed form"], rel=0.25)


def test_rank_one_without_noise_is_exact_from_two_entries() -> None:
    rng = np.random.default_rng(0)
    traits = np.arange(10) / 10
    rows = rng.normal(size=(20, 1)) + rng.normal(size=(20, 1)) * traits
    model = FoldIn(1, 1e-9).fit(rows, level=True)
    new = 3.0 + 1.7 * traits
    assert np.abs(model.complete(np.array([2, 7]), new[[2, 7]]).mean - new).max() < 1e-6


def drawn_rows(kind: str) -> Floats:
    rng = np.random.default_rng(3)
    rows = {
        "platforms": lambda: platform_rows(rng, 20, 2),
        "sizes": lambda: size_rows(rng, 20),
        "replicas": lambda: replica_rows(rng, 20)[:, :8],
    }[kind]()
    return rows[:, :8]


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
@given(shift=st.floats(-30, 30), columns=st.sets(st.integers(0, 7), min_size=1, max_size=5))
def test_a_workload_in_another_unit_has_the_same_shape(
    method: Completer, shift: float, columns: set[int]
) -> None:
    rows = drawn_rows("replicas")
    model = method.fit(rows, level=True)
    at = np.array(sorted(columns))
    values = rows[4, at] + 0.1
    once, again = model.complete(at, values), model.complete(at, values + shift)
    np.testing.assert_allclose(again.mean, once.mean + shift, atol=1e-5)
    np.testing.assert_allclose(again.deviation, once.deviation, rtol=1e-3)


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_many_rows_at_once_are_the_rows_one_by_one(method: Completer) -> None:
    rows = drawn_rows("replicas")
    model = method.fit(rows[:15], level=True)
    columns = np.array([0, 5])
    means, deviations = model.predict(columns, rows[15:, columns])
    for mean, deviation, row in zip(means, deviations, rows[15:], strict=True):
        found = model.complete(columns, row[columns])
        np.testing.assert_allclose(mean, found.mean, atol=1e-6)
        np.testing.assert_allclose(deviation, found.deviation, rtol=1e-4)
        assert found.mean[columns].tolist() == row[columns].tolist()


@given(columns=st.lists(st.integers(0, 7), min_size=2, max_size=6, unique=True), rank=st.integers(1, 3))
def test_another_entry_never_widens_a_prediction(columns: list[int], rank: int) -> None:
    model = FoldIn(rank, 1e-3).fit(drawn_rows("platforms"), level=True)
    few, more = (
        model.complete(np.array(at), model.mean[at]).covariance.diagonal() for at in (columns[:-1], columns)
    )
    assert (more <= few + 1e-9).all()


def test_repeated_measurements_narrow_a_prediction() -> None:
    model = FoldIn(2, 1e-2).fit(drawn_rows("platforms"), level=True)
    at = np.array([1, 6])
    once = model.complete(at, model.mean[at]).deviation
    often = model.complete(at, model.mean[at], EntryErrors(repeats=np.array([9.0, 9.0]))).deviation
    assert (often < once).all()


def test_few_known_rows_widen_predictions_of_a_surprising_row() -> None:
    rows = platform_rows(np.random.default_rng(1), 12, 2)
    model = BayesianRows(0.05, 4e-4).fit(rows, level=True)
    at = np.array([0, 4, 8])
    near = model.complete(at, model.mean[at]).deviation
    far = model.complete(at, model.mean[at] + np.array([2.0, -2.0, 2.0])).deviation
    assert (far > 2 * near).all()


def test_many_known_rows_are_factored_alike() -> None:
    rows = platform_rows(np.random.default_rng(1), 150, 2)
    at = np.array([1, 6])
    found = FoldIn(2, 1e-3).fit(rows, level=True).complete(at, rows[3, at])
    mean = rows - rows.mean(axis=1, keepdims=True)
    _, singular, right = np.linalg.svd(mean - mean.mean(axis=0), full_matrices=False)
    factors = right[:2].T * singular[:2] / np.sqrt(len(rows))
    plain = GaussianModel(mean.mean(axis=0), factors @ factors.T, 1e-3, level=True).complete(at, rows[3, at])
    np.testing.assert_allclose(found.mean, plain.mean, atol=1e-9)
    np.testing.assert_allclose(found.deviation, plain.deviation, atol=1e-9)


def test_the_order_of_columns_does_not_matter() -> None:
    episode = drawn(lambda rng, count: score_rows(rng, count, 2), 4, known=20, level=False, rank=2)
    order = np.random.default_rng(0).permutation(10)
    at = np.array([3, 8])
    model = FoldIn(2, 1e-3).fit(episode.known, level=False)
    mixed = FoldIn(2, 1e-3).fit(episode.known[:, order], level=False)
    places = np.argsort(order)[at]
    plain = model.complete(at, episode.new[0, at])
    permuted = mixed.complete(places, episode.new[0, at])
    np.testing.assert_allclose(permuted.mean, plain.mean[order], atol=1e-9)
