"""Benchmark of classification on measured workloads: median error for few revealed columns, beside means."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.harness import Row
from benchmarks.placement.public_matrices import POINTS_BEHIND, SEED, run_public
from kwiken.allocator.workloads.classification import first_columns
from kwiken.allocator.workloads.completion.gaussian import ColumnMeans, EntryErrors
from kwiken.allocator.workloads.completion.selection import CompletionKind, candidates, choose
from kwiken.allocator.workloads.measurements import Measurements, measurements_from_text
from kwiken.base.arrays import Floats, Ints
from kwiken.probes.recorded import RECORDED_HISTORY
from papers.worlds.fleet.generators import score_rows, size_rows
from papers.worlds.populations.platforms import platform_rows

REVEALED = (1, 2, 3)
QUICK_ROWS = 3
KNOWN, NEW = 20, 40  # rows of a synthetic matrix
SEEDS = 4
# Average errors of the source at two entries, the largest of its kinds of workloads (Quasar, Table 4.2).
SOURCE_PERCENT = {"size": 8.0, "replicas": 7.5, "node class": 5.2, "tolerated": 7.2, "caused": 7.2}
SOURCE_ENTRIES = 2


def run(quick: bool) -> list[Row]:  # noqa: FBT001 - every benchmark is called alike
    known = measurements_from_text(RECORDED_HISTORY.read_text(), where="history", min_workloads=0)
    recorded = [
        row
        for title, matrix, reference, replicas in kinds(known)
        for count in REVEALED
        if count < len(matrix.labels)
        for row in errors(title, matrix, count, reference, replicas, QUICK_ROWS if quick else None)
    ]
    return [*recorded, *synthetic_rows(quick), *run_public(quick)]


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
    by_kind: dict[CompletionKind, list[float]] = {CompletionKind.NEAREST: [], CompletionKind.GAUSSIAN: []}
    for place in range(len(matrix.rows) if most is None else min(most, len(matrix.rows))):
        rows, new = np.delete(matrix.rows, place, axis=0), matrix.rows[place]
        columns = first_columns(rows, count, level=matrix.level, given=given)
        hidden = np.setdiff1d(np.arange(rows.shape[1]), columns)
        mean = ColumnMeans().fit(rows, level=matrix.level).complete(columns, new[columns]).mean
        found = [(mean, means)]
        found.append((completed(matrix, place, columns, counts), ours))
        found += [(completed(matrix, place, columns, counts, kind), into) for kind, into in by_kind.items()]
        if matrix.deviations is not None:
            found.append((completed(alike, place, columns, counts), unweighed))
        for predicted, into in found:
            into.extend(missed(predicted, new, matrix.level)[hidden])
    what = f"{title}, {count} revealed of {len(matrix.labels)}, {len(matrix.rows)} workloads"
    what = f"{what}: error of {'performance' if matrix.level else 'score'}"
    target = SOURCE_PERCENT[title] if count == SOURCE_ENTRIES else None
    found_rows = [
        beside(what, matrix, ours, "column means", means, target),
        beside_kinds(what, ours, by_kind, "%" if matrix.level else "points"),
    ]
    if unweighed:
        name = f"{what}, uncertain entries weigh less"
        found_rows.append(beside(name, matrix, ours, "all entries weigh alike", unweighed, None))
    return found_rows


def completed(
    matrix: Any,
    place: int,
    columns: Ints,
    counts: tuple[int, ...] | None,
    method: CompletionKind = CompletionKind.BEST,
) -> Floats:
    """Row of a workload, predicted from some columns by the method that the other workloads choose."""
    deviations = matrix.deviations
    chosen = choose(
        np.delete(matrix.rows, place, axis=0),
        columns,
        candidates(counts, method),
        level=matrix.level,
        deviations=None if deviations is None else np.delete(deviations, place, axis=0),
        joins=method is CompletionKind.BEST,
    )
    errors = EntryErrors(variances=None if deviations is None else deviations[place, columns] ** 2)
    return chosen.complete(columns, matrix.rows[place, columns], errors).mean


def synthetic_rows(quick: bool) -> list[Row]:  # noqa: FBT001 - every benchmark is called alike
    """Rows of synthetic matrices: the choice beside the better of its two kinds of method alone."""
    rows = []
    drawn: dict[str, tuple[Callable[[np.random.Generator], Floats], bool]] = {
        "platforms, one trait": (lambda rng: platform_rows(rng, KNOWN + NEW, 1), True),
        "platforms, two traits": (lambda rng: platform_rows(rng, KNOWN + NEW, 2), True),
        "scores, two traits": (lambda rng: score_rows(rng, KNOWN + NEW, 2), False),
        "sizes": (lambda rng: size_rows(rng, KNOWN + NEW), True),
    }
    for name, (draw, level) in drawn.items():
        for count in REVEALED:
            missed_by: dict[CompletionKind, list[float]] = {kind: [] for kind in CompletionKind}
            for seed in range(1 if quick else SEEDS):
                every = draw(np.random.default_rng([SEED, seed]))
                known, new = every[:KNOWN], every[KNOWN:]
                columns = np.sort(first_columns(known, count, level=level))
                hidden = np.setdiff1d(np.arange(known.shape[1]), columns)
                for kind, into in missed_by.items():
                    chosen = choose(
                        known, columns, candidates(None, kind), level=level, joins=kind is CompletionKind.BEST
                    )
                    found = chosen.model.predict(columns, new[:, columns])[0]
                    into.extend(missed(found, new, level)[:, hidden].ravel())
            ours = missed_by.pop(CompletionKind.BEST)
            what = f"synthetic {name}, {count} chosen of {known.shape[1]}: error"
            rows.append(beside_kinds(what, ours, missed_by, "%" if level else "points"))
    return rows


def beside_kinds(what: str, ours: list[float], by_kind: dict[CompletionKind, list[float]], unit: str) -> Row:
    """Row of the choice beside the better kind of method alone; it may be behind by a point."""
    error = {kind: 100 * float(np.median(missed)) for kind, missed in by_kind.items()}
    alone = min(error, key=lambda kind: error[kind])
    found = 100 * float(np.median(ours))
    return Row(
        name=f"{what}, by kind of method",
        ours=found,
        unit=unit,
        target=error[alone] + POINTS_BEHIND,
        alternative=f"{alone.value} alone",
        theirs=error[alone],
        ratio=error[alone] / found if found > 0 else None,
    )


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
