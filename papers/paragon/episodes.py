"""Errors of completing new rows of a synthetic matrix, by method and by number of entries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from kwiken.allocator.workloads.classification import first_columns
from kwiken.allocator.workloads.completion.gaussian import ColumnMeans, FoldIn
from kwiken.allocator.workloads.completion.selection import Chosen, CompletionKind, candidates, choose
from kwiken.base.arrays import Bools, Floats, Ints
from papers.paragon.gradient_descent import GradientDescent

Draw = Callable[[np.random.Generator, int], Floats]
NEW_ROWS = 60
RIDGE = 1e-3
METHODS = ("column means", "fold-in", "chosen", "fold-in, designed columns", "chosen, designed columns")
CHOICES = ("random columns", "designed columns")
DENSITIES = (1, 2, 3, 4, 5, 8)  # entries of a new row
NORMAL_QUANTILE = 1.6449  # half width of a 90% interval, in deviations


@dataclass(frozen=True, eq=False)
class Episode:
    """One synthetic matrix: known rows, and new rows to complete.

    Attributes:
        known: (m, n) rows that are known whole.
        new: (b, n) rows of which a few entries are shown.
        level: whether rows have an unknown level; errors are relative then.
        replicas: number of replicas by column; None for another matrix.
    """

    known: Floats
    new: Floats
    level: bool
    replicas: tuple[int, ...] | None
    rank: int

    def random_columns(self, rng: np.random.Generator, entries: int) -> Ints:
        """(b, k) random columns, each row its own."""
        size = self.new.shape[1]
        return np.array([rng.choice(size, entries, replace=False) for _ in self.new], dtype=np.int64)

    def fold_in(self, columns: Ints) -> Floats:
        """(b, n) predicted rows: the published factors, solved in closed form."""
        model = FoldIn(self.rank, RIDGE).fit(self.known, level=self.level)
        return self._each(lambda at, row: model.complete(at, row[at]).mean, columns)

    def means(self, columns: Ints) -> Floats:
        """(b, n) predicted rows: the means of the columns."""
        model = ColumnMeans().fit(self.known, level=self.level)
        return self._each(lambda at, row: model.complete(at, row[at]).mean, columns)

    def descent(self, columns: Ints) -> Floats:
        """(b, n) predicted rows: the published gradient descent."""
        model = GradientDescent(self.rank).fit(self.known, level=self.level)
        return model.complete_all(columns, np.take_along_axis(self.new, columns, axis=1))

    def chosen(self, columns: Ints) -> tuple[Floats, Floats]:
        """Two arrays (b, n): predicted rows and their standard deviations, each by the best method.

        The best method has the least held-out error for the columns of the row.
        """
        means, deviations = [], []
        known: dict[tuple[int, ...], Chosen] = {}
        methods = candidates(self.replicas, CompletionKind.GAUSSIAN)
        for at, row in zip(columns, self.new, strict=True):
            ordered = np.sort(at)
            key = tuple(ordered.tolist())
            chosen = known.get(key) or choose(self.known, ordered, methods, level=self.level)
            known[key] = chosen
            found = chosen.complete(ordered, row[ordered])
            means.append(found.mean)
            deviations.append(found.deviation)
        return np.array(means), np.array(deviations)

    def designed(self, entries: int, given: Sequence[int] = ()) -> Ints:
        """(b, k) columns whose entries tell most, the same for all rows; `given` columns are among them."""
        columns = first_columns(self.known, entries, level=self.level, given=np.array(given, dtype=np.int64))
        return np.tile(columns, (len(self.new), 1))

    def errors(self, predicted: Floats, columns: Ints) -> list[float]:
        """Mean error of each row over its hidden entries: relative, or in points of a score."""
        hidden, missed = self.hidden(columns), self.missed(predicted)
        return [float(row[open_].mean()) for row, open_ in zip(missed, hidden, strict=True)]

    def missed(self, predicted: Floats) -> Floats:
        """(b, n) absolute errors: relative, or in points of a score."""
        error = np.expm1(predicted - self.new) if self.level else np.clip(predicted, 0, 1) - self.new
        return np.abs(error)

    def hidden(self, columns: Ints) -> Bools:
        """(b, n) whether an entry was not shown."""
        hidden = np.ones(self.new.shape, dtype=bool)
        np.put_along_axis(hidden, columns, values=False, axis=1)
        return hidden

    def covered(self, predicted: Floats, deviation: Floats, columns: Ints) -> float:
        """Share of the hidden entries within the 90% intervals of their predictions."""
        near = np.abs(predicted - self.new) <= NORMAL_QUANTILE * deviation
        return float(near[self.hidden(columns)].mean())

    def _each(self, complete: Callable[[Ints, Floats], Floats], columns: Ints) -> Floats:
        return np.array([complete(at, row) for at, row in zip(columns, self.new, strict=True)])


def drawn(
    draw: Draw,
    seed: int,
    *,
    known: int,
    level: bool,
    rank: int,
    replicas: tuple[int, ...] | None = None,
    new: int = NEW_ROWS,
) -> Episode:
    """Draw an episode: known rows and new ones.

    Args:
        draw: function from a random generator and a number of rows to the rows.
        known: number of rows that are known whole.
        replicas: number of replicas by column; None for another matrix.
    """
    rows = draw(np.random.default_rng(seed), known + new)
    return Episode(rows[:known], rows[known:], level, replicas, rank)


def by_density(episode: Episode, seed: int) -> dict[str, dict[int, list[float]]]:
    """Errors by method and number of random entries: the mean error of each row."""
    found: dict[str, dict[int, list[float]]] = {"fold-in": {}, "column means": {}}
    for entries in DENSITIES:
        columns = episode.random_columns(np.random.default_rng([seed, entries]), entries)
        found["fold-in"][entries] = episode.errors(episode.fold_in(columns), columns)
        found["column means"][entries] = episode.errors(episode.means(columns), columns)
    return found


@dataclass(frozen=True)
class TwoEntries:
    """Completions of rows with two entries.

    Attributes:
        errors: by method: mean error of each row.
        covered: by choice of columns: share of hidden entries within 90% intervals of the chosen method.
    """

    errors: dict[str, list[float]]
    covered: dict[str, float]


def two_entries(episode: Episode, seed: int, *, given: Sequence[int] = ()) -> TwoEntries:
    """Errors with two entries a row, by method, with random columns and with columns that tell most.

    Args:
        given: columns that are measured in any case; the others are random, or those that tell most.
    """
    rng = np.random.default_rng([seed, 2])
    size = episode.new.shape[1]
    columns = episode.random_columns(rng, 2)
    if given:
        others = rng.choice(np.setdiff1d(np.arange(size), given), (len(episode.new), 2 - len(given)))
        columns = np.hstack((np.tile(given, (len(episode.new), 1)), others))
    designed = episode.designed(2, given)
    by_choice, deviation = episode.chosen(columns)
    by_design, narrow = episode.chosen(designed)
    return TwoEntries(
        errors={
            "column means": episode.errors(episode.means(columns), columns),
            "fold-in": episode.errors(episode.fold_in(columns), columns),
            "chosen": episode.errors(by_choice, columns),
            "fold-in, designed columns": episode.errors(episode.fold_in(designed), designed),
            "chosen, designed columns": episode.errors(by_design, designed),
        },
        covered={
            "random columns": episode.covered(by_choice, deviation, columns),
            "designed columns": episode.covered(by_design, narrow, designed),
        },
    )
