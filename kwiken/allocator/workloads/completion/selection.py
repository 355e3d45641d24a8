"""Choice of a method of completion by its error on held-out rows."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np

from kwiken.allocator.workloads.completion.gaussian import (
    AS_LEARNED,
    MIN_VARIANCE,
    BayesianRows,
    ColumnMeans,
    Completer,
    Completion,
    EntryErrors,
    FoldIn,
    GaussianModel,
    Model,
)
from kwiken.allocator.workloads.completion.joined import JoinedModel, joined
from kwiken.allocator.workloads.completion.nearest import NearestRows
from kwiken.allocator.workloads.completion.scalability import Scalability
from kwiken.allocator.workloads.completion.tails import NORMAL_TAILS, ErrorTails, calibration, fitted_tails
from kwiken.base.arrays import Floats, Ints
from kwiken.base.errors import InputError

MIN_ROWS: Final = 3  # known rows, or groups of them: one is held out, and two show a spread
MAX_HELD_OUT: Final = 200  # rows that are held out, of a long history
MAX_FOLDS: Final = 10  # groups of rows that are held out together
SURE_DEVIATION: Final = 0.05  # of an entry, score or logarithm: a surer one weighs hardly more in the choice
RANKS: Final = (1, 2, 3)
RIDGES: Final = (3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1)  # of `FoldIn` (Paragon section 3.4)
PRIOR_SHARES: Final = (0.002, 0.05, 0.3)
NOISES: Final = (2e-5, 1e-4, 4e-4, 1.6e-3, 6.4e-3)  # variances: deviations of 0.4% to 8%
WIDE_NOISES: Final = (2.5e-2, 1e-1)  # of rows that hardly follow any pattern: 16% and 32%
UNIT_NOISES: Final = (4e-4, 6.4e-3, *WIDE_NOISES)  # of rows of one unit
LAW_NOISES: Final = (2e-5, 4e-4, 6.4e-3)  # of the scalability law
NEIGHBOURS: Final = (3, 5, 10, None)  # numbers of nearest rows; None for all of them
MAX_JOINED: Final = 3  # methods whose mean is tried
KINDS_JOINED: Final = 4  # best kinds of method that are joined with one another


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


class CompletionKind(StrEnum):
    """Methods that a completion may be chosen from.

    Attributes:
        NEAREST: medians of the nearest known rows.
        GAUSSIAN: Gaussian models of rows, and the scalability law over replicas.
        BEST: both, rows of one unit, no effect at all, and means of the best ones of different kinds.
    """

    NEAREST = "nearest"
    GAUSSIAN = "gaussian"
    BEST = "best"


@dataclass(frozen=True, eq=False)
class Chosen:
    """CompletionKind with the least held-out error, fitted to all known rows.

    Attributes:
        name: name of the method with its settings, or of several methods whose mean it is.
        scale: factor on the model's standard deviations that made 90% intervals cover 90% of held-out errors.
        error: mean absolute held-out error, in the unit of the rows.
        errors: mean absolute held-out error by name of every method that was tried: logarithm, or score
            from 0 to 1.
        tails: distribution of the errors; see `fitted_tails`.
    """

    name: str
    model: Model
    scale: float
    error: float
    errors: dict[str, float]
    tails: ErrorTails = NORMAL_TAILS

    def complete(self, columns: Ints, values: Floats, errors: EntryErrors = AS_LEARNED) -> Completion:
        """Complete a row with calibrated standard deviations; see `Model.complete`.

        Args:
            columns: (k,) columns of the entries, each once.
            values: (k,) the entries: natural logarithms, or scores from 0 to 1.
            errors: what is known of the entries' errors.
        """
        return self.model.complete(columns, values, errors).scaled(self.scale)


def candidates(
    replicas: Sequence[int] | None = None,
    method: CompletionKind = CompletionKind.BEST,
    *,
    one_unit: bool = False,
) -> tuple[Completer, ...]:
    """Methods to choose from, with their settings.

    Args:
        replicas: number of replicas of each column of a scale-out matrix; None for another matrix.
        method: kinds of method to choose from.
        one_unit: whether all rows are in one unit, so that their levels can be compared.
    """
    nearest: tuple[Completer, ...] = tuple(NearestRows(count) for count in NEIGHBOURS)
    if method is CompletionKind.NEAREST:
        return nearest
    folded = tuple(FoldIn(rank, ridge) for rank in RANKS for ridge in RIDGES)
    bayesian = tuple(BayesianRows(share, noise) for share in PRIOR_SHARES for noise in NOISES)
    laws = () if replicas is None else tuple(Scalability(tuple(replicas), noise) for noise in LAW_NOISES)
    gaussian: tuple[Completer, ...] = (ColumnMeans(), *folded, *bayesian, *laws)
    if method is CompletionKind.GAUSSIAN:
        return gaussian
    wide = tuple(BayesianRows(share, noise) for share in PRIOR_SHARES for noise in WIDE_NOISES)
    units = tuple(OneUnit(BayesianRows(share, noise)) for share in PRIOR_SHARES for noise in UNIT_NOISES)
    return (*gaussian, *wide, *nearest, NoEffect(), *(units if one_unit else ()))


def choose(
    rows: Floats,
    columns: Ints,
    methods: Sequence[Completer],
    *,
    level: bool,
    deviations: Floats | None = None,
    groups: Ints | None = None,
    joins: bool = False,
) -> Chosen:
    """Choose the method that best predicts held-out rows from the columns that a new row has.

    Each known row is held out in turn; all of its entries but those of `columns` are hidden, and predicted
    from the other rows (episodic validation, Paragon section 3.4). Uncertain entries weigh less.

    Args:
        rows: (m, n) known rows, 3 or more: natural logarithms, or scores from 0 to 1.
        columns: (k,) columns of the new row's entries; not all.
        methods: methods to choose from, one or more.
        level: whether each row has an unknown level.
        deviations: (m, n) standard deviations of the entries, in their unit; None where they are not known.
        groups: (m,) numbers of groups that are held out as a whole, 3 or more; None for rows one by one.
        joins: whether means of the best methods of different kinds are tried too.

    Raises:
        InputError: for too few rows.
    """
    if len(rows) < MIN_ROWS:
        raise InputError(f"needs {MIN_ROWS} or more workloads that are measured whole, not {len(rows)}")
    tried: list[_Tried] = [
        (held_out(rows, columns, each, level=level, deviations=deviations, groups=groups), (each,))
        for each in methods
    ]
    errors = {parts[0].name: found.mean_error for found, parts in tried}
    if joins:
        means = _joins(tried)
        errors |= {_name(parts): found.mean_error for found, parts in means}
        tried += means
    found, parts = min(tried, key=lambda each: each[0].mean_error)
    models = [part.fit(rows, level=level, deviations=deviations) for part in parts]
    return Chosen(
        name=_name(parts),
        model=models[0] if len(models) == 1 else JoinedModel(models),
        scale=calibration(found.missed, found.deviation, found.groups),
        error=errors[_name(parts)],
        errors=errors,
        tails=fitted_tails(found.missed, found.deviation, found.groups),
    )


_Tried = tuple["HeldOut", tuple[Completer, ...]]


def _joins(tried: Sequence[_Tried]) -> list[_Tried]:
    """Means of the best methods of different kinds, two or more each; a kind of method is its class."""
    best: dict[type, _Tried] = {}
    for each in sorted(tried, key=lambda one: one[0].mean_error):
        best.setdefault(type(each[1][0]), each)
    kinds = list(best.values())[:KINDS_JOINED]
    sets = [some for size in range(2, MAX_JOINED + 1) for some in itertools.combinations(kinds, size)]
    return [(_mean_of([found for found, _ in some]), tuple(part for _, (part,) in some)) for some in sets]


def _mean_of(found: Sequence[HeldOut]) -> HeldOut:
    """Held-out predictions of the mean of several methods. The error of measurement is in all of them."""
    missed, deviation = joined(
        np.array([each.missed for each in found]), np.array([each.deviation for each in found])
    )
    return HeldOut(missed, deviation, found[0].weights, found[0].groups)


def _name(parts: Sequence[Completer]) -> str:
    names = [part.name for part in parts]
    return names[0] if len(names) == 1 else f"mean of {'; '.join(names)}"


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Predictions of entries that were hidden.

    Attributes:
        missed: (h, n) predicted less measured values.
        deviation: (h, n) standard deviations of these, by the model and the measurement together.
        weights: (h, n) weights of the errors in their mean.
        groups: (h,) numbers of the groups of rows that were held out as a whole.
    """

    missed: Floats
    deviation: Floats
    weights: Floats
    groups: Ints

    @property
    def mean_error(self) -> float:
        """Weighted mean of the absolute errors."""
        return float(np.average(np.abs(self.missed), weights=self.weights))


