"""Methods of completion beside plain computations from the formulas of their sources."""

from __future__ import annotations

import itertools
import math
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.optimize import minimize
from scipy.stats import gamma, norm, t as student

from kwiken.allocator.workloads.classification import Classification, _mean_square, first_columns
from kwiken.allocator.workloads.completion.gaussian import (
    BayesianRows,
    ColumnMeans,
    EntryErrors,
    FoldIn,
    GaussianModel,
)
from kwiken.allocator.workloads.completion.nearest import NearestRows
from kwiken.allocator.workloads.completion.scalability import Scalability, log_speedup
from kwiken.allocator.workloads.completion.selection import (
    CompletionKind,
    NoEffect,
    OneUnit,
    candidates,
    held_out,
)
from kwiken.allocator.workloads.completion.tails import ErrorTails, calibration, fitted_tails
from kwiken.allocator.workloads.latency_limit import spare_within
from kwiken.allocator.workloads.measurements import Measurements
from kwiken.base.arrays import Floats
from papers.paragon.gradient_descent import GradientDescent
from tests.support.allocation.low_rank_rows import low_rank_rows
from tests.support.allocation.plain_descent import descended

TWO = np.array([1, 3])


@pytest.mark.parametrize("level", [True, False])
@pytest.mark.parametrize("rank", [1, 2])
def test_the_descent_takes_the_published_steps(rank: int, level: bool) -> None:
    rows, new = low_rank_rows(1), low_rank_rows(2, 1)[0]
    plain = descended(rows, TWO.tolist(), new[TWO].tolist(), rank, level=level)
    model = GradientDescent(rank).fit(rows, level=level)
    found = model.complete(TWO, new[TWO])
    assert found.mean == pytest.approx(plain, rel=1e-9, abs=1e-12)
    folded = FoldIn(rank, 3e-3).fit(rows, level=level)
    assert found.covariance == pytest.approx(folded.complete(TWO, new[TWO]).covariance)
    assert model.predict(TWO, new[None, TWO])[1] == pytest.approx(folded.predict(TWO, new[None, TWO])[1])


def conditioned(model: GaussianModel, values: Floats, noise: Floats) -> tuple[Floats, Floats]:
    """Mean and covariance given entries at TWO; a level is a further unknown of hardly any prior."""
    size = len(model.mean)
    wide = 1e4 if model.level else 0.0
    whole = model.covariance + wide
    cross = whole[:, TWO]
    gain = cross @ np.linalg.inv(whole[np.ix_(TWO, TWO)] + np.diag(noise))
    mean = model.mean + gain @ (values - model.mean[TWO])
    covariance = whole - gain @ cross.T
    assert covariance.shape == (size, size)
    return mean, covariance


@pytest.mark.parametrize("level", [True, False])
@pytest.mark.parametrize(
    "errors",
    [
        EntryErrors(),
        EntryErrors(repeats=np.array([3.0, 1.0])),
        EntryErrors(repeats=np.array([2.0, 4.0]), variances=np.array([0.02, 0.5])),
    ],
)
def test_entries_condition_a_gaussian_row(level: bool, errors: EntryErrors) -> None:
    model = BayesianRows(0.1, 0.01).fit(low_rank_rows(3), level=level)
    values = np.array([0.7, -0.4])
    repeats = np.ones(2) if errors.repeats is None else errors.repeats
    noise = 0.01 / repeats + (0.0 if errors.variances is None else errors.variances)
    mean, covariance = conditioned(model, values, noise)
    found = model.complete(TWO, values, errors)
    hidden = [0, 2, 4]
    assert found.mean[hidden] == pytest.approx(mean[hidden], abs=1e-4)
    assert found.mean[TWO] == pytest.approx(values if errors.variances is None else mean[TWO], abs=1e-4)
    # Six rows and a prior of a tenth of them: 5.6 degrees of freedom, and a surprise of the entries.
    weights = np.linalg.inv(model.covariance[np.ix_(TWO, TWO)] + np.diag(noise))
    rest = values - model.mean[TWO]
    if level:
        rest = rest - rest @ weights.sum(axis=0) / weights.sum()
    assert model.freedom == pytest.approx(5.6)
    factor = (5.6 + rest @ weights @ rest) / (5.6 + (1 if level else 2))
    assert found.covariance == pytest.approx(factor * covariance, abs=1e-3)
    assert found.noise == pytest.approx(factor * 0.01)
    diagonal = found.covariance.diagonal()
    assert found.deviation[hidden] == pytest.approx(np.sqrt(diagonal[hidden] + found.noise))
    assert found.deviation[TWO] == pytest.approx(np.sqrt(diagonal[TWO]))


