"""Benchmark of classification on measured workloads: median error for few revealed columns, beside means."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.harness import Row
from kwiken.arrays import Floats
from kwiken.runtime.probes import RECORDED_HISTORY
from kwiken.workloads import (
    ColumnMeans,
    Measurements,
    candidates,
    choose,
    first_columns,
    measurements_from_text,
)

REVEALED = (1, 2, 3)
QUICK_ROWS = 3


def run(quick: bool) -> list[Row]:  # noqa: FBT001 - every benchmark is called alike
    known = measurements_from_text(RECORDED_HISTORY.read_text(), where="history", min_workloads=0)
    return [
        errors(title, matrix, count, reference, replicas, QUICK_ROWS if quick else None)
        for title, matrix, reference, replicas in kinds(known)
        for count in REVEALED
        if count < len(matrix.labels)
    ]


def kinds(known: Measurements) -> list[tuple[str, Any, object, tuple[int, ...] | None]]:
    """Name, matrix, label that is always revealed, and numbers of replicas of the columns."""
    counts = tuple(int(label) for label in known.out.labels)
    return [
        ("size", known.up, known.reference.size, None),
        ("replicas", known.out, 1, counts),
        ("node class", known.het, known.reference.node_class, None),
        ("tolerated", known.tolerated, None, None),
        ("caused", known.caused, None, None),
    ]


def errors(
    title: str, matrix: Any, count: int, reference: object, counts: tuple[int, ...] | None, most: int | None
) -> Row:
    """Median error over hidden entries, each workload held out in turn."""
    given = None if reference is None else np.array([matrix.labels.index(reference)])
    ours: list[float] = []
    means: list[float] = []
    for place in range(len(matrix.rows) if most is None else min(most, len(matrix.rows))):
        rows, new = np.delete(matrix.rows, place, axis=0), matrix.rows[place]
        columns = first_columns(rows, count, level=matrix.level, given=given)
        hidden = np.setdiff1d(np.arange(rows.shape[1]), columns)
        chosen = choose(rows, columns, candidates(counts), level=matrix.level)
        mean = ColumnMeans().fit(rows, level=matrix.level)
        for found, into in ((chosen, ours), (mean, means)):
            into.extend(missed(found.complete(columns, new[columns]).mean, new, matrix.level)[hidden])
    ours_, means_ = float(np.median(ours)), float(np.median(means))
    what = f"{title}, {count} revealed of {len(matrix.labels)}, {len(matrix.rows)} workloads"
    return Row(
        name=f"{what}: error of {'performance' if matrix.level else 'score'}",
        ours=100 * ours_,
        unit="%" if matrix.level else "points",
        alternative="column means",
        theirs=100 * means_,
        ratio=means_ / ours_ if ours_ > 0 else None,
    )


def missed(predicted: Floats, true: Floats, level: bool) -> Floats:  # noqa: FBT001 - a fact of the matrix
    """Relative error of a performance, or absolute error of a score from 0 to 1."""
    if level:
        return np.asarray(np.abs(np.exp(predicted - true) - 1))
    return np.asarray(np.abs(np.clip(predicted, 0, 1) - true))