def held_out(
    rows: Floats,
    columns: Ints,
    method: Completer,
    *,
    level: bool,
    deviations: Floats | None = None,
    groups: Ints | None = None,
) -> HeldOut:
    """Errors of predicting hidden entries of known rows, for h rows held out and n - k hidden columns.

    Args:
        rows: (m, n) known rows, transformed.
        columns: (k,) columns that are not hidden; not all.
        level: whether each row has an unknown level.
        deviations: (m, n) standard deviations of the entries, in their unit; None where they are not known.
        groups: (m,) numbers of groups that are held out as a whole; None for rows one by one.
    """
    hidden = np.setdiff1d(np.arange(rows.shape[1]), columns)
    known = np.zeros_like(rows) if deviations is None else deviations
    missed, predicted, measured, judged = [], [], [], []
    for group, others in _folds(len(rows), groups):
        sure = None if deviations is None else known[others]
        model = method.fit(rows[others], level=level, deviations=sure)
        if deviations is None:
            means, deviation = model.predict(columns, rows[group][:, columns])
        else:
            each = [
                model.complete(columns, rows[r, columns], EntryErrors(variances=known[r, columns] ** 2))
                for r in group
            ]
            means = np.array([found.mean for found in each])
            deviation = np.array([found.deviation for found in each])
        missed.append((means - rows[group])[:, hidden])
        predicted.append(deviation[:, hidden])
        measured.append(known[group][:, hidden])
        judged.append(group if groups is None else groups[group])
    error = np.concatenate(measured)
    return HeldOut(
        missed=np.concatenate(missed),
        deviation=np.hypot(np.concatenate(predicted), error),
        weights=1.0 / (SURE_DEVIATION**2 + error**2),
        groups=np.concatenate(judged),
    )


def _folds(count: int, groups: Ints | None) -> Iterator[tuple[Ints, Ints]]:
    """Rows to judge, and rows to fit: all that are of no judged group."""
    belongs = np.arange(count) if groups is None else groups
    units = np.unique(belongs)
    folds = min(MAX_FOLDS, len(units))
    for fold in range(folds):
        out = np.isin(belongs, units[fold::folds])
        judged = np.flatnonzero(out)
        places = np.linspace(0, len(judged) - 1, min(len(judged), MAX_HELD_OUT // MAX_FOLDS)).astype(int)
        yield judged[places], np.flatnonzero(~out)
