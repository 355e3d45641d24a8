"""Completion of a row from few entries: Gaussian models of rows, fitted to rows that are known whole.

A row is one workload, a column one size, number of replicas, node class or source of contention. Performance
is completed in logarithms, where a row has an unknown level: only ratios within a row can be learned from
others. Scores of contention are absolute and have no level of their own (Paragon section 3.6).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from kwiken.base.arrays import Floats, Ints

MANY_ROWS_PER_COLUMN = 10  # from which the rows are factored by their covariance
MIN_VARIANCE = 1e-10  # of an entry: keeps systems of equations solvable where rows are exact
EM_ROUNDS = 8  # of expectation and maximisation, where entries of the known rows are uncertain


@dataclass(frozen=True, eq=False)
class EntryErrors:
    """Errors of the measured entries of a row.

    An entry is the mean of its measurements. Each measurement has the noise that the model has learned, and
    the mean of several has less of that. Where measurements state deviations of their own, these come on top.

    Attributes:
        repeats: (k,) number of measurements of each entry; None for one each.
        variances: (k,) variance of each entry beyond the model's noise; None where it is not known.
    """

    repeats: Floats | None = None
    variances: Floats | None = None

    @property
    def as_measured(self) -> bool:
        """Whether measured entries stay as they are: without variances, other entries cannot correct them."""
        return self.variances is None

    def variance(self, noise: float, count: int) -> Floats:
        """(k,) variances of the entries' errors.

        Args:
            noise: variance of one measurement by the model.
            count: number of entries, k.
        """
        shares = np.ones(count) if self.repeats is None else 1.0 / self.repeats
        return noise * shares if self.variances is None else noise * shares + self.variances


AS_LEARNED = EntryErrors()  # one measurement of each entry, with the noise that the model has learned


def deviations_of(variances: Floats, noise: float, columns: Ints) -> Floats:
    """Standard deviations of predictions, those of unmeasured entries with noise.

    Args:
        variances: (n,) or (b, n) variances without noise; below 0 by rounding at most.
        noise: variance that a measurement adds.
        columns: (k,) columns that were measured.
    """
    noisy = np.full(variances.shape[-1], noise)
    noisy[columns] = 0.0
    deviations: Floats = np.sqrt(np.maximum(variances, 0.0) + noisy)
    return deviations


@dataclass(frozen=True, eq=False)
class Completion:
    """Predicted row, jointly with its uncertainty.

    Attributes:
        mean: (n,) predicted values; entries that were measured are as measured, unless their own variances
            are known: then they move toward what the other entries say.
        covariance: (n, n) covariance of the errors of the row without noise of measurement.
        noise: variance that a new measurement of one entry would add.
        columns: (k,) columns that were measured.
    """

    mean: Floats
    covariance: Floats
    noise: float
    columns: Ints

    @property
    def deviation(self) -> Floats:
        """(n,) standard deviations of the predictions; those of unmeasured entries include noise."""
        return deviations_of(self.covariance.diagonal(), self.noise, self.columns)

    def scaled(self, factor: float) -> Completion:
        """The same predictions with their standard deviations multiplied by a factor."""
        square = factor * factor
        return Completion(self.mean, square * self.covariance, square * self.noise, self.columns)


class Model(Protocol):
    """Model of rows, fitted to the rows that are known whole."""

    def complete(self, columns: Ints, values: Floats, errors: EntryErrors = AS_LEARNED) -> Completion:
        """Predict a whole row from some of its entries.

        Args:
            columns: (k,) columns of the entries, each once.
            values: (k,) the entries, in the transformed unit of the model's rows.
            errors: what is known of the entries' errors.
        """
        ...  # pragma: no cover - a protocol

    def predict(self, columns: Ints, values: Floats) -> tuple[Floats, Floats]:
        """Predict several rows that were measured in the same columns.

        Args:
            columns: (k,) columns of the entries, each once.
            values: (b, k) the entries, transformed.

        Returns:
            Two arrays (b, n): predicted rows, and the standard deviations of the predictions.
        """
        ...  # pragma: no cover - a protocol


class Completer(Protocol):
    """CompletionKind of completion with its settings."""

    @property
    def name(self) -> str:
        """Name of the method with its settings."""
        ...  # pragma: no cover - a protocol

    def fit(self, rows: Floats, *, level: bool, deviations: Floats | None = None) -> Model:
        """Fit to rows that are known whole.

        Args:
            rows: (m, n) rows: natural logarithms, or scores from 0 to 1.
            level: whether each row has an unknown level of its own.
            deviations: (m, n) standard deviations of the entries, in their unit; None where they are not
                known. Methods from a source, and baselines, take every entry alike.
        """
        ...  # pragma: no cover - a protocol


@dataclass(frozen=True, eq=False)
class GaussianModel:
    """Rows as draws from a Gaussian distribution, with a flat prior on the level of a row where it has one.

    Attributes:
        mean: (n,) mean row: natural logarithms, or scores from 0 to 1.
        covariance: (n, n) covariance of rows around it.
        noise: variance of the noise in each entry.
        level: whether a row has an unknown level.
        freedom: degrees of freedom of the covariance's posterior; infinite where it is taken as known. With
            few, a row whose entries are surprising gets wider predictions (a multivariate t distribution).
    """

    mean: Floats
    covariance: Floats
    noise: float
    level: bool
    freedom: float = np.inf

    def complete(self, columns: Ints, values: Floats, errors: EntryErrors = AS_LEARNED) -> Completion:
        """Condition the distribution of rows on some entries; the level is estimated with them."""
        given = self._conditioned(columns, errors)
        mean, surprise = self._means(given, columns, values[None, :], as_measured=errors.as_measured)
        found = Completion(mean[0], given.covariance, self.noise, columns)
        return found.scaled(float(surprise[0]))

    def predict(self, columns: Ints, values: Floats) -> tuple[Floats, Floats]:
        """Predict several rows that were measured in the same columns: the same covariance serves all."""
        given = self._conditioned(columns, AS_LEARNED)
        means, surprise = self._means(given, columns, values, as_measured=True)
        deviation = Completion(self.mean, given.covariance, self.noise, columns).deviation
        return means, surprise[:, None] * deviation

    def _conditioned(self, columns: Ints, errors: EntryErrors) -> _Conditioned:
        """Part of the conditioning that does not depend on the values."""
        noise = np.diag(errors.variance(self.noise, len(columns)))
        known = self.covariance[np.ix_(columns, columns)] + noise
        weights = np.asarray(np.linalg.inv(known), dtype=float)
        gain = self.covariance[:, columns] @ weights
        covariance = self.covariance - gain @ self.covariance[columns]
        if self.level and len(columns):
            untold = 1.0 - gain.sum(axis=1)
            covariance = covariance + np.outer(untold, untold) / weights.sum()
        return _Conditioned(weights, gain, covariance)

    def _means(
        self, given: _Conditioned, columns: Ints, values: Floats, *, as_measured: bool
    ) -> tuple[Floats, Floats]:
        """(b, n) predicted rows, and (b,) factors on their deviations, by how surprising the entries are."""
        rest = values - self.mean[columns]
        level = np.zeros((len(values), 1))
        tells_level = self.level and bool(len(columns))
        if tells_level:
            level = (rest @ given.weights.sum(axis=0) / given.weights.sum())[:, None]
        rest = rest - level
        means = self.mean + level + rest @ given.gain.T
        if as_measured:
            means[:, columns] = values
        if np.isinf(self.freedom):
            return means, np.ones(len(values))
        told = len(columns) - tells_level
        distance = np.einsum("bi,ij,bj->b", rest, given.weights, rest)
        return means, np.sqrt((self.freedom + distance) / (self.freedom + told))


@dataclass(frozen=True, eq=False)
class _Conditioned:
    weights: Floats  # (k, k)
    gain: Floats  # (n, k)
    covariance: Floats  # (n, n)


def centred(rows: Floats, *, level: bool) -> tuple[Floats, Floats]:
    """Mean row, and the rows around it; each row's own level is removed first where it has one.

    Args:
        rows: (m, n) rows.
        level: whether each row has an unknown level.

    Returns:
        The (n,) mean row, and the (m, n) rows less their level and the mean row.
    """
    level_free = rows - rows.mean(axis=1, keepdims=True) if level else rows
    mean = level_free.mean(axis=0)
    return mean, level_free - mean


@dataclass(frozen=True)
class ColumnMeans:
    """Baseline: every row is the mean row, moved to the level of its entries."""

    @property
    def name(self) -> str:
        """Name of the method."""
        return "column means"

    def fit(self, rows: Floats, *, level: bool, deviations: Floats | None = None) -> GaussianModel:
        """Fit the mean row, and one variance of all entries around it."""
        del deviations  # plain means
        mean, rest = centred(rows, level=level)
        size = rows.shape[1]
        return GaussianModel(mean, np.zeros((size, size)), max(float(rest.var()), MIN_VARIANCE), level)


@dataclass(frozen=True)
class FoldIn:
    """Singular vectors of the known rows, and ridge regression of a new row on them (Paragon section 3.4).

    Attributes:
        ridge: penalty, a variance of entries in the unit of the rows.
    """

    rank: int
    ridge: float

    @property
    def name(self) -> str:
        """Name of the method with its settings."""
        return f"fold-in, rank {self.rank}, ridge {self.ridge:g}"

    def fit(self, rows: Floats, *, level: bool, deviations: Floats | None = None) -> GaussianModel:
        """Factor the rows; ridge regression is conditioning on unit row factors and noise of size `ridge`."""
        del deviations  # the source knows none
        mean, rest = centred(rows, level=level)
        if len(rows) > MANY_ROWS_PER_COLUMN * rows.shape[1]:  # the same by a small matrix
            squares, vectors = np.linalg.eigh(rest.T @ rest)
            singular, right = np.sqrt(np.maximum(squares[::-1], 0.0)), vectors[:, ::-1].T
        else:
            _, singular, right = np.linalg.svd(rest, full_matrices=False)
        factors = right[: self.rank].T * singular[: self.rank] / np.sqrt(len(rows))
        return GaussianModel(mean, factors @ factors.T, self.ridge, level)


@dataclass(frozen=True)
class BayesianRows:
    """Gaussian rows of full rank with an inverse-Wishart prior on their covariance, in closed form.

    The prior pulls the covariance of the known rows toward equal, independent columns. Fewer rows leave fewer
    degrees of freedom, so that predictions are wider (Gelman et al., Bayesian Data Analysis, section 3.6).

    Attributes:
        prior_share: weight of the prior in the covariance, from 0 to 1.
        noise: variance of the noise of a measurement, in the unit of the rows.
    """

    prior_share: float
    noise: float

    @property
    def name(self) -> str:
        """Name of the method with its settings."""
        return f"Bayesian rows, prior {self.prior_share:g}, noise {self.noise:g}"

    def fit(self, rows: Floats, *, level: bool, deviations: Floats | None = None) -> GaussianModel:
        """Fit the posterior of the covariance, by expectation and maximisation for uncertain entries."""
        mean, rest = centred(rows, level=level)
        count = len(rows)
        covariance = self._shrunk(rest.T @ rest / max(count - 1, 1))
        for _ in range(0 if deviations is None else EM_ROUNDS):
            assert deviations is not None
            latent, spread = _expected(mean, covariance, rows, deviations**2, level=level)
            mean, rest = centred(latent, level=level)
            covariance = self._shrunk((rest.T @ rest + spread) / max(count - 1, 1))
        freedom = count - 1 + self.prior_share * count
        return GaussianModel(mean, covariance, self.noise, level, float(max(freedom, 1.0)))

    def _shrunk(self, sample: Floats) -> Floats:
        """Covariance pulled toward that of equal, independent columns."""
        size = len(sample)
        apart = np.trace(sample) / size * np.eye(size)
        covariance: Floats = (1.0 - self.prior_share) * sample + self.prior_share * apart
        return covariance


def _expected(
    mean: Floats, covariance: Floats, rows: Floats, variances: Floats, *, level: bool
) -> tuple[Floats, Floats]:
    """(m, n) expected true rows given uncertain ones, at any level, and the sum of level-free covariances.

    Args:
        mean: (n,) mean row.
        covariance: (n, n) covariance of true rows around it.
        rows: (m, n) uncertain rows.
        variances: (m, n) variances of their errors.
        level: whether each row has an unknown level.
    """
    size = len(mean)
    noise = (variances + MIN_VARIANCE)[:, :, None] * np.eye(size)
    weights = np.linalg.inv(covariance + noise)
    rest = rows - mean
    gain = covariance @ weights
    errors = covariance - gain @ covariance
    if level:
        whole = weights.sum(axis=(1, 2))
        rest = rest - (np.einsum("mi,mij->m", rest, weights) / whole)[:, None]
        pulled = gain.sum(axis=2)  # effect of an error of the level; what all columns share is removed below
        errors = errors + pulled[:, :, None] * pulled[:, None, :] / whole[:, None, None]
    latent = mean + np.einsum("mij,mj->mi", gain, rest)
    spread = errors.sum(axis=0)
    if level:
        centre = np.eye(size) - 1.0 / size
        spread = centre @ spread @ centre
    return latent, spread
