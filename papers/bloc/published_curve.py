"""Published latency of a disk over its use, and the limit of use that follows from it."""

from __future__ import annotations

from typing import Final

import numpy as np

from kwiken.base.arrays import Floats

BASE_MS: Final = 1.5  # latency of an idle disk in the published curve


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