@pytest.mark.parametrize("level", [True, False])
@pytest.mark.parametrize("rows", [6, 80])
def test_a_row_is_folded_in_by_ridge_regression(level: bool, rows: int) -> None:
    """Steps 1 to 5 of the specification (Paragon 3.4)."""
    known, values = low_rank_rows(4, rows), np.array([0.7, -0.4])
    free = known - known.mean(axis=1, keepdims=True) if level else known
    mean = free.mean(axis=0)
    _, singular, right = np.linalg.svd(free - mean, full_matrices=False)
    traits = right[:2].T * singular[:2] / np.sqrt(rows)
    design = np.column_stack([np.ones(2), traits[TWO]]) if level else traits[TWO]
    penalty = np.diag([0.0, 0.03, 0.03][-design.shape[1] :])
    solved = np.linalg.solve(design.T @ design + penalty, design.T @ (values - mean[TWO]))
    expected = mean + (solved[0] if level else 0.0) + traits @ solved[-2:]
    expected[TWO] = values
    found = FoldIn(2, 0.03).fit(known, level=level).complete(TWO, values)
    assert found.mean == pytest.approx(expected)
    assert found.noise == 0.03


@pytest.mark.parametrize("level", [True, False])
def test_covariances_are_pulled_toward_equal_independent_columns(level: bool) -> None:
    known = low_rank_rows(5, 9)
    free = known - known.mean(axis=1, keepdims=True) if level else known
    sample = np.cov(free.T)
    expected = 0.8 * sample + 0.2 * np.trace(sample) / 5 * np.eye(5)
    model = BayesianRows(0.2, 0.004).fit(known, level=level)
    assert model.covariance == pytest.approx(expected)
    assert model.mean == pytest.approx(free.mean(axis=0))
    assert (model.noise, model.level) == (0.004, level)
    assert model.freedom == pytest.approx(8 + 0.2 * 9)


def test_uncertain_entries_are_filled_in_eight_rounds_of_expectation() -> None:
    known = low_rank_rows(6, 7)
    variances = np.random.default_rng(6).uniform(0.0, 0.2, known.shape)
    mean, share = known.mean(axis=0), 0.1

    def shrunk(sample: Floats) -> Floats:
        return np.asarray((1 - share) * sample + share * np.trace(sample) / 5 * np.eye(5))

    covariance = shrunk(np.cov(known.T))
    for _ in range(8):
        latent, spread = [], np.zeros((5, 5))
        for row, variance in zip(known, variances, strict=True):
            gain = covariance @ np.linalg.inv(covariance + np.diag(variance + 1e-10))
            latent.append(mean + gain @ (row - mean))
            spread += covariance - gain @ covariance
        mean = np.mean(latent, axis=0)
        rest = np.array(latent) - mean
        covariance = shrunk((rest.T @ rest + spread) / 6)
    model = BayesianRows(share, 1e-3).fit(known, level=False, deviations=np.sqrt(variances))
    assert model.mean == pytest.approx(mean)
    assert model.covariance == pytest.approx(covariance)


