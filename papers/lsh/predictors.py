"""Predictors of scores that are compared: hashed neighbours, Paragon's factors, and what `classify` does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import numpy as np

from kwiken.allocator.workloads.completion.gaussian import FoldIn
from kwiken.allocator.workloads.completion.selection import CompletionKind, candidates, choose
from kwiken.base.arrays import Floats, Ints
from papers.lsh.prediction import HashedPredictor

RANKS: Final = (1, 2, 3, 6, 10)  # of the published factors, from which held-out error chooses
RIDGES: Final = (1e-3, 1e-2, 1e-1)

# Predicted rows, from known rows, columns that are measured, and the measured entries of new rows.
Predictor = Callable[[Floats, Ints, Floats], Floats]


def neighbours(known: Floats, columns: Ints, seen: Floats, *, count: int = 5) -> Floats:
    """(b, n) medians of hashed neighbours, as published."""
    predictor = HashedPredictor(known, columns, count=count)
    return np.array([predictor.predict(each).row for each in seen])


def paragon(known: Floats, columns: Ints, seen: Floats) -> Floats:
    """(b, n) rows by Paragon's factors in closed form; rank and penalty by held-out error."""
    methods = tuple(FoldIn(rank, ridge) for rank in RANKS for ridge in RIDGES)
    chosen = choose(known, columns, methods, level=False)
    return np.clip(chosen.model.predict(columns, seen)[0], 0.0, 1.0)


def classified(
    known: Floats, columns: Ints, seen: Floats, *, method: CompletionKind = CompletionKind.BEST
) -> Floats:
    """(b, n) rows by `kwiken classify`."""
    chosen = choose(
        known, columns, candidates(None, method), level=False, joins=method is CompletionKind.BEST
    )
    return np.clip(chosen.model.predict(columns, seen)[0], 0.0, 1.0)


def gaussian(known: Floats, columns: Ints, seen: Floats) -> Floats:
    """(b, n) rows by `kwiken classify --method gaussian`, which is the completion of before."""
    return classified(known, columns, seen, method=CompletionKind.GAUSSIAN)


PREDICTORS: Final[Mapping[str, Predictor]] = MappingProxyType(
    {"LSH": neighbours, "Paragon": paragon, "kwiken gaussian": gaussian, "kwiken best": classified}
)
