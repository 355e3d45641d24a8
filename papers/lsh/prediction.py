"""Prediction of contention scores from hashed neighbours, as published (LSH, sections 2.3 and 2.4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from kwiken.base.arrays import Floats, Ints
from kwiken.base.errors import InputError
from papers.worlds.schedulers.hashed_index import HashedIndex, HashFamily

NEIGHBOURS: Final = 5  # of the source
CLUSTERS: Final = 10  # of the source
TRAINING: Final = 150  # rows of the source
RADIUS_PER_SCORE: Final = 0.1  # distance within which rows are neighbours, by coordinate
RESTARTS: Final = 10
ROUNDS: Final = 50  # of moving the centres of clusters


@dataclass(frozen=True, eq=False)
class NeighbourPrediction:
    """Row that was predicted from neighbours.

    Attributes:
        row: (n,) scores from 0 to 1; those that were measured are as measured.
        neighbours: (k,) indices of the neighbours, nearest first.
        alone: whether no row was within the radius, so that the nearest ones were taken at any distance.
    """

    row: Floats
    neighbours: Ints
    alone: bool


class HashedPredictor:
    """Median of the nearest rows that a hashed index reports.

    Args:
        rows: (m, n) known rows of scores from 0 to 1, one or more.
        columns: (k,) columns that every new row is measured in.
        count: most neighbours, 1 or more.
        radius: distance within which rows are neighbours; None for a tenth of the number of coordinates.

    Raises:
        InputError: for no rows, no columns, or fewer neighbours than one.
    """

    def __init__(
        self,
        rows: Floats,
        columns: Ints,
        *,
        count: int = NEIGHBOURS,
        radius: float | None = None,
        seed: int = 0,
    ) -> None:
        if not len(rows) or not len(columns) or count < 1:
            raise InputError("needs one row, one column and one neighbour at least")
        self._rows, self._columns, self._count = rows, columns, count
        reach = RADIUS_PER_SCORE * len(columns) if radius is None else radius
        self._index = HashedIndex(HashFamily(len(columns), reach, seed=seed))
        for place, row in enumerate(rows[:, columns]):
            self._index.add(place, row)

    def predict(self, values: Floats) -> NeighbourPrediction:
        """Predict a row from its measured scores.

        Args:
            values: (k,) scores from 0 to 1, in the order of the columns.
        """
        near = [name for name, _ in self._index.query(values)[: self._count]]
        alone = not near
        if alone:
            apart = np.linalg.norm(self._rows[:, self._columns] - values, axis=1)
            near = np.argsort(apart, kind="stable")[: self._count].tolist()
        row = np.median(self._rows[near], axis=0)
        row[self._columns] = values
        return NeighbourPrediction(row, np.array(near, dtype=np.int64), alone)


def training_rows(
    rows: Floats, count: int = TRAINING, clusters: int = CLUSTERS, *, rng: np.random.Generator
) -> Ints:
    """Rows to keep as examples: as many of each cluster, and the rest from the others in turn.

    Args:
        rows: (m, n) rows of scores from 0 to 1.
        count: number of rows to keep, 1 to m.
        clusters: number of clusters, 1 or more; at most as many as rows.

    Returns:
        (count,) indices of rows, rising, each once.

    Raises:
        InputError: for more rows than there are, or for none.
    """
    if not 1 <= count <= len(rows):
        raise InputError(f"1 to {len(rows)} rows can be kept, not {count}")
    belongs = _clustered(rows, min(clusters, len(rows)), rng)
    waiting = [
        rng.permutation(np.flatnonzero(belongs == one)).tolist() for one in np.unique(belongs).tolist()
    ]
    kept: list[int] = []
    while len(kept) < count:
        for members in waiting:
            if members and len(kept) < count:
                kept.append(members.pop())
    return np.array(sorted(kept), dtype=np.int64)


def _clustered(rows: Floats, clusters: int, rng: np.random.Generator) -> Ints:
    """(m,) number of each row's cluster: k-means, the best of several starts at spread-out centres."""
    best, least = np.zeros(len(rows), dtype=np.int64), np.inf
    for _ in range(RESTARTS):
        centres = _spread_out(rows, clusters, rng)
        for _ in range(ROUNDS):
            apart = ((rows[:, None, :] - centres[None]) ** 2).sum(axis=2)
            belongs = apart.argmin(axis=1)
            moved = np.array(
                [
                    rows[belongs == one].mean(axis=0) if (belongs == one).any() else centres[one]
                    for one in range(len(centres))
                ]
            )
            if np.allclose(moved, centres):
                break
            centres = moved
        total = float(apart.min(axis=1).sum())
        if total < least:
            best, least = belongs.astype(np.int64), total
    return best


def _spread_out(rows: Floats, clusters: int, rng: np.random.Generator) -> Floats:
    """First centres: each row as likely as its squared distance from the centres before (k-means++)."""
    centres = [rows[rng.integers(len(rows))]]
    while len(centres) < clusters:
        apart = np.min([((rows - centre) ** 2).sum(axis=1) for centre in centres], axis=0)
        total = apart.sum()
        chances = apart / total if total > 0 else np.full(len(rows), 1.0 / len(rows))
        centres.append(rows[rng.choice(len(rows), p=chances)])
    return np.array(centres)
