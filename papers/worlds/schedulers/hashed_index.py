"""Locality-sensitive hashing of points by projections onto random lines (Datar et al., SCG 2004).

A point within the radius of a query is reported with a probability of at least one less the failure
probability; no reported point is farther away. `scipy.spatial.cKDTree` is exact and, up to some ten thousand
points, at least as fast: the index is here to be compared, and for points that come and go.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from scipy.special import ndtr

from kwiken.base.arrays import Floats, Ints
from kwiken.base.errors import InputError

WIDTH: Final = 4.0  # of a bucket, in radii
HASHES: Final = 8  # joined to one key; more make a table more selective, and more tables needed
FAILURE: Final = 0.05  # probability that a point at the radius is missed
MAX_HASHES: Final = 20
MAX_DIMENSIONS: Final = 1000


def collision_probability(distance: float, width: float = WIDTH) -> float:
    """Probability that one hash function puts two points into one bucket.

    Args:
        distance: distance of the points, in radii, 0 or more.
        width: width of a bucket, in radii, above 0.
    """
    if distance <= 0:
        return 1.0
    t = width / distance
    edge = 2.0 / (math.sqrt(2.0 * math.pi) * t) * -math.expm1(-t * t / 2.0)
    return float(1.0 - 2.0 * ndtr(-t) - edge)


def tables_for(hashes: int, failure: float = FAILURE, width: float = WIDTH) -> int:
    """Number of tables with which a point at the radius is missed at most that often.

    Args:
        hashes: number of hash functions that are joined to one key, 1 or more.
        failure: probability of missing a point at the radius, above 0 and below 1.
        width: width of a bucket, in radii, above 0.
    """
    found = collision_probability(1.0, width) ** hashes
    return math.ceil(math.log(1.0 / failure) / -math.log1p(-found))


class HashFamily:
    """Hash functions that give points close to one another one key, in a number of tables.

    Args:
        dimensions: number of coordinates of a point, 1 to 1,000.
        radius: distance within which two points are to share a key, above 0, in the unit of the coordinates.
        failure: probability that two points at the radius share none, above 0 and below 1.
        hashes: number of hash functions that are joined to one key, 1 to 20.
        seed: seed of the random lines.

    Attributes:
        tables: number of tables.

    Raises:
        InputError: for a setting out of its range.
    """

    def __init__(
        self,
        dimensions: int,
        radius: float,
        *,
        failure: float = FAILURE,
        hashes: int = HASHES,
        seed: int = 0,
    ) -> None:
        if not 1 <= dimensions <= MAX_DIMENSIONS:
            raise InputError(f"dimensions must be from 1 to {MAX_DIMENSIONS}, not {dimensions}")
        if not 0 < radius < math.inf:
            raise InputError(f"radius must be a finite number above 0, not {radius}")
        if not 0 < failure < 1:
            raise InputError(f"failure must be above 0 and below 1, not {failure}")
        if not 1 <= hashes <= MAX_HASHES:
            raise InputError(f"hashes must be from 1 to {MAX_HASHES}, not {hashes}")
        self.dimensions, self.radius = dimensions, radius
        self.tables = tables_for(hashes, failure)
        rng = np.random.default_rng(seed)
        lines = self.tables * hashes
        self._lines: Floats = rng.normal(size=(dimensions, lines)) / radius
        self._offsets: Floats = rng.uniform(0.0, WIDTH, lines)
        # Odd factors of 64 bits that mix the numbers of the buckets to one key of each table.
        self._mix: Ints = rng.integers(1 << 62, size=hashes, dtype=np.int64) * 2 + 1

    def keys(self, points: Floats) -> Ints:
        """Keys of points in each table.

        Args:
            points: (m, d) finite coordinates.

        Returns:
            (m, t) keys.
        """
        buckets = np.floor((points @ self._lines + self._offsets) / WIDTH).astype(np.int64)
        return np.asarray(buckets.reshape(len(points), self.tables, -1) @ self._mix)


class HashedIndex:
    """Points by name, found again by their distance from a query: those within the family's radius.

    Args:
        family: hash functions by which points are found; it decides how often one at the radius is missed.
    """

    def __init__(self, family: HashFamily) -> None:
        self._family = family
        self.dimensions, self.radius, self.tables = family.dimensions, family.radius, family.tables
        self._buckets: list[dict[int, list[int]]] = [{} for _ in range(self.tables)]
        self._points: dict[int, Floats] = {}

    def __len__(self) -> int:
        """Number of points."""
        return len(self._points)

    def add(self, name: int, point: Floats) -> None:
        """Add a point, or move the one of that name.

        Args:
            name: number that names the point.
            point: (d,) finite coordinates.

        Raises:
            InputError: for another number of coordinates, or one that is not finite.
        """
        self._check(point)
        self.remove(name)
        self._points[name] = np.array(point, dtype=float)
        for table, key in zip(self._buckets, self._keys(self._points[name]), strict=True):
            table.setdefault(key, []).append(name)

    def remove(self, name: int) -> None:
        """Remove the point of a name; nothing happens where there is none."""
        point = self._points.pop(name, None)
        if point is None:
            return
        for table, key in zip(self._buckets, self._keys(point), strict=True):
            table[key].remove(name)
            if not table[key]:
                del table[key]

    def query(self, point: Floats) -> list[tuple[int, float]]:
        """Points within the radius that share a bucket with the query: names and distances, nearest first.

        Args:
            point: (d,) finite coordinates.

        Raises:
            InputError: for another number of coordinates, or one that is not finite.
        """
        self._check(point)
        found: set[int] = set()
        for table, key in zip(self._buckets, self._keys(point), strict=True):
            found.update(table.get(key, ()))
        if not found:
            return []
        names = sorted(found)
        apart = np.linalg.norm(np.array([self._points[name] for name in names]) - point, axis=1)
        order = np.argsort(apart, kind="stable").tolist()
        return [(names[at], float(apart[at])) for at in order if apart[at] <= self.radius]

    def _keys(self, point: Floats) -> list[int]:
        """Key of a point in each table."""
        keys: list[int] = self._family.keys(point[None, :])[0].tolist()
        return keys

    def _check(self, point: Floats) -> None:
        if np.shape(point) != (self.dimensions,):
            raise InputError(f"a point must have {self.dimensions} coordinates, not {np.shape(point)}")
        if not np.isfinite(point).all():
            raise InputError("coordinates must be finite numbers")
