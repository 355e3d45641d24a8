"""Mean of several models of rows: each is wrong in its own way, and where they disagree is uncertain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kwiken.allocator.workloads.completion.gaussian import AS_LEARNED, Completion, EntryErrors, Model
from kwiken.base.arrays import Floats, Ints


def joined(means: Floats, deviations: Floats) -> tuple[Floats, Floats]:
    """Mean of several predictions, and its standard deviation with the disagreement of the predictions.

    Args:
        means: (p, ...) predictions, in the unit of the rows.
        deviations: (p, ...) their standard deviations, in the same unit.
    """
    deviation = np.sqrt((deviations**2).mean(axis=0) + means.var(axis=0))
    return means.mean(axis=0), np.asarray(deviation)


@dataclass(frozen=True, eq=False)
class JoinedModel:
    """Mean of the predictions of several models.

    Attributes:
        models: two models or more, fitted to the same rows.
    """

    models: Sequence[Model]

    def complete(self, columns: Ints, values: Floats, errors: EntryErrors = AS_LEARNED) -> Completion:
        """Complete by each model and take the mean; see `Model.complete`."""
        found = [model.complete(columns, values, errors) for model in self.models]
        means = np.array([each.mean for each in found])
        apart = means - means.mean(axis=0)
        covariance = np.mean([each.covariance for each in found], axis=0) + apart.T @ apart / len(found)
        noise = float(np.mean([each.noise for each in found]))
        return Completion(means.mean(axis=0), covariance, noise, columns)

    def predict(self, columns: Ints, values: Floats) -> tuple[Floats, Floats]:
        """Predict several rows that were measured in the same columns; see `Model.predict`."""
        found = [model.predict(columns, values) for model in self.models]
        return joined(np.array([mean for mean, _ in found]), np.array([width for _, width in found]))
