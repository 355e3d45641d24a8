"""Scalability law, compared row by row with a general minimiser."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import minimize

from kwiken.allocator.workloads.completion.gaussian import EntryErrors
from kwiken.allocator.workloads.completion.scalability import Scalability, ScalabilityModel
from kwiken.base.arrays import Floats

COUNTS = (1, 2, 4, 8, 16, 32, 64)


def law(replicas: Floats, parameters: Floats) -> Floats:
    """Logarithms of performance; parameters are the level and the logarithms of contention and coherency."""
    contention, coherency = math.exp(parameters[1]), math.exp(parameters[2])
    slowed = 1 + contention * (replicas - 1) + coherency * replicas * (replicas - 1)
    return np.asarray(parameters[0] + np.log(replicas / slowed))


def most_probable(counts: Floats, values: Floats, noise: Floats, mean: Floats, spread: Floats) -> Floats:
    """Parameters of least squares, with a Gaussian prior on all but the level."""
    root = np.linalg.cholesky(np.linalg.inv(spread))

    def against(parameters: Floats) -> float:
        rest, prior = values - law(counts, parameters), root.T @ (parameters[1:] - mean)
        return float((rest**2 / noise).sum() + prior @ prior)

    start = np.array([values.mean() - law(counts, np.array([0.0, *mean])).mean(), *mean])
    options = {"gtol": 1e-9}
    return np.asarray(minimize(against, start, method="BFGS", options=options).x)


def curves(seed: int, count: int) -> Floats:
    """Rows that follow the law up to 2%, at levels of their own."""
    rng = np.random.default_rng(seed)
    parameters = np.column_stack([rng.normal(size=count), rng.normal([-3.0, -8.0], 0.5, (count, 2))])
    return np.array([law(np.array(COUNTS, dtype=float), one) for one in parameters]) + rng.normal(
        0, 0.02, (count, len(COUNTS))
    )


@pytest.mark.parametrize(("count", "columns"), [(1, 7), (2, 7), (5, 3)])
@pytest.mark.parametrize("noise", [1e-4, 0.3])
def test_a_prior_is_learned_from_each_row_alone(count: int, columns: int, noise: float) -> None:
    """A contention of 3% and a coherency of 1e-5 are taken for likely until rows tell otherwise."""
    rows, counts = curves(count, count)[:, :columns], np.array(COUNTS[:columns], dtype=float)
    wide = np.diag([4.0, 9.0])
    found = np.array(
        [most_probable(counts, row, np.full(columns, noise), np.log([0.03, 1e-5]), wide) for row in rows]
    )
    fitted = np.array([law(counts, one) for one in found])
    model = Scalability(COUNTS[:columns], noise).fit(rows, level=True)
    assert model.mean == pytest.approx(found[:, 1:].mean(axis=0), abs=1e-3)
    expected = wide if count == 1 else np.cov(found[:, 1:].T)
    assert model.spread == pytest.approx(expected + 1e-3 * np.eye(2), abs=2e-3 if count > 1 else 1e-9)
    assert model.misfit == pytest.approx(max(float((rows - fitted).var()) - noise, 1e-10), rel=1e-3)
    assert model.noise == noise


@pytest.mark.parametrize(
    "errors",
    [
        EntryErrors(),
        EntryErrors(repeats=np.array([4.0, 1.0, 2.0])),
        EntryErrors(variances=np.array([0.3, 0.0, 0.1])),
    ],
)
def test_a_row_is_completed_by_its_most_probable_curve(errors: EntryErrors) -> None:
    rows, at, counts = curves(3, 9), np.array([0, 3, 5]), np.array(COUNTS, dtype=float)
    model = Scalability(COUNTS, 1e-4).fit(rows[1:], level=True)
    assert model.misfit > model.noise  # as rows are 2% beside the law, and 1% is noise
    repeats = np.ones(3) if errors.repeats is None else errors.repeats
    noise = model.noise / repeats + model.misfit + (0.0 if errors.variances is None else errors.variances)
    values = rows[0, at] + np.array([0.03, -0.03, 0.02])
    best = most_probable(counts[at], values, noise, model.mean, model.spread)
    found = model.complete(at, values, errors)
    expected = law(counts, best)
    if errors.variances is None:
        expected[at] = values
    assert found.mean == pytest.approx(expected, abs=1e-3)
    slopes = np.array(
        [(law(counts, best + step) - law(counts, best - step)) / 2e-5 for step in 1e-5 * np.eye(3)]
    ).T
    system = slopes[at].T @ (slopes[at] / noise[:, None])
    system[1:, 1:] += np.linalg.inv(model.spread)
    assert found.covariance == pytest.approx(slopes @ np.linalg.inv(system) @ slopes.T, rel=1e-2, abs=1e-6)
    assert found.noise == pytest.approx(model.noise + model.misfit)


def stepped(model: ScalabilityModel, counts: Floats, values: Floats) -> Floats:
    """Parameters after the steps of Gauss and Newton: twenty at most, until one is below a ten-thousandth."""
    found, precision = np.array([0.0, *model.mean]), np.linalg.inv(model.spread)
    found[0] = (values - law(counts, found)).mean()
    for _ in range(20):
        serial, pairs = math.exp(found[1]) * (counts - 1), math.exp(found[2]) * counts * (counts - 1)
        slopes = np.array(
            [np.ones(len(counts)), -serial / (1 + serial + pairs), -pairs / (1 + serial + pairs)]
        )
        system = slopes @ slopes.T / (model.noise + model.misfit)
        system[1:, 1:] += precision
        downhill = slopes @ (values - law(counts, found)) / (model.noise + model.misfit)
        downhill[1:] -= precision @ (found[1:] - model.mean)
        step = np.clip(np.linalg.solve(system, downhill), -1.0, 1.0)
        found = found + step
        if np.abs(step).max() < 1e-4:
            break
    return np.asarray(found)


@pytest.mark.parametrize("surprise", [0.1, 0.3, 1.0, 3.0, 10.0])
def test_the_most_probable_curve_is_sought_in_twenty_steps_at_most(surprise: float) -> None:
    """Rows far from the prior use all twenty steps, others end at a small step; hidden entries show where."""
    rows, at, counts = curves(3, 9), np.array([0, 3, 5]), np.array(COUNTS, dtype=float)
    model = Scalability(COUNTS, 1e-4).fit(rows[1:], level=True)
    hidden = np.delete(np.arange(len(COUNTS)), at)
    for row in rows:
        values = row[at] + surprise * np.array([0.1, -0.1, 0.05])
        found = model.complete(at, values).mean
        assert found[hidden] == pytest.approx(
            law(counts, stepped(model, counts[at], values))[hidden], abs=1e-9
        )


@pytest.mark.parametrize(("row", "place"), [([0.0, -30.0, -30.0], 0), ([0.0, -5.0, -10.0], 1)])
def test_contention_and_coherency_are_at_most_ten(row: list[float], place: int) -> None:
    """Rows whose performance collapses fit more than ten best; ten is reached even from a prior of 1e-5."""
    model = Scalability((1, 2, 4), 1e-4).fit(np.array([row]), level=True)
    assert math.exp(model.mean[place]) == pytest.approx(10.0)


def test_the_level_alone_follows_a_change_of_unit_and_the_order_of_columns_is_free() -> None:
    rows, order = curves(4, 8), np.array([3, 0, 6, 2, 5, 1, 4])
    plain = Scalability(COUNTS, 4e-4).fit(rows, level=True)
    turned = Scalability(tuple(COUNTS[one] for one in order), 4e-4).fit(rows[:, order] + 5.0, level=True)
    assert turned.mean == pytest.approx(plain.mean)
    assert turned.spread == pytest.approx(plain.spread)
    assert turned.misfit == pytest.approx(plain.misfit)
    at = np.array([0, 3])
    once = plain.complete(at, rows[0, at])
    again = turned.complete(np.argsort(order)[at], rows[0, at] + 5.0)
    assert again.mean == pytest.approx(once.mean[order] + 5.0)
    assert again.deviation == pytest.approx(once.deviation[order])


def test_many_rows_are_predicted_like_each_alone() -> None:
    rows, at = curves(5, 12), np.array([0, 4])
    model = Scalability(COUNTS, 1e-4).fit(rows[4:], level=True)
    means, deviations = model.predict(at, rows[:4, at])
    for row, mean, deviation in zip(rows, means, deviations, strict=False):
        alone = model.complete(at, row[at])
        assert mean == pytest.approx(alone.mean, abs=1e-5)
        assert deviation == pytest.approx(alone.deviation, rel=1e-4)
