"""Completion by the nearest known rows: the median of the rows that come closest at the measured entries.

The source finds them by locality-sensitive hashing; here they are exact, from a k-d tree.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.spatial import cKDTree

from kwiken.allocator.workloads.completion.gaussian import AS_LEARNED, MIN_VARIANCE, Completion, EntryErrors
from kwiken.base.arrays import Floats, Ints

NOISE = 4e-4  # variance of the noise of a measurement: a deviation of 2%, of a logarithm or a score
PRIOR_ROWS = 2.0  # rows that the spread of all rows counts as, beside that of the neighbours
TIE = 1e-9  # difference of two distances below which both rows count as equally near


@dataclass(frozen=True)
class NearestRows:
    """Median of the nearest known rows, column by column (LSH, section 2.4).

    Rows with a level of their own are compared, and joined, relative to their mean at the measured entries.

    Attributes:
        count: number of neighbours, 1 or more; None for all rows. Rows that are as near as the last
            neighbour count too: one entry of a row with a level gives the median of all rows.
    """

    count: int | None = 5

    @property
    def name(self) -> str:
        """Name of the method with its settings."""
        return "median of all rows" if self.count is None else f"median of the {self.count} nearest"

    def fit(self, rows: Floats, *, level: bool, deviations: Floats | None = None) -> NearestModel:
        """Keep the rows; the tree is built once for each set of columns."""
        del deviations  # the median bears single uncertain entries
        return NearestModel(rows, level, self.count)


@dataclass(frozen=True, eq=False)
class _Prepared:
    """Known rows for one set of columns.

    Attributes:
        aligned: (m, n) rows, less their mean at the columns where they have a level.
        spread: (n,) variance of all rows around their median.
        tree: tree of the rows at the columns.
    """

    aligned: Floats
    spread: Floats
    tree: cKDTree


@dataclass(frozen=True, eq=False)
class NearestModel:
    """Known rows, among which neighbours are found.

    Attributes:
        rows: (m, n) known rows: natural logarithms, or scores from 0 to 1.
        level: whether each row has an unknown level.
        count: number of neighbours; None for all rows.
    """

    rows: Floats
    level: bool
    count: int | None
    _by_columns: dict[tuple[int, ...], _Prepared] = field(default_factory=dict)

    def neighbours(self, columns: Ints, values: Floats) -> tuple[Ints, Floats]:
        """Nearest rows to some entries, nearest first, and their distances.

        Args:
            columns: (k,) columns of the entries, each once.
            values: (k,) the entries, in the unit of the rows.

        Returns:
            Indices of the rows, and root mean squares of their differences over the entries.
        """
        point = values - values.mean() if self.level else values
        tree = self._prepared(columns).tree
        if self.count is None or self.count >= len(self.rows):
            near = np.arange(len(self.rows), dtype=np.int64)
        else:
            last = float(tree.query(point, [self.count])[0][0])
            near = np.array(sorted(tree.query_ball_point(point, last + TIE)), dtype=np.int64)
        apart = np.sqrt(((tree.data[near] - point) ** 2).mean(axis=1))
        order = np.argsort(apart, kind="stable")
        return near[order], apart[order]

    def complete(self, columns: Ints, values: Floats, errors: EntryErrors = AS_LEARNED) -> Completion:
        """Take the median over the neighbours; where they disagree is the deviation; see `Model.complete`."""
        prepared = self._prepared(columns)
        near, _ = self.neighbours(columns, values)
        rows = prepared.aligned[near]
        middle = np.median(rows, axis=0)
        rest = rows - middle
        weight = len(near) - 1 + PRIOR_ROWS
        covariance = (rest.T @ rest + PRIOR_ROWS * np.diag(prepared.spread)) / weight
        covariance *= 1.0 + 1.0 / len(near)
        variances = errors.variance(NOISE, len(columns))
        mean = middle + (float(values.mean()) if self.level else 0.0)
        # An entry is what was measured or, where its own error is known, between that and its neighbours.
        own = covariance.diagonal()[columns] + MIN_VARIANCE
        trust = np.ones(len(columns)) if errors.as_measured else own / (own + variances)
        mean[columns] += trust * (values - mean[columns])
        if self.level:  # the level is as uncertain as the mean of the entries
            covariance += float(variances.mean()) / len(columns)
        covariance[columns] = covariance[:, columns] = 0.0
        covariance[columns, columns] = trust * variances
        return Completion(mean, covariance, NOISE, columns)

    def predict(self, columns: Ints, values: Floats) -> tuple[Floats, Floats]:
        """Predict several rows that were measured in the same columns; see `Model.predict`.

        The same as `complete` row by row, without the covariances.
        """
        prepared, count = self._prepared(columns), len(columns)
        means, deviations = (
            np.empty((len(values), self.rows.shape[1])),
            np.empty((len(values), self.rows.shape[1])),
        )
        for place, given in enumerate(values):
            near, _ = self.neighbours(columns, given)
            rows = prepared.aligned[near]
            middle = np.median(rows, axis=0)
            weight = len(near) - 1 + PRIOR_ROWS
            variance = (((rows - middle) ** 2).sum(axis=0) + PRIOR_ROWS * prepared.spread) / weight
            variance *= 1.0 + 1.0 / len(near)
            means[place] = middle + (float(given.mean()) if self.level else 0.0)
            deviations[place] = np.sqrt(variance + NOISE + (NOISE / count if self.level else 0.0))
        means[:, columns] = values
        deviations[:, columns] = np.sqrt(NOISE)
        return means, deviations

    def _prepared(self, columns: Ints) -> _Prepared:
        key = tuple(columns.tolist())
        if key not in self._by_columns:
            rows = self.rows
            aligned = rows - rows[:, columns].mean(axis=1, keepdims=True) if self.level else rows
            spread = ((aligned - np.median(aligned, axis=0)) ** 2).mean(axis=0)
            self._by_columns[key] = _Prepared(aligned, spread, cKDTree(aligned[:, columns]))
        return self._by_columns[key]
