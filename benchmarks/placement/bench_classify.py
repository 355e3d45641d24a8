"""Benchmark of classification: one workload among many known ones, and one joint matrix against four."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.harness import Row, alone, side_by_side
from kwiken.allocator.workloads.classification import Classifier
from kwiken.allocator.workloads.completion.gaussian import FoldIn
from kwiken.allocator.workloads.completion.selection import candidates, choose
from kwiken.allocator.workloads.measurements import measurements_from_text
from papers.paragon.gradient_descent import GradientDescent
from papers.worlds.populations.platforms import platform_rows

ROWS = 10_000
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "allocator" / "measurements.toml"
KNOWN = 30  # known rows of the matrices that descents run over
JOINT, FOUR = 7200, (12, 6, 10, 10)  # columns of one joint matrix, and of the four that replace it
JOINT_ENTRIES, ENTRIES = 8, 2
EPOCHS = 1


def run(quick: bool) -> list[Row]:  # noqa: FBT001 - every benchmark is called alike
    rng = np.random.default_rng(0)
    rows = platform_rows(rng, ROWS + 1, 2)
    known, new = rows[:ROWS], rows[ROWS]
    columns = np.array([2, 7])
    chosen = choose(known, columns, candidates(), level=True)
    rounds = 3 if quick else 15
    measured = measurements_from_text(EXAMPLE.read_text(), where="example")
    classifier = Classifier(measured)
    workload = measured.workloads[0]
    return [
        side_by_side(
            f"one workload among {ROWS} known ones, method chosen before",
            lambda: chosen.complete(columns, new[columns]),
            (
                "factors computed anew",
                lambda: FoldIn(2, 1e-3).fit(known, level=True).complete(columns, new[columns]),
            ),
            rounds=rounds,
            unit="ms",
            scale=1e3,
            target=1.0,
        ),
        alone(
            f"choosing the method by {ROWS} known workloads",
            lambda: choose(known, columns, candidates(), level=True),
            rounds=3,
            unit="ms",
            scale=1e3,
        ),
        alone(
            "all five matrices of one workload, methods chosen before",
            lambda: classifier.classify(workload),
            rounds=rounds,
            unit="ms",
            scale=1e3,
            target=10.0,
        ),
        side_by_side(
            f"four matrices by gradient descent, {EPOCHS} epoch",
            lambda: [descend(rng.normal(size=(KNOWN + 1, size)), ENTRIES) for size in FOUR],
            (
                f"one joint matrix of {JOINT} columns",
                lambda: descend(rng.normal(size=(KNOWN + 1, JOINT)), JOINT_ENTRIES),
            ),
            rounds=1 if quick else 3,
            unit="ms",
            scale=1e3,
        ),
    ]


def descend(rows: np.ndarray, entries: int) -> np.ndarray:
    """One descent over known rows and a new one; the time does not depend on the values."""
    columns = np.arange(entries)[None, :]
    model = GradientDescent(2, max_epochs=EPOCHS).fit(rows[:-1], level=True)
    return model.complete_all(columns, rows[-1:, :entries])
