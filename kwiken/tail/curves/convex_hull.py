"""Lower convex, non-increasing hull of the points of a curve (Kwiken section 5.2.2)."""

from __future__ import annotations

import numpy as np

from kwiken.base.arrays import Bools, Floats


def lower_hull(x: Floats, y: Floats) -> tuple[Floats, Bools]:
    """Greatest convex, non-increasing function below the points, evaluated at the points.

    After Kwiken section 5.2.2. A raw curve is flat where many calls end at the same latency, and a greedy
    search would stop there; the hull bridges the flat part.

    Args:
        x: (k,) strictly ascending values: shares of calls, or any unit.
        y: (k,) finite values: variances, or any unit.

    Returns:
        (k,) values of the hull at `x`, in the unit of `y`, and (k,) whether the point is a vertex.
    """
    xs, ys = x.tolist(), y.tolist()
    corners: list[int] = []
    for i in range(len(xs)):
        while len(corners) > 1 and _above_chord(xs, ys, corners[-2], corners[-1], i):
            corners.pop()
        corners.append(i)
    lowest = min(range(len(corners)), key=lambda k: ys[corners[k]])
    kept = corners[: lowest + 1]  # beyond its lowest point the hull stays flat
    vertices = np.zeros(len(xs), dtype=np.bool_)
    vertices[kept] = True
    hull = np.interp(x, x[kept], y[kept])
    hull[kept] = y[kept]
    return np.minimum(hull, y), vertices


def _above_chord(x: list[float], y: list[float], left: int, middle: int, right: int) -> bool:
    rise = (y[right] - y[left]) * (x[middle] - x[left])
    return (y[middle] - y[left]) * (x[right] - x[left]) >= rise