@pytest.mark.parametrize("level", [True, False])
def test_baselines_are_one_spread_around_plain_means(level: bool) -> None:
    known = low_rank_rows(7)
    free = known - known.mean(axis=1, keepdims=True) if level else known
    means, none = ColumnMeans().fit(known, level=level), NoEffect().fit(known, level=level)
    assert means.mean == pytest.approx(free.mean(axis=0))
    assert means.noise == pytest.approx(float((free - free.mean(axis=0)).var()))
    assert none.mean == pytest.approx(np.zeros(5) if level else np.full(5, known.mean()))
    assert none.noise == pytest.approx(float(free.var()))
    assert not means.covariance.any()
    assert not none.covariance.any()
    alike = np.ones((4, 5))
    assert {one.fit(alike, level=level).noise for one in (ColumnMeans(), NoEffect())} == {1e-10}


def test_rows_of_one_unit_are_rows_without_a_level() -> None:
    known = low_rank_rows(8)
    found, plain = (
        OneUnit(BayesianRows(0.1, 0.01)).fit(known, level=True),
        BayesianRows(0.1, 0.01).fit(known, level=False),
    )
    assert found.mean.tolist() == plain.mean.tolist()
    assert found.level is plain.level is False


@pytest.mark.parametrize("level", [True, False])
@pytest.mark.parametrize("own", [None, np.array([0.04, 0.0])])
def test_neighbours_tell_a_deviation_by_their_disagreement(level: bool, own: Floats | None) -> None:
    """The spread of all rows counts as two rows more, and a measurement has a deviation of 2%."""
    known, values = low_rank_rows(9, 8), np.array([0.3, 0.1])
    aligned = known - known[:, TWO].mean(axis=1, keepdims=True) if level else known
    model = NearestRows(3).fit(known, level=level)
    near, _ = model.neighbours(TWO, values)
    rest = aligned[near] - np.median(aligned[near], axis=0)
    spread = ((aligned - np.median(aligned, axis=0)) ** 2).mean(axis=0)
    expected = (rest.T @ rest + 2 * np.diag(spread)) / (3 - 1 + 2) * (1 + 1 / 3)
    repeats = np.array([4.0, 1.0])
    errors = 4e-4 / repeats + (0.0 if own is None else own)
    middle = np.median(aligned[near], axis=0) + (values.mean() if level else 0.0)
    own_spread = expected.diagonal()[TWO] + 1e-10
    trust = np.ones(2) if own is None else own_spread / (own_spread + errors)
    if level:
        expected = expected + errors.mean() / 2
    found = model.complete(TWO, values, EntryErrors(repeats, own))
    hidden = [0, 2, 4]
    assert found.covariance[np.ix_(hidden, hidden)] == pytest.approx(expected[np.ix_(hidden, hidden)])
    assert found.covariance[TWO, TWO] == pytest.approx(trust * errors)
    assert found.covariance[1, 3] == 0.0
    assert found.noise == 4e-4
    assert found.mean[TWO] == pytest.approx(middle[TWO] + trust * (values - middle[TWO]))


def law(replicas: Floats, level: float, contention: float, coherency: float) -> Floats:
    slowed = 1 + contention * (replicas - 1) + coherency * replicas * (replicas - 1)
    return np.asarray(level + np.log(replicas / slowed))


COUNTS = (1, 2, 4, 8, 16, 32, 64)


