"""Completions for rows of one unit, whose level tells most, and for rows that show no effect."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kwiken.allocator.workloads.completion.gaussian import (
    MIN_VARIANCE,
    BayesianRows,
    GaussianModel,
)
from kwiken.base.arrays import Floats


@dataclass(frozen=True)
class NoEffect:
    """Every column performs alike: a row is its level."""

    @property
    def name(self) -> str:
        """Name of the method."""
        return "no effect"

    def fit(self, rows: Floats, *, level: bool, deviations: Floats | None = None) -> GaussianModel:
        """Fit one variance of all entries around the level of their row, or around their common mean."""
        del deviations  # plain means
        size = rows.shape[1]
        middle = np.zeros(size) if level else np.full(size, rows.mean())
        rest = rows - (rows.mean(axis=1, keepdims=True) if level else middle)
        return GaussianModel(middle, np.zeros((size, size)), max(float(rest.var()), MIN_VARIANCE), level)


@dataclass(frozen=True)
class OneUnit:
    """Gaussian rows of one unit: how fast a workload is tells something about how it varies.

    Attributes:
        rows: model of the rows with their levels.
    """

    rows: BayesianRows

    @property
    def name(self) -> str:
        """Name of the method with its settings."""
        return f"rows of one unit, prior {self.rows.prior_share:g}, noise {self.rows.noise:g}"

    def fit(self, rows: Floats, *, level: bool, deviations: Floats | None = None) -> GaussianModel:
        """Fit the rows with their levels, as if they had none."""
        del level
        return self.rows.fit(rows, level=False, deviations=deviations)
