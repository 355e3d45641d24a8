"""Limits of a data set on a disk: the most use at which its latency still meets a target.

A latency curve is the mean or p99 latency over the share of the disk's rated bandwidth, or of its capacity,
that is in use. A limit is the curve inverted at the target.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from kwiken.base.arrays import Floats
from kwiken.base.errors import InputError

BASE_MS: Final = 1.5  # latency of an idle disk in the published curve
NEVER: Final = 0.0  # limit of a data set that meets its target on no disk


@dataclass(frozen=True, eq=False)
class DiskCurve:
    """Latency of a data set over the use of its disk.

    Attributes:
        use: (k,) rising shares of the rated bandwidth or of the capacity, 0 to 1.
        latency_ms: (k,) latencies at these shares, milliseconds; made rising where they are not.

    Raises:
        InputError: fewer than two points, or shares that do not rise.
    """

    use: Floats
    latency_ms: Floats

    def __post_init__(self) -> None:
        """Check the points, and take the rising hull of the latencies."""
        if len(self.use) < 2 or len(self.use) != len(self.latency_ms):  # noqa: PLR2004 - two points of a line
            raise InputError("a curve needs two points or more, of use and latency", where="curve")
        if not (np.diff(self.use) > 0).all() or not (np.isfinite(self.latency_ms).all()):
            raise InputError("the use of a curve must rise, and latencies must be numbers", where="curve")
        object.__setattr__(self, "latency_ms", np.maximum.accumulate(self.latency_ms))

    def limit(self, target_ms: float) -> float:
        """Largest share of use at which the latency meets a target; 0 where it never does.

        Args:
            target_ms: target, milliseconds.
        """
        if self.latency_ms[0] > target_ms:
            return NEVER
        if self.latency_ms[-1] <= target_ms:
            return float(self.use[-1])
        after = int(np.argmax(self.latency_ms > target_ms))
        low, high = self.latency_ms[after - 1], self.latency_ms[after]
        share = (target_ms - low) / (high - low)
        return float(self.use[after - 1] + share * (self.use[after] - self.use[after - 1]))


def published_latency_ms(use: Floats | float, most: float) -> Floats:
    """Latency of the published simulator, milliseconds: it has a pole where the disk gives no more.

    Args:
        use: (n,) shares of the rated bandwidth.
        most: share at which the latency has no bound.
    """
    room = 1.0 - np.asarray(use, dtype=np.float64) / most
    return np.where(room > 0, BASE_MS / np.maximum(room, 1e-9), np.inf)


def published_limit(target_ms: float, most: float) -> float:
    """Share of use at which `published_latency_ms` meets a target; 0 where it never does.

    Args:
        target_ms: target, milliseconds.
        most: share at which the latency has no bound.
    """
    return max(0.0, most * (1.0 - BASE_MS / target_ms))