def test_curves_of_the_law_are_fitted_by_their_most_probable_parameters() -> None:
    rng = np.random.default_rng(10)
    replicas = np.array(COUNTS, dtype=float)
    assert log_speedup(replicas, np.array([[0.05]]), np.array([[1e-4]]))[0] == pytest.approx(
        law(replicas, 0.0, 0.05, 1e-4)
    )
    known = np.array(
        [
            law(
                replicas,
                rng.normal(),
                0.05 * math.exp(rng.normal(0, 0.4)),
                1e-4 * math.exp(rng.normal(0, 0.4)),
            )
            for _ in range(12)
        ]
    )
    known += rng.normal(0, 0.02, known.shape)
    model = Scalability(COUNTS, 4e-4).fit(known, level=True)
    columns, values = np.array([0, 3, 5]), known[0, [0, 3, 5]] + 0.03
    precision = np.linalg.inv(model.spread)

    def against(parameters: Floats) -> float:
        rest = values - law(replicas[columns], parameters[0], *np.exp(parameters[1:]))
        prior = parameters[1:] - model.mean
        return float(rest @ rest / (model.noise + model.misfit) + prior @ precision @ prior)

    best = minimize(
        against,
        np.array([0.0, *model.mean]),
        method="Nelder-Mead",
        options={"xatol": 1e-9, "fatol": 1e-12, "maxiter": 5000},
    ).x
    found = model.complete(columns, values)
    hidden = np.delete(np.arange(len(COUNTS)), columns)
    assert found.mean[hidden] == pytest.approx(law(replicas, best[0], *np.exp(best[1:]))[hidden], abs=1e-4)
    assert found.mean[columns].tolist() == values.tolist()
    step = 1e-5
    slopes = np.array(
        [
            (law(replicas, *_shifted(best, one, step)) - law(replicas, *_shifted(best, one, -step)))
            / (2 * step)
            for one in range(3)
        ]
    ).T
    system = slopes[columns].T @ slopes[columns] / (model.noise + model.misfit)
    system[1:, 1:] += precision
    assert found.covariance == pytest.approx(slopes @ np.linalg.inv(system) @ slopes.T, rel=1e-2, abs=1e-6)
    assert found.noise == model.noise + model.misfit
    assert (np.abs(model.mean - np.log([0.05, 1e-4])) < [0.4, 0.8]).all()
    assert np.sqrt(model.spread.diagonal()) == pytest.approx([0.4, 0.9], abs=0.1)
    assert 1e-10 <= model.misfit < 1e-4


def _shifted(parameters: Floats, one: int, step: float) -> tuple[float, float, float]:
    moved = parameters.copy()
    moved[one] += step
    return float(moved[0]), math.exp(moved[1]), math.exp(moved[2])


def test_one_known_curve_leaves_a_wide_prior() -> None:
    replicas = np.array(COUNTS, dtype=float)
    model = Scalability(COUNTS, 4e-4).fit(law(replicas, 0.0, 0.05, 1e-4)[None], level=True)
    assert np.sqrt(model.spread.diagonal()) == pytest.approx([2.0, 3.0], rel=0.01)
    alike = Scalability(COUNTS, 4e-4).fit(np.tile(law(replicas, 0.0, 0.05, 1e-4), (4, 1)), level=True)
    assert alike.spread.diagonal() == pytest.approx([1e-3, 1e-3], rel=0.01)
    assert alike.mean == pytest.approx(np.log([0.05, 1e-4]), rel=0.01)
    assert alike.misfit == 1e-10


@pytest.mark.parametrize("freedom", [2.0, 2.5, 3.0, 4.0, 5.0, 7.0, 10.0, 20.0, math.inf])
def test_deviations_are_those_of_the_same_90_percent_interval(freedom: float) -> None:
    heavy = norm if math.isinf(freedom) else student(freedom)
    unit = norm.ppf(0.95) / heavy.ppf(0.95)
    for probability in (0.01, 0.4, 0.9, 0.999):
        assert ErrorTails(freedom).deviations_at(probability) == pytest.approx(heavy.ppf(probability) * unit)
    # Quantiles of the distribution itself as errors: its own tails are found.
    missed = heavy.ppf((np.arange(40_000) + 0.5) / 40_000)[:, None] * 0.3
    each = np.arange(len(missed))  # a group of its own
    found = fitted_tails(missed, np.full_like(missed, 0.7), each)
    assert found.freedom == freedom
    assert found.narrowing == pytest.approx(1.0, rel=1e-2)
    assert calibration(missed, np.full_like(missed, 0.7), each) == pytest.approx(0.3 / unit / 0.7, rel=1e-3)


def test_calibration_stays_within_a_factor_of_twenty() -> None:
    ones, each = np.ones((50, 2)), np.arange(50)
    assert calibration(1e-9 * ones, ones, each) == 0.05
    assert calibration(1e9 * ones, ones, each) == 20.0
    assert fitted_tails(0.0 * ones, ones, each) == ErrorTails()


