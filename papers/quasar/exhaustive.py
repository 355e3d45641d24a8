"""One exhaustive classification beside four parallel ones, with as many measurements (Table 4.3)."""

from __future__ import annotations

import numpy as np

from kwiken.allocator.workloads.completion.gaussian import FoldIn, GaussianModel
from kwiken.base.arrays import Floats, Ints
from papers.worlds.fleet.generators import replica_rows, score_rows, size_rows
from papers.worlds.populations.platforms import platform_rows

SHAPE = (12, 6, 10, 10)  # sizes, numbers of nodes, platforms and patterns of contention: 7,200 columns
KNOWN, NEW = 30, 60
ENTRIES = 2  # of each of the four, and four times as many of the joint matrix
RANK = 2
RIDGE = 1e-3
NOISE = 0.02
MAX_LOSS = 0.5  # of performance, by a pattern to which a workload is wholly sensitive


def world(rng: np.random.Generator) -> tuple[Floats, ...]:
    """Four matrices of log performance whose sums are the joint one: (90, n) for each of `SHAPE`."""
    count = KNOWN + NEW
    sizes = size_rows(rng, count, 0.0)[:, : SHAPE[0]]
    nodes = replica_rows(rng, count, 0.0)[:, [0, 1, 3, 7, 15, 31]]
    platforms = platform_rows(rng, count, 1)
    losses = np.log1p(-MAX_LOSS * score_rows(rng, count, RANK))
    return sizes, nodes, platforms, losses


def compare(seed: int) -> dict[str, list[float]]:
    """Mean error of each new workload over all columns, by one joint completion and by four composed."""
    rng = np.random.default_rng(seed)
    parts = world(rng)
    joint = _joint(parts)
    noisy = joint + rng.normal(0, NOISE, joint.shape)
    whole = [
        _exhaustive(noisy[:KNOWN], row, rng.choice(joint.shape[1], len(SHAPE) * ENTRIES, replace=False))
        for row in noisy[KNOWN:]
    ]
    models = [
        FoldIn(RANK, RIDGE).fit(part[:KNOWN] + rng.normal(0, NOISE, (KNOWN, part.shape[1])), level=True)
        for part in parts
    ]
    composed = [_composed(models, parts, place, rng) for place in range(KNOWN, KNOWN + NEW)]
    truth = joint[KNOWN:]
    return {
        name: np.abs(np.expm1(np.array(found) - truth)).mean(axis=1).tolist()
        for name, found in (("exhaustive", whole), ("parallel", composed))
    }


def _joint(parts: tuple[Floats, ...]) -> Floats:
    """(90, 7200) sums over every combination of columns."""
    up, out, het, loss = parts
    cube = (
        up[:, :, None, None, None]
        + out[:, None, :, None, None]
        + het[:, None, None, :, None]
        + loss[:, None, None, None, :]
    )
    joint: Floats = cube.reshape(len(up), -1)
    return joint


def _exhaustive(known: Floats, row: Floats, columns: Ints) -> Floats:
    """Ridge regression on the leading factors: `FoldIn` without its covariance of 7,200 by 7,200 numbers."""
    centre = known - known.mean(axis=1, keepdims=True)
    mean = centre.mean(axis=0)
    _, singular, right = np.linalg.svd(centre - mean, full_matrices=False)
    factors = right[:RANK].T * singular[:RANK] / np.sqrt(len(known))
    design = np.column_stack((np.ones(len(columns)), factors[columns]))
    system = design.T @ design + RIDGE * np.diag([0.0] + [1.0] * RANK)
    found = np.linalg.solve(system, design.T @ (row[columns] - mean[columns]))
    predicted: Floats = mean + found[0] + factors @ found[1:]
    predicted[columns] = row[columns]
    return predicted


def _composed(
    models: list[GaussianModel], parts: tuple[Floats, ...], place: int, rng: np.random.Generator
) -> Floats:
    """Sum of four completions; each is measured with the other three at their first column, the reference."""
    found: list[Floats] = []
    for model, part in zip(models, parts, strict=True):
        columns = rng.choice(part.shape[1], ENTRIES, replace=False)
        values = part[place, columns] + rng.normal(0, NOISE, ENTRIES)
        found.append(model.complete(columns, values).mean[None, :])
    joint: Floats = _joint(tuple(found))[0]
    return joint
