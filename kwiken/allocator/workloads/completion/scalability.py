"""Completion of scale-out rows by the Universal Scalability Law, with a prior learned from other rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kwiken.allocator.workloads.completion.gaussian import (
    AS_LEARNED,
    MIN_VARIANCE,
    Completion,
    EntryErrors,
    deviations_of,
)
from kwiken.base.arrays import Floats, Ints

# Prior of one known row, in logarithms of contention and coherency: wide, so that its entries decide.
WIDE_MEAN = np.log([0.03, 1e-5])
WIDE_DEVIATION = np.array([2.0, 3.0])
LOG_BOUNDS = (np.log(1e-9), np.log(10.0))  # of contention and coherency
MAX_STEPS = 20
MAX_STEP = 1.0  # of a logarithm in one step of Gauss and Newton
MIN_SPREAD = 1e-3  # variance of the prior's logarithms: rows that are all alike leave room for another
DONE = 1e-4  # largest step at which the iteration ends


def log_speedup(replicas: Floats, contention: Floats, coherency: Floats) -> Floats:
    """Logarithm of the speedup by the Universal Scalability Law (Gunther 2007).

    Args:
        replicas: (n,) numbers of replicas.
        contention: (b, 1) shares of the work that are serial, 0 or more.
        coherency: (b, 1) costs of keeping a pair of replicas consistent, as shares of the work, 0 or more.

    Returns:
        (b, n) logarithms of performance relative to one replica.
    """
    others = replicas - 1.0
    slowed = np.log1p(contention * others + coherency * replicas * others)
    speedup: Floats = np.log(replicas) - slowed
    return speedup


@dataclass(frozen=True)
class Scalability:
    """Curves of the Universal Scalability Law, fitted by Gauss-Newton steps in the parameters' logarithms.

    Attributes:
        replicas: number of replicas of each column.
        noise: variance of the noise of a measurement, squared natural logarithm.
    """

    replicas: tuple[int, ...]
    noise: float

    @property
    def name(self) -> str:
        """Name of the method with its settings."""
        return f"scalability law, noise {self.noise:g}"

    def fit(self, rows: Floats, *, level: bool, deviations: Floats | None = None) -> ScalabilityModel:
        """Fit the law to each row, and a Gaussian distribution to the rows' parameters.

        Args:
            rows: (m, n) logarithms of performance.
            level: must be true: performance has an unknown level.
            deviations: not used: the law's own noise stands for them.
        """
        del deviations
        assert level, "scale-out rows have an unknown level"
        counts = np.array(self.replicas, dtype=float)
        noise = np.full(len(counts), self.noise)
        wide = np.diag(WIDE_DEVIATION**-2.0)
        parameters, _ = _fitted(counts, rows, noise, WIDE_MEAN, wide)
        spread = np.atleast_2d(np.cov(parameters[:, 1:].T)) if len(rows) > 1 else np.diag(WIDE_DEVIATION**2)
        spread = spread + MIN_SPREAD * np.eye(2)
        misfit = max(float((rows - _curves(counts, parameters)).var()) - self.noise, MIN_VARIANCE)
        return ScalabilityModel(counts, parameters[:, 1:].mean(axis=0), spread, self.noise, misfit)


@dataclass(frozen=True, eq=False)
class ScalabilityModel:
    """Prior of the law's parameters.

    Attributes:
        replicas: (n,) numbers of replicas.
        mean: (2,) mean logarithms of contention and coherency.
        spread: (2, 2) their covariance.
        noise: variance of the noise of a measurement.
        misfit: variance of known rows around the law, beyond noise.
    """

    replicas: Floats
    mean: Floats
    spread: Floats
    noise: float
    misfit: float

    def complete(self, columns: Ints, values: Floats, errors: EntryErrors = AS_LEARNED) -> Completion:
        """Find the most probable curve, with its covariance by Laplace's approximation."""
        parameters, covariance = self._fit(columns, values[None, :], errors)
        mean = _curves(self.replicas, parameters)[0]
        if errors.as_measured:
            mean[columns] = values
        slopes = _slopes(self.replicas, parameters)[0]
        whole = slopes @ covariance[0] @ slopes.T
        return Completion(mean, whole, self.noise + self.misfit, columns)

    def predict(self, columns: Ints, values: Floats) -> tuple[Floats, Floats]:
        """Predict several rows that were measured in the same columns; see `Model.predict`."""
        parameters, covariance = self._fit(columns, values, AS_LEARNED)
        means = _curves(self.replicas, parameters)
        means[:, columns] = values
        slopes = _slopes(self.replicas, parameters)
        variance = np.einsum("bni,bij,bnj->bn", slopes, covariance, slopes)
        return means, deviations_of(variance, self.noise + self.misfit, columns)

    def _fit(self, columns: Ints, values: Floats, errors: EntryErrors) -> tuple[Floats, Floats]:
        noise = errors.variance(self.noise, len(columns)) + self.misfit
        precision = np.asarray(np.linalg.inv(self.spread), dtype=float)
        return _fitted(self.replicas[columns], values, noise, self.mean, precision)


def _curves(replicas: Floats, parameters: Floats) -> Floats:
    """(b, n) log performance; (b, 3) parameters: level, and logarithms of contention and coherency."""
    contention, coherency = np.exp(parameters[:, 1:2]), np.exp(parameters[:, 2:])
    curves: Floats = parameters[:, :1] + log_speedup(replicas, contention, coherency)
    return curves


def _slopes(replicas: Floats, parameters: Floats) -> Floats:
    """(b, n, 3) derivatives of the curves by the parameters."""
    others = replicas - 1.0
    serial = np.exp(parameters[:, 1:2]) * others
    pairs = np.exp(parameters[:, 2:]) * replicas * others
    slowed = 1.0 + serial + pairs
    return np.stack((np.ones_like(slowed), -serial / slowed, -pairs / slowed), axis=2)


def _fitted(
    replicas: Floats, values: Floats, noise: Floats, mean: Floats, precision: Floats
) -> tuple[Floats, Floats]:
    """(b, 3) most probable level and parameters given a Gaussian prior, and their (b, 3, 3) covariances."""
    parameters = np.zeros((len(values), 3))
    parameters[:, 1:] = mean
    parameters[:, 0] = (values - _curves(replicas, parameters)).mean(axis=1)
    for _ in range(MAX_STEPS):
        slopes = _slopes(replicas, parameters)
        weighted = slopes / noise[:, None]
        system = slopes.transpose(0, 2, 1) @ weighted
        system[:, 1:, 1:] += precision
        rest = values - _curves(replicas, parameters)
        downhill = np.einsum("bni,bn->bi", weighted, rest)
        downhill[:, 1:] -= (parameters[:, 1:] - mean) @ precision
        step = np.clip(np.linalg.solve(system, downhill[:, :, None])[:, :, 0], -MAX_STEP, MAX_STEP)
        parameters = parameters + step
        parameters[:, 1:] = np.clip(parameters[:, 1:], *LOG_BOUNDS)
        if np.abs(step).max() < DONE:
            break
    covariance = np.asarray(np.linalg.inv(system), dtype=float)
    return parameters, covariance