def test_methods_to_choose_from() -> None:
    names = [one.name for one in candidates((1, 2), one_unit=True)]
    assert len(names) == len(set(names))
    kinds = {kind: len(candidates(method=kind)) for kind in CompletionKind}
    # 1 of means, 18 folded in, 15 Bayesian; 6 of wide noise, 4 nearest, 1 of no effect.
    assert kinds == {CompletionKind.GAUSSIAN: 34, CompletionKind.NEAREST: 4, CompletionKind.BEST: 45}
    assert len(names) == 45 + 3 + 12
    for told in (
        "column means",
        "fold-in, rank 1, ridge 0.0003",
        "fold-in, rank 3, ridge 0.1",
        "Bayesian rows, prior 0.002, noise 2e-05",
        "Bayesian rows, prior 0.3, noise 0.1",
        "rows of one unit, prior 0.05, noise 0.0004",
        "scalability law, noise 0.0064",
        "median of all rows",
        "median of the 3 nearest",
        "no effect",
    ):
        assert told in names


@given(groups=st.lists(st.integers(0, 4), min_size=12, max_size=12).filter(lambda some: len(set(some)) > 2))
def test_each_group_is_predicted_from_all_others(groups: list[int]) -> None:
    known = low_rank_rows(11, 12)
    found = held_out(known, TWO, ColumnMeans(), level=False, groups=np.array(groups))
    missed = []
    for group in sorted(set(groups)):
        out = np.array(groups) == group
        mean = known[~out].mean(axis=0)
        missed += [(mean - row)[[0, 2, 4]] for row in known[out]]
    assert found.missed == pytest.approx(np.array(missed))
    assert set(found.weights.ravel()) == {1 / 0.05**2}


def test_of_many_rows_two_hundred_are_judged_in_ten_folds() -> None:
    known = low_rank_rows(12, 450)
    found = held_out(known, TWO, ColumnMeans(), level=False)
    assert found.missed.shape == (200, 3)
    assert held_out(known[:60], TWO, ColumnMeans(), level=False).missed.shape == (60, 3)
    means = [known[np.arange(450) % 10 != fold].mean(axis=0)[[0, 2, 4]] for fold in range(10)]
    first = means[0] - known[0, [0, 2, 4]]
    assert found.missed[0] == pytest.approx(first)
    assert found.missed[19] == pytest.approx(means[0] - known[440, [0, 2, 4]])  # the last of the fold


def test_uncertain_entries_weigh_less_in_the_choice() -> None:
    known = low_rank_rows(13, 8)
    deviations = np.zeros_like(known)
    deviations[:, 0] = 0.05
    found = held_out(known, TWO, ColumnMeans(), level=False, deviations=deviations)
    assert found.weights[:, 0] == pytest.approx(np.full(8, 1 / (2 * 0.05**2)))
    assert found.weights[:, 1] == pytest.approx(np.full(8, 1 / 0.05**2))
    assert found.deviation[:, 0] ** 2 - 0.05**2 == pytest.approx(found.deviation[:, 1] ** 2)
    average = np.average(np.abs(found.missed), weights=found.weights)
    assert found.mean_error == pytest.approx(average)


@pytest.mark.parametrize("level", [True, False])
@pytest.mark.parametrize(
    ("seed", "count", "scale"), [(14, 12, 1.0), (37, 6, 1.0), (9, 6, 0.05), (9, 12, 0.05)]
)
def test_the_first_columns_leave_least_variance(seed: int, count: int, scale: float, level: bool) -> None:
    """Of rows that vary much, and of rows that hardly vary beyond the noise of a measurement."""
    known = scale * low_rank_rows(seed, count)
    model = BayesianRows(0.05, 4e-4).fit(known, level=level)
    chosen: list[int] = []
    while len(chosen) < 3:
        left = {
            column: np.trace(
                model.complete(np.array([*chosen, column]), model.mean[[*chosen, column]]).covariance
            )
            for column in range(5)
            if column not in chosen
        }
        chosen.append(min(left, key=lambda column: left[column]))
    assert first_columns(known, 3, level=level).tolist() == chosen


