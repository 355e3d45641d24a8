"""Choice of a method of completion by its error on held-out rows, and calibration of its deviations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from kwiken.arrays import Floats, Ints
from kwiken.errors import InputError
from kwiken.workloads.completion import (
    BayesianRows,
    ColumnMeans,
    Completer,
    Completion,
    FoldIn,
    Model,
)
from kwiken.workloads.scalability import Scalability

MIN_ROWS: Final = 3  # known rows: one is held out, and two show a spread
MAX_HELD_OUT: Final = 200  # rows that are held out, of a long history
MAX_FOLDS: Final = 10  # groups of rows that are held out together
COVERED: Final = 0.9  # share of held-out errors that their predicted interval must cover
NORMAL_QUANTILE: Final = 1.6449  # half width of that interval, in standard deviations
MIN_SCALE, MAX_SCALE = 0.05, 20.0  # factor on standard deviations
MIN_DEVIATION: Final = 1e-12  # where a method claims to know exactly
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
        model: the fitted model.
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

    def complete(self, columns: Ints, values: Floats, repeats: Floats | None = None) -> Completion:
        """Complete a row with calibrated standard deviations; see `Model.complete`.

        Args:
            columns: (k,) columns of the entries, each once.
            values: (k,) the entries: natural logarithms, or scores from 0 to 1.
            repeats: (k,) number of measurements that each entry is the mean of; None for one each.
        """
        return self.model.complete(columns, values, repeats).scaled(self.scale)


def candidates(replicas: Sequence[int] | None = None) -> tuple[Completer, ...]:
    """Methods to choose from, with their settings.

    Args:
        replicas: number of replicas of each column of a scale-out matrix; None for another matrix.
    """
    folded = tuple(FoldIn(rank, ridge) for rank in RANKS for ridge in RIDGES)
    bayesian = tuple(BayesianRows(share, noise) for share in PRIOR_SHARES for noise in NOISES)
    laws = () if replicas is None else tuple(Scalability(tuple(replicas), noise) for noise in LAW_NOISES)
    return (ColumnMeans(), *folded, *bayesian, *laws)


def choose(rows: Floats, columns: Ints, methods: Sequence[Completer], *, level: bool) -> Chosen:
    """Choose the method that best predicts held-out rows from the columns that a new row has.

    Each known row is held out in turn; all of its entries but those of `columns` are hidden, and predicted
    from the other rows (episodic validation, Paragon section 3.4).

    Args:
        rows: (m, n) known rows, 3 or more: natural logarithms, or scores from 0 to 1.
        columns: (k,) columns of the new row's entries; not all.
        methods: methods to choose from, one or more.
        level: whether each row has an unknown level.

    Raises:
        InputError: for too few rows.
    """
    if len(rows) < MIN_ROWS:
        raise InputError(f"needs {MIN_ROWS} or more workloads that are measured whole, not {len(rows)}")
    tried = [(held_out(rows, columns, method, level=level), method) for method in methods]
    errors = {method.name: float(np.mean(np.abs(missed))) for (missed, _), method in tried}
    (missed, deviation), best = min(tried, key=lambda each: float(np.mean(np.abs(each[0][0]))))
    return Chosen(
        name=best.name,
        model=best.fit(rows, level=level),
        scale=calibration(missed, deviation),
        error=errors[best.name],
        errors=errors,
    )


def held_out(rows: Floats, columns: Ints, method: Completer, *, level: bool) -> tuple[Floats, Floats]:
    """Errors of predicting hidden entries of known rows, and their predicted standard deviations.

    Args:
        rows: (m, n) known rows, transformed.
        columns: (k,) columns that are not hidden; not all.
        method: method of completion.
        level: whether each row has an unknown level.

    Returns:
        Two arrays (h, n - k) for h rows held out: predicted less true values, and standard deviations.
    """
    hidden = np.setdiff1d(np.arange(rows.shape[1]), columns)
    judged = np.linspace(0, len(rows) - 1, min(len(rows), MAX_HELD_OUT)).astype(int)
    missed, deviations = [], []
    for fold in range(min(MAX_FOLDS, len(judged))):
        group = judged[fold :: min(MAX_FOLDS, len(judged))]
        model = method.fit(np.delete(rows, group, axis=0), level=level)
        means, deviation = model.predict(columns, rows[group][:, columns])
        missed.append((means - rows[group])[:, hidden])
        deviations.append(deviation[:, hidden])
    return np.concatenate(missed), np.concatenate(deviations)


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
