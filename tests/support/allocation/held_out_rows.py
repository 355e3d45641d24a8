"""Reference implementation of held-out errors, with a loop over rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kwiken.allocator.workloads.completion.gaussian import Completer, EntryErrors
from kwiken.base.arrays import Floats, Ints


@dataclass(frozen=True, eq=False)
class HeldOutRow:
    """A row that was held out, with the errors, deviations and weights of its hidden entries."""

    row: int
    missed: Floats
    deviation: Floats
    weights: Floats


def held_out_rows(
    rows: Floats,
    columns: Ints,
    method: Completer,
    *,
    level: bool,
    deviations: Floats | None = None,
    groups: Ints | None = None,
) -> list[HeldOutRow]:
    """Predict every row from the rows of other folds: ten folds or fewer, each of every tenth group."""
    belongs = np.arange(len(rows)) if groups is None else groups
    units = sorted(set(belongs.tolist()))
    folds = min(10, len(units))
    hidden = [column for column in range(rows.shape[1]) if column not in columns]
    found = []
    for fold in range(folds):
        out = [row for row in range(len(rows)) if units.index(belongs[row]) % folds == fold]
        others = [row for row in range(len(rows)) if row not in out]
        sure = None if deviations is None else deviations[others]
        model = method.fit(rows[others], level=level, deviations=sure)
        if len(out) > 20:  # spread evenly over the fold
            out = [out[int(place * (len(out) - 1) / 19)] for place in range(20)]
        for row in out:
            own = np.zeros(rows.shape[1]) if deviations is None else deviations[row]
            errors = EntryErrors(variances=None if deviations is None else own[columns] ** 2)
            told = model.complete(columns, rows[row, columns], errors)
            found.append(
                HeldOutRow(
                    row,
                    (told.mean - rows[row])[hidden],
                    np.hypot(told.deviation, own)[hidden],
                    1.0 / (0.05**2 + own[hidden] ** 2),
                )
            )
    return found
