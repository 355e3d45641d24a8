"""Reference implementation of the published gradient descent, with loops over single numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from kwiken.base.arrays import Floats


def descended(
    rows: Floats,
    columns: Sequence[int],
    values: Sequence[float],
    rank: int,
    *,
    level: bool,
    rate: float = 0.5,
    penalty: float = 3e-3,
    epochs: int = 400,
    tolerance: float = 1e-5,
    seed: int = 0,
) -> Floats:
    """Complete one row by the published gradient descent (Paragon 3.4, `pq_sgd`)."""
    count, size = rows.shape
    free = rows - rows.mean(axis=1, keepdims=True) if level else rows
    mean = free.mean(axis=0)
    left, singular, right = np.linalg.svd(free - mean, full_matrices=False)
    of_rows = [[left[row, one] * math.sqrt(count) for one in range(rank)] for row in range(count)]
    of_rows.append([0.0] * rank)
    of_columns = [
        [right[one, j] * singular[one] / math.sqrt(count) for one in range(rank)] for j in range(size)
    ]
    known = [[rows[row, j] - mean[j] for j in range(size)] for row in range(count)]
    new = dict(zip(columns, [value - mean[j] for j, value in zip(columns, values, strict=True)], strict=True))
    levels = [float(rows[row].mean()) if level else 0.0 for row in range(count)]
    levels.append(sum(new.values()) / len(new) if level else 0.0)
    entries = [(row, j) for row in range(count) for j in range(size)] + [(count, j) for j in columns]
    rng, last = np.random.default_rng(seed), math.inf
    for _ in range(epochs):
        total = 0.0
        for place in rng.permutation(len(entries)).tolist():
            row, j = entries[place]
            p, q = of_rows[row], of_columns[j]
            value = known[row][j] if row < count else new[j]
            error = value - levels[row] - sum(a * b for a, b in zip(p, q, strict=True))
            of_rows[row] = [a + rate * (error * b - penalty * a) for a, b in zip(p, q, strict=True)]
            of_columns[j] = [
                b + 10 * rate / count * (error * a - penalty * b) for a, b in zip(p, q, strict=True)
            ]
            if level:
                levels[row] += rate * error
            total += error**2
        now = math.sqrt(total)
        if abs(last - now) <= tolerance * now:
            break
        last = now
    found = [
        mean[j] + levels[count] + sum(a * b for a, b in zip(of_rows[count], of_columns[j], strict=True))
        for j in range(size)
    ]
    for j, value in zip(columns, values, strict=True):
        found[j] = value
    return np.array(found)
