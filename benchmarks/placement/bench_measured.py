"""Benchmark of classification on measured workloads: median error for few revealed columns, beside means."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.harness import Row
from kwiken.allocator.workloads import (
    ColumnMeans,
    Measurements,
    candidates,
    choose,
    first_columns,
    measurements_from_text,
)
from kwiken.allocator.workloads.completion import EntryErrors
from kwiken.base.arrays import Floats, Ints
from kwiken.runtime.probes import RECORDED_HISTORY

REVEALED = (1, 2, 3)
QUICK_ROWS = 3
# Average errors of the source at two entries, the largest of its kinds of workloads (Quasar, Table 4.2).
SOURCE_PERCENT = {"size": 8.0, "replicas": 7.5, "node class": 5.2, "tolerated": 7.2, "caused": 7.2}
SOURCE_ENTRIES = 2


def run(quick: bool) -> list[Row]:  # noqa: FBT001 - every benchmark is called alike
    known = measurements_from_text(RECORDED_HISTORY.read_text(), where="history", min_workloads=0)
    return [
        row
        for title, matrix, reference, replicas in kinds(known)
        for count in REVEALED
        if count < len(matrix.labels)
        for row in errors(title, matrix, count, reference, replicas, QUICK_ROWS if quick else None)
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
    title: str,
    matrix: Any,
    count: int,
    reference: object,
    counts: tuple[int, ...] | None,
    most: int | None,
) -> list[Row]:
    """Median error over hidden entries, each workload held out in turn, beside two simpler ways.

    The first row is beside plain means. The second, where deviations are known, is beside the same completion
    with all entries taken alike.
    """
    given = None if reference is None else np.array([matrix.labels.index(reference)])
    alike = replace(matrix, deviations=None)
    ours: list[float] = []
    means: list[float] = []
    unweighed: list[float] = []
    for place in range(len(matrix.rows) if most is None else min(most, len(matrix.rows))):
        rows, new = np.delete(matrix.rows, place, axis=0), matrix.rows[place]
        columns = first_columns(rows, count, level=matrix.level, given=given)
        hidden = np.setdiff1d(np.arange(rows.shape[1]), columns)
        mean = ColumnMeans().fit(rows, level=matrix.level).complete(columns, new[columns]).mean
        found = [(mean, means)]
        found.append((completed(matrix, place, columns, counts), ours))
        if matrix.deviations is not None:
            found.append((completed(alike, place, columns, counts), unweighed))
        for predicted, into in found:
            into.extend(missed(predicted, new, matrix.level)[hidden])
    what = f"{title}, {count} revealed of {len(matrix.labels)}, {len(matrix.rows)} workloads"
    what = f"{what}: error of {'performance' if matrix.level else 'score'}"
    target = SOURCE_PERCENT[title] if count == SOURCE_ENTRIES else None
    found_rows = [beside(what, matrix, ours, "column means", means, target)]
    if unweighed:
        name = f"{what}, uncertain entries weigh less"
        found_rows.append(beside(name, matrix, ours, "all entries weigh alike", unweighed, None))
    return found_rows


def completed(matrix: Any, place: int, columns: Ints, counts: tuple[int, ...] | None) -> Floats:
    """Row of a workload, predicted from some columns by the method that the other workloads choose."""
    deviations = matrix.deviations
    chosen = choose(
        np.delete(matrix.rows, place, axis=0),
        columns,
        candidates(counts),
        level=matrix.level,
        deviations=None if deviations is None else np.delete(deviations, place, axis=0),
    )
    errors = EntryErrors(variances=None if deviations is None else deviations[place, columns] ** 2)
    return chosen.complete(columns, matrix.rows[place, columns], errors).mean


def beside(
    name: str,
    matrix: Any,
    ours: list[float],
    alternative: str,
    theirs: list[float],
    target: float | None,
) -> Row:
    """Row of two lists of errors."""
    ours_, theirs_ = float(np.median(ours)), float(np.median(theirs))
    return Row(
        name=name,
        ours=100 * ours_,
        unit="%" if matrix.level else "points",
        target=target,
        alternative=alternative,
        theirs=100 * theirs_,
        ratio=theirs_ / ours_ if ours_ > 0 else None,
    )


def missed(predicted: Floats, true: Floats, level: bool) -> Floats:  # noqa: FBT001 - a fact of the matrix
    """Relative error of a performance, or absolute error of a score from 0 to 1."""
    if level:
        return np.asarray(np.abs(np.exp(predicted - true) - 1))
    return np.asarray(np.abs(np.clip(predicted, 0, 1) - true))