@pytest.mark.parametrize(
    ("call_ms", "rate_per_s", "p99_ms", "variation"),
    [*itertools.product((2.0, 10.0), (50.0, 500.0), (60.0, 200.0), (0.3, 1.0, 1.5))],
)
def test_one_call_in_a_hundred_is_slower(
    call_ms: float, rate_per_s: float, p99_ms: float, variation: float
) -> None:
    """The chance of a longer wait, over all works of a call, at the capacity that is found."""
    found = float(spare_within(np.array([[call_ms / 1e3]]), rate_per_s, p99_ms, variation)[0, 0])
    stuck = 1 + 0.25 * min(variation, 1.0) ** 2
    shares = (np.arange(200_000) + 0.5) / 200_000
    work_s = call_ms / 1e3 * stuck * gamma.ppf(shares, 1 / variation**2, scale=variation**2)
    left_s = p99_ms / 1e3 - work_s
    if math.isinf(found):  # more than one call in a hundred is itself longer
        assert (left_s <= 0).mean() > 0.0095
        return
    used = rate_per_s / (rate_per_s + found)
    waits = used * np.exp(-2 * found * np.maximum(left_s, 0.0) / (1 + variation**2))
    assert np.where(left_s > 0, waits, 1.0).mean() == pytest.approx(0.01, rel=6e-3)


def test_the_weighted_mean_square_of_the_places_is_a_form_of_the_joint_vector() -> None:
    rng = np.random.default_rng(0)
    parts = {"up": range(2), "out": range(3), "het": range(4)}
    known = SimpleNamespace(**{name: SimpleNamespace(labels=labels) for name, labels in parts.items()})
    weights, vector = rng.random((2, 3, 4)), rng.normal(size=10)
    base, up, out, het = vector[0], vector[1:3], vector[3:6], vector[6:]
    whole = base + up[:, None, None] + out[None, :, None] + het[None, None, :]
    expected = float((weights / weights.sum() * whole**2).sum())
    assert vector @ _mean_square(cast("Measurements", known), weights) @ vector == pytest.approx(expected)


def test_how_undecided_a_place_is_follows_from_the_variance_of_its_sum() -> None:
    rng = np.random.default_rng(1)
    parts = {"up": range(2), "out": range(3), "het": range(2)}
    root = rng.normal(size=(8, 8))
    mean, covariance = rng.normal(size=8), root @ root.T
    known = SimpleNamespace(**{name: SimpleNamespace(labels=labels) for name, labels in parts.items()})
    told = SimpleNamespace(known=known, mean=mean, covariance=covariance)
    found = Classification.undecided(cast("Classification", told), 2.0)
    for up, out, het in itertools.product(*parts.values()):
        place = np.zeros(8)
        place[[0, 1 + up, 3 + out, 6 + het]] = 1.0
        meets = norm.cdf((place @ mean - math.log(2.0)) / math.sqrt(place @ covariance @ place))
        assert found[up, out, het] == pytest.approx(meets * (1 - meets))


@pytest.mark.parametrize(("sum_of_places", "clear"), [(0.9e-6, True), (1.1e-6, False)])
def test_all_places_count_alike_once_a_millionth_of_one_is_undecided(
    sum_of_places: float, clear: bool
) -> None:
    one = SimpleNamespace(labels=range(1))
    known = SimpleNamespace(up=one, out=one, het=one)
    covariance = np.zeros((4, 4))
    covariance[0, 0] = 1.0
    told = SimpleNamespace(known=known, mean=np.zeros(4), covariance=covariance)
    required = math.exp(norm.isf(sum_of_places))
    found = Classification.undecided(cast("Classification", told), required)
    assert found.item() == pytest.approx(1.0 if clear else sum_of_places, rel=1e-5)


def test_tails_are_those_of_the_rarest_errors_too() -> None:
    """Three of a hundred errors are six times as large, beyond what 95 of a hundred show."""
    errors = np.random.default_rng(0).normal(size=(4000, 1))
    errors[:120] *= 6.0
    ones, groups = np.ones_like(errors), np.arange(len(errors))
    assert math.isfinite(fitted_tails(errors, ones, groups).freedom)
    assert fitted_tails(errors, ones, groups).freedom <= 5.0
