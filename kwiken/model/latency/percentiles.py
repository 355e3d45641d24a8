"""Latency percentiles from the median to p99.9, as used in plans and reports."""

from __future__ import annotations

import numpy as np

from kwiken.base.arrays import Floats
from kwiken.base.errors import InputError
from kwiken.model.plan import Ladder

PERCENTILES = (50.0, 90.0, 95.0, 99.0, 99.9)


def ladder(latency_ms: Floats) -> Ladder:
    """Ladder of latency percentiles, milliseconds: p50, p90, p95, p99, p99.9.

    Args:
        latency_ms: (n,) latencies of requests, milliseconds.

    Raises:
        InputError: when there are none.
    """
    if not len(latency_ms):
        raise InputError("there are no requests")
    p50, p90, p95, p99, p999 = np.percentile(latency_ms, PERCENTILES).tolist()
    return Ladder(p50_ms=p50, p90_ms=p90, p95_ms=p95, p99_ms=p99, p999_ms=p999)
