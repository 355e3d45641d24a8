"""Ranks of many numbers among sorted ones, quicker than by bisection.

A bisection's steps go left or right by chance, and a processor that guesses wrong at every other of them
spends most of its time on that. Here a table finds the rank up to a few, and the same few steps without any
branch do the rest for all numbers at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kwiken.arrays import Floats

Ints = NDArray[np.int64]
BUCKETS = 1 << 15  # of the table, at most
FEWEST = 1 << 11  # values from which a table pays
CROWD = 15  # most values in a bucket; where there are more, ties say, bisection is as good
LINEAR = 8  # the lowest values, one in so many, lie in buckets of equal width; above, of equal ratio


@dataclass(frozen=True)
class Ranks:
    """Sorted values with a table of them.

    The bits of a positive float, read as a whole number, ascend about as its logarithm. So the upper bits
    of a value plus `offset_ms` are its bucket: rounding never puts a smaller value above a larger one's.

    Attributes:
        values: (k,) ascending, at least 0.
        padded: the same, and infinite ones beyond.
        starts: by bucket: how many values lie in those before it.
        steps: powers of 2, descending, that together are no less than the values of any bucket.
        offset_ms: what is added to a value.
        shift: bits that do not count.
        first: number of the lowest bucket.
    """

    values: Floats
    padded: Floats
    starts: Ints
    steps: tuple[int, ...]
    offset_ms: float
    shift: int
    first: int

    @classmethod
    def of(cls, values: Floats) -> Ranks | None:
        """The table of ascending values; None where bisection is as good.

        Args:
            values: (k,) ascending, finite, at least 0; milliseconds or any unit.
        """
        if len(values) < FEWEST or not values[0] >= 0:
            return None
        offset = float(values[len(values) // LINEAR])
        least, most = float(values[0]) + offset, float(values[-1]) + offset
        if not (offset > 0 and np.isfinite(most)):
            return None
        low, high = np.array([least, most]).view(np.int64).tolist()
        shift = max(0, (high - low).bit_length() - BUCKETS.bit_length() + 1)
        first = low >> shift
        count = np.bincount(((values + offset).view(np.int64) >> shift) - first)
        crowd = int(count.max())
        if crowd > CROWD:
            return None
        steps = tuple(1 << bit for bit in reversed(range(crowd.bit_length())))
        starts = np.zeros(len(count) + 1, np.int64)
        np.cumsum(count, out=starts[1:])
        padded = np.concatenate((values, np.full(2 * CROWD, np.inf)))
        return cls(values, padded, starts, steps, offset, shift, first)

    def below(self, numbers: Floats) -> Ints:
        """How many of the values are smaller than each number, as `searchsorted` has it.

        Args:
            numbers: (m,) finite, at least 0, in the values' unit.
        """
        bucket = (numbers + self.offset_ms).view(np.int64)
        bucket >>= self.shift
        bucket -= self.first
        found: Ints = self.starts.take(bucket, mode="clip")
        for step in self.steps:
            found += (self.padded[step - 1 :].take(found) < numbers) * step
        return found
