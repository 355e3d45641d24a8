"""Nearest known workloads of one that is classified: how far they are, and where they disagree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from kwiken.allocator.workloads.completion.joined import JoinedModel
from kwiken.allocator.workloads.completion.nearest import NearestModel
from kwiken.allocator.workloads.completion.selection import Chosen
from kwiken.allocator.workloads.measurements import Matrix
from kwiken.base.arrays import Floats, Ints

SHOWN: Final = 5  # neighbours where the chosen method does not say how many it takes


@dataclass(frozen=True)
class Neighbourhood:
    """Nearest rows of one matrix.

    Attributes:
        names: names of the nearest workloads, nearest first.
        distances: root mean square of the difference of each over the measured entries, in natural
            logarithms or points of a score.
        used: whether the chosen method predicts by these neighbours.
        label: size, number of replicas, node class or source where the neighbours disagree most, of those
            that were not measured.
        spread: standard deviation of the neighbours there, in the same unit as the distances.
    """

    names: tuple[str, ...]
    distances: tuple[float, ...]
    used: bool
    label: Any
    spread: float


def neighbourhood(matrix: Matrix, columns: Ints, values: Floats, chosen: Chosen) -> Neighbourhood:
    """Neighbours of a row, as many as the chosen method takes.

    Args:
        columns: (k,) columns of the row's entries; not all.
        values: (k,) the entries: natural logarithms, or scores from 0 to 1.
        chosen: method that completes the row.
    """
    members = chosen.model.models if isinstance(chosen.model, JoinedModel) else (chosen.model,)
    found = next((each for each in members if isinstance(each, NearestModel)), None)
    model = found or NearestModel(matrix.rows, matrix.level, SHOWN)
    near, apart = model.neighbours(columns, values)
    rows = matrix.rows[near]
    if matrix.level:
        rows = rows - rows[:, columns].mean(axis=1, keepdims=True)
    spread = rows.std(axis=0)
    free = np.setdiff1d(np.arange(len(spread)), columns)
    at = int(free[np.argmax(spread[free])])
    names = matrix.names or tuple(f"row {place + 1}" for place in range(len(matrix.rows)))
    return Neighbourhood(
        names=tuple(names[place] for place in near.tolist()),
        distances=tuple(apart.tolist()),
        used=found is not None,
        label=matrix.labels[at],
        spread=float(spread[at]),
    )
