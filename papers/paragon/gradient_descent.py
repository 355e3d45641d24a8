"""Completion by stochastic gradient descent on factors from a singular value decomposition, as published."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kwiken.allocator.workloads.completion.gaussian import (
    AS_LEARNED,
    Completion,
    EntryErrors,
    FoldIn,
    centred,
)
from kwiken.base.arrays import Floats, Ints

# A column's step over a row's, times the number of rows: one row must not drag the columns along.
COLUMN_STEP_PER_ROW = 10.0


@dataclass(frozen=True)
class GradientDescent:
    """Factors of rows and columns, refined entry by entry (Paragon section 3.4, Quasar section 3.4).

    Only measured entries are visited, in a new order every epoch. The level of a row is stepped with the
    factors and not penalised: a level that is fixed first takes the signal of the few entries with it.
    Standard deviations are those of `FoldIn`, to which the descent converges when columns are held fixed.

    Attributes:
        rate: step of a row's factors.
        penalty: weight of the squared factors.
        max_epochs: most passes over all entries.
        tolerance: relative change of the error over one epoch, a share, at which the descent ends.
        seed: seed of the order of entries.
    """

    rank: int
    rate: float = 0.5
    penalty: float = 3e-3
    max_epochs: int = 400
    tolerance: float = 1e-5
    seed: int = 0

    @property
    def name(self) -> str:
        """Name of the method with its settings."""
        return f"gradient descent, rank {self.rank}"

    def fit(self, rows: Floats, *, level: bool, deviations: Floats | None = None) -> DescentModel:
        """Keep the rows: each completion descends over them and the new row together."""
        del deviations  # the source knows none
        return DescentModel(self, rows, level)


@dataclass(frozen=True, eq=False)
class DescentModel:
    """Rows that a new row is completed with.

    Attributes:
        rows: (m, n) rows that are known whole, transformed.
        level: whether each row has an unknown level.
    """

    settings: GradientDescent
    rows: Floats
    level: bool

    def complete(self, columns: Ints, values: Floats, errors: EntryErrors = AS_LEARNED) -> Completion:
        """Descend over the known rows and the new one; see `Model.complete`."""
        mean = self.complete_all(columns[None, :], values[None, :])[0]
        closed = FoldIn(self.settings.rank, self.settings.penalty).fit(self.rows, level=self.level)
        folded_in = closed.complete(columns, values, errors)
        return Completion(mean, folded_in.covariance, folded_in.noise, columns)

    def predict(self, columns: Ints, values: Floats) -> tuple[Floats, Floats]:
        """Predict several rows that were measured in the same columns; see `Model.predict`."""
        means = self.complete_all(np.tile(columns, (len(values), 1)), values)
        closed = FoldIn(self.settings.rank, self.settings.penalty).fit(self.rows, level=self.level)
        return means, closed.predict(columns, values)[1]

    def complete_all(self, columns: Ints, values: Floats) -> Floats:
        """Complete several rows, each on its own beside the known rows, in one pass of array operations.

        Args:
            columns: (b, k) columns of each row's entries.
            values: (b, k) the entries.

        Returns:
            (b, n) predicted rows; entries that were measured are as measured.
        """
        settings = self.settings
        found = _Factors.initial(self.rows, columns, values, settings.rank, level=self.level)
        count, size = self.rows.shape
        entries = [(row, column) for row in range(count) for column in range(size)]
        entries += [(count, place) for place in range(columns.shape[1])]
        rng = np.random.default_rng(settings.seed)
        last = np.inf
        for _ in range(settings.max_epochs):
            squares = 0.0
            for entry in rng.permutation(len(entries)).tolist():
                row, place = entries[entry]
                squares += found.step(row, place, settings)
            error = float(np.sqrt(squares))
            if abs(last - error) <= settings.tolerance * error:
                break
            last = error
        predicted = found.new_rows()
        np.put_along_axis(predicted, columns, values, axis=1)
        return predicted


@dataclass(eq=False)
class _Factors:
    """State of the descents, one for each new row; the last axis counts them: a step is contiguous."""

    mean: Floats  # (n,)
    known: Floats  # (m, n), centred
    columns: Ints  # (k, b)
    new: Floats  # (k, b), centred
    of_rows: Floats  # (m + 1, r, b); the new row is the last
    of_columns: Floats  # (n, r, b)
    levels: Floats  # (m + 1, b)
    level: bool

    @classmethod
    def initial(cls, rows: Floats, columns: Ints, values: Floats, rank: int, *, level: bool) -> _Factors:
        """Factors of the known rows by decomposition; a new row starts at the mean row, at its own level."""
        mean, rest = centred(rows, level=level)
        left, singular, right = np.linalg.svd(rest, full_matrices=False)
        count, batch = len(rows), len(columns)
        of_rows = np.vstack((left[:, :rank] * np.sqrt(count), np.zeros((1, min(rank, len(singular))))))
        of_columns = right[:rank].T * singular[:rank] / np.sqrt(count)
        new = (values - mean[columns]).T
        levels = np.zeros((count + 1, batch))
        if level:
            levels[:count] = rows.mean(axis=1)[:, None]
            levels[count] = new.mean(axis=0)
        return cls(
            mean,
            rows - mean,
            columns.T,
            new,
            np.repeat(of_rows[:, :, None], batch, axis=2),
            np.repeat(of_columns[:, :, None], batch, axis=2),
            levels,
            level,
        )

    def step(self, row: int, place: int, settings: GradientDescent) -> float:
        """Step along one entry in all descents; gives the sum of the squared errors before the step."""
        of_row, level = self.of_rows[row], self.levels[row]
        each = np.arange(len(level))
        is_new = row == len(self.known)
        if is_new:  # its columns differ between the descents
            column = self.columns[place]
            of_column = self.of_columns[column, :, each].T
            error = self.new[place] - level
        else:
            of_column = self.of_columns[place]
            error = self.known[row, place] - level
        error = error - (of_row * of_column).sum(axis=0)
        rate, penalty = settings.rate, settings.penalty
        column_rate = COLUMN_STEP_PER_ROW * rate / len(self.known)
        moved = of_column + column_rate * (error * of_row - penalty * of_column)
        of_row += rate * (error * of_column - penalty * of_row)
        if is_new:
            self.of_columns[column, :, each] = moved.T
        else:
            of_column[:] = moved
        if self.level:
            level += rate * error
        return float(error @ error)

    def new_rows(self) -> Floats:
        """(b, n) completed new rows."""
        fitted = (self.of_rows[-1] * self.of_columns).sum(axis=1).T
        completed: Floats = self.mean + self.levels[-1][:, None] + fitted
        return completed
