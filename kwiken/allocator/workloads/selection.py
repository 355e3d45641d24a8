"""Choice of a method of completion by its error on held-out rows, and calibration of its deviations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from kwiken.allocator.workloads.completion import (
    AS_LEARNED,
    BayesianRows,
    ColumnMeans,
    Completer,
    Completion,
    EntryErrors,
    FoldIn,
    Model,
)
from kwiken.allocator.workloads.scalability import Scalability
from kwiken.base.arrays import Floats, Ints
from kwiken.base.errors import InputError

MIN_ROWS: Final = 3  # known rows: one is held out, and two show a spread
MAX_HELD_OUT: Final = 200  # rows that are held out, of a long history
MAX_FOLDS: Final = 10  # groups of rows that are held out together
COVERED: Final = 0.9  # share of held-out errors that their predicted interval must cover
NORMAL_QUANTILE: Final = 1.6449  # half width of that interval, in standard deviations
MIN_SCALE, MAX_SCALE = 0.05, 20.0  # factor on standard deviations
MIN_DEVIATION: Final = 1e-12  # where a method claims to know exactly
SURE_DEVIATION: Final = 0.05  # of an entry, score or logarithm: a surer one weighs hardly more in the choice
RANKS: Final = (1, 2, 3)
RIDGES: Final = (3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1)  # of `FoldIn` (Paragon section 3.4)
PRIOR_SHARES: Final = (0.002, 0.05, 0.3)
NOISES: Final = (2e-5, 1e-4, 4e-4, 1.6e-3, 6.4e-3)  # variances: deviations of 0.4% to 8%
LAW_NOISES: Final = (2e-5, 4e-4, 6.4e-3)  # of the scalability law


@dataclass(frozen=True, eq=False)
class Chosen:
    """Method with the least held-out error, fitted to all known rows.

    Attributes:
        name: name of the method with its settings.
        scale: factor on the model's standard deviations that made 90% intervals cover 90% of held-out errors.
        error: mean absolute held-out error, in the unit of the rows.
        errors: mean absolute held-out error by name of every method that was tried: logarithm, or score
            from 0 to 1.
    """

    name: str
    model: Model
    scale: float
    error: float
    errors: dict[str, float]

    def complete(self, columns: Ints, values: Floats, errors: EntryErrors = AS_LEARNED) -> Completion:
        """Complete a row with calibrated standard deviations; see `Model.complete`.

        Args:
            columns: (k,) columns of the entries, each once.
            values: (k,) the entries: natural logarithms, or scores from 0 to 1.
            errors: what is known of the entries' errors.
        """
        return self.model.complete(columns, values, errors).scaled(self.scale)


def candidates(replicas: Sequence[int] | None = None) -> tuple[Completer, ...]:
    """Methods to choose from, with their settings.

    Args:
        replicas: number of replicas of each column of a scale-out matrix; None for another matrix.
    """
    folded = tuple(FoldIn(rank, ridge) for rank in RANKS for ridge in RIDGES)
    bayesian = tuple(BayesianRows(share, noise) for share in PRIOR_SHARES for noise in NOISES)
    laws = () if replicas is None else tuple(Scalability(tuple(replicas), noise) for noise in LAW_NOISES)
    return (ColumnMeans(), *folded, *bayesian, *laws)


def choose(
    rows: Floats,
    columns: Ints,
    methods: Sequence[Completer],
    *,
    level: bool,
    deviations: Floats | None = None,
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

    Raises:
        InputError: for too few rows.
    """
    if len(rows) < MIN_ROWS:
        raise InputError(f"needs {MIN_ROWS} or more workloads that are measured whole, not {len(rows)}")
    tried = [(held_out(rows, columns, each, level=level, deviations=deviations), each) for each in methods]
    errors = {method.name: found.mean_error for found, method in tried}
    found, best = min(tried, key=lambda each: each[0].mean_error)
    return Chosen(
        name=best.name,
        model=best.fit(rows, level=level, deviations=deviations),
        scale=calibration(found.missed, found.deviation),
        error=errors[best.name],
        errors=errors,
    )


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Predictions of entries that were hidden.

    Attributes:
        missed: (h, n) predicted less measured values.
        deviation: (h, n) standard deviations of these, by the model and the measurement together.
        weights: (h, n) weights of the errors in their mean.
    """

    missed: Floats
    deviation: Floats
    weights: Floats

    @property
    def mean_error(self) -> float:
        """Weighted mean of the absolute errors."""
        return float(np.average(np.abs(self.missed), weights=self.weights))


def held_out(
    rows: Floats, columns: Ints, method: Completer, *, level: bool, deviations: Floats | None = None
) -> HeldOut:
    """Errors of predicting hidden entries of known rows, for h rows held out and n - k hidden columns.

    Args:
        rows: (m, n) known rows, transformed.
        columns: (k,) columns that are not hidden; not all.
        level: whether each row has an unknown level.
        deviations: (m, n) standard deviations of the entries, in their unit; None where they are not known.
    """
    hidden = np.setdiff1d(np.arange(rows.shape[1]), columns)
    judged = np.linspace(0, len(rows) - 1, min(len(rows), MAX_HELD_OUT)).astype(int)
    known = np.zeros_like(rows) if deviations is None else deviations
    missed, predicted, measured = [], [], []
    for fold in range(min(MAX_FOLDS, len(judged))):
        group = judged[fold :: min(MAX_FOLDS, len(judged))]
        sure = None if deviations is None else np.delete(known, group, axis=0)
        model = method.fit(np.delete(rows, group, axis=0), level=level, deviations=sure)
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
    error = np.concatenate(measured)
    return HeldOut(
        missed=np.concatenate(missed),
        deviation=np.hypot(np.concatenate(predicted), error),
        weights=1.0 / (SURE_DEVIATION**2 + error**2),
    )


def calibration(missed: Floats, deviation: Floats) -> float:
    """Factor on standard deviations by which a 90% interval covers 90% of the errors.

    Args:
        missed: (h, n) errors.
        deviation: (h, n) predicted standard deviations.
    """
    ratios = np.abs(missed) / np.maximum(deviation, MIN_DEVIATION)
    # Entries of a row miss together, so rows count: among h rows the worst is seen too rarely, by one in h.
    covered = min(COVERED * (1 + 1 / len(missed)), 1.0)
    scale = float(np.quantile(ratios, covered)) / NORMAL_QUANTILE
    return min(max(scale, MIN_SCALE), MAX_SCALE)
