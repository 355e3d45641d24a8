"""Rank table: counts the values below each of many numbers, faster than bisection.

The branches of a bisection are random, so the processor mispredicts half of them, and that takes most of its
time. Here a table gives the rank up to a few values, and a few branchless steps, the same for all numbers,
find the rest.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kwiken.base.arrays import Floats

Ints = NDArray[np.int64]
MAX_BUCKETS = 1 << 15
MIN_VALUES_FOR_TABLE = 1 << 11  # below this bisection is as fast
MAX_VALUES_PER_BUCKET = 15  # where ties put more in one bucket, bisection is as fast
LINEAR_PART = 8  # the lowest eighth of the values has buckets of equal width, the rest of equal ratio


@dataclass(frozen=True)
class Ranks:
    """Sorted values with a table of their ranks.

    The bits of a positive float, read as an integer, grow about as its logarithm. The upper bits of a value
    plus `offset_ms` are therefore its bucket. Rounding is monotonic, so a smaller value is never in a higher
    bucket than a larger one.

    Attributes:
        values: (k,) values, ascending, 0 or more; milliseconds or any unit.
        padded: (m,) the values followed by infinities, in the same unit.
        starts: (b,) number of values in all buckets before each bucket.
        steps: powers of 2, descending, whose sum is at least the number of values in any bucket.
        offset_ms: offset added to a value before its bucket is computed, in the values' unit.
        shift: number of lower bits that are dropped.
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
        """Table of ascending values; None where bisection is as fast.

        Args:
            values: (k,) values, ascending, finite, 0 or more; milliseconds or any unit.
        """
        if len(values) < MIN_VALUES_FOR_TABLE or not values[0] >= 0:
            return None
        offset = float(values[len(values) // LINEAR_PART])
        least, most = float(values[0]) + offset, float(values[-1]) + offset
        if not (offset > 0 and np.isfinite(most)):
            return None
        low, high = np.array([least, most]).view(np.int64).tolist()
        shift = max(0, (high - low).bit_length() - MAX_BUCKETS.bit_length() + 1)
        first = low >> shift
        count = np.bincount(((values + offset).view(np.int64) >> shift) - first)
        fullest = int(count.max())
        if fullest > MAX_VALUES_PER_BUCKET:
            return None
        steps = tuple(1 << bit for bit in reversed(range(fullest.bit_length())))
        starts = np.zeros(len(count) + 1, np.int64)
        np.cumsum(count, out=starts[1:])
        padded = np.concatenate((values, np.full(2 * MAX_VALUES_PER_BUCKET, np.inf)))
        return cls(values, padded, starts, steps, offset, shift, first)

    def below(self, numbers: Floats) -> Ints:
        """(m,): number of values smaller than each number, as `searchsorted` counts them.

        Args:
            numbers: (m,) numbers, finite, 0 or more, in the values' unit.
        """
        bucket = (numbers + self.offset_ms).view(np.int64)
        bucket >>= self.shift
        bucket -= self.first
        found: Ints = self.starts.take(bucket, mode="clip")
        for step in self.steps:
            found += (self.padded[step - 1 :].take(found) < numbers) * step
        return found
